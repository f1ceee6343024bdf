#!/usr/bin/env bash
# Print a table of a sweep of the documents, which is done first as far as it is not:
#
#   scripts/table.sh chains --table time   # bench/spec/tables/chains.yaml
#
# Rows are kept in the folder SWEEPS (default: sweeps). What follows the name goes to
# workbench bench report. --in-process before the name is for many tasks that take next to
# nothing.
set -euo pipefail

how=()
if [ "$1" = --in-process ]; then
  how=("$1")
  shift
fi
name=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$PWD/bin
folder=${SWEEPS:-sweeps}/$name
workbench bench run "bench/spec/tables/$name.yaml" "${how[@]}" --resume --quiet --into "$folder" >/dev/null
workbench bench report "$folder" "$@"
