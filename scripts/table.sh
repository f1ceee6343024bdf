#!/usr/bin/env bash
# Print a table of a sweep of the documents, which is done first as far as it is not:
#
#   scripts/table.sh chains --table time   # bench/sweep/specification/tables/chains.yaml
#
# Rows are kept in the folder SWEEPS (default: sweeps), apart for each build; instances that are not built in are made
# by scripts/instances.sh. What follows the name goes to workbench bench report. Flags before the name go to workbench bench run:
# --in-process for many tasks that take next to nothing, --jobs=1 for some that have all cores.
set -euo pipefail

how=()
while [[ $1 == --* ]]; do
  how+=("$1")
  shift
done
name=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$PWD/bin
folder=${SWEEPS:-sweeps}/$name-$(workbench --version | cut -d" " -f3) # rows of one version
spec=bench/sweep/specification/tables/$name.yaml
# shellcheck disable=SC2013 # names of instance sets have no blanks
for instances in $(sed -n 's|.*/sweeps/instances/\([a-z]*\).*|\1|p' "$spec" | sort -u); do
  scripts/instances.sh "$instances"
done
workbench bench run "$spec" "${how[@]}" --resume --quiet --into "$folder" >/dev/null
workbench bench report "$folder" "$@"
