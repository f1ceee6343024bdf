#!/usr/bin/env bash
# Print the first table of a document whose header row begins with a text, so that another page can show it, too.
#   scripts/excerpt.sh docs/placement.md '| instance | limits | bound | exact'
set -euo pipefail
awk -v header="$2" '!found && index($0, header) == 1 { found = 1 } found == 1 && !/^\|/ { found = 2 } found == 1' "$1" | grep .
