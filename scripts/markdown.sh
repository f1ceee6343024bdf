#!/usr/bin/env bash
# Write the tables that workbench prints, whose columns are two spaces apart, as Markdown:
#
#   workbench place sweeps/night --align 512 | scripts/markdown.sh
exec awk -F '  +' '
  /^─/ { for (rule = "|"; columns > 0; columns--) rule = rule "---|"; print rule; next }
  { columns = NF; sub(/^ /, ""); sub(/ $/, ""); gsub(/  +/, " | "); print "| " $0 " |" }'
