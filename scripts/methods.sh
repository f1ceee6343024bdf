#!/usr/bin/env bash
# Print every method of every problem, or every formulation, as tables in Markdown, for docs/methods.md.
#   scripts/methods.sh methods|formulations
set -euo pipefail

# fields reads JSON of one field a line and prints each object's fields, in the order named, between tabs.
fields() {
  awk -v names="$1" '
    BEGIN { n = split(names, name, " ") }
    /^  \{/ { split("", value); list = "" }
    /^    "[a-z_]+": \[/ { list = $1; gsub(/[":]/, "", list); if ($0 ~ /\]/) list = ""; next }
    list && /\]/ { list = ""; next }
    list { v = $0; sub(/^ *"/, "", v); sub(/",?$/, "", v); value[list] = value[list] (value[list] ? "; " : "") v; next }
    /^    "/ { k = $1; gsub(/[":]/, "", k); v = $0; sub(/^[^:]*: "?/, "", v); sub(/"?,?$/, "", v); value[k] = v }
    /^  \}/ { for (i = 1; i <= n; i++) printf "%s%s", value[name[i]], i < n ? "\t" : "\n" }' |
    sed -e 's/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g; s/|/\\|/g; s/\*/\\*/g; s/_/\\_/g'
}

case $1 in
  methods)
    workbench methods --format json | fields "problem name kind source instances summary complexity assumptions" | awk -F'\t' '
      $1 != problem { problem = $1; printf "%s### %s\n\n| method | kind | source | takes | what it does | complexity | assumes |\n|---|---|---|---|---|---|---|\n", (NR > 1 ? "\n" : ""), problem }
      { printf "| `%s` | %s | %s | %s | %s | %s | %s |\n", $2, $3, $4, $5, $6, $7, $8 }'
    ;;
  formulations)
    printf '| formulation | problem | relation | what it is | source |\n|---|---|---|---|---|\n'
    workbench formulation list --format json | fields "name problem promise title source" | awk -F'\t' '
      { printf "| `%s` | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }'
    ;;
esac
