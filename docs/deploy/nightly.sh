#!/bin/sh
# One night: the sweep into a folder of today, or on with it if it was cut off,
# then the report, beside the night before if there is one.
#
#   nightly.sh SPEC NIGHTS
#
# NIGHTS gets a folder a night. An interruption is passed on, so that tasks which
# run are finished; the next call on the same day goes on.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: nightly.sh SPEC NIGHTS" >&2
  exit 2
fi
spec=$1 nights=$2
today=$(date +%F)
mkdir -p "$nights"

workbench bench run "$spec" --into "$nights/$today" --resume &
run=$!
trap 'kill -TERM "$run" 2>/dev/null || true' INT TERM
status=0
wait "$run" || status=$?
while [ "$status" -gt 128 ] && kill -0 "$run" 2>/dev/null; do # wait was interrupted
  status=0
  wait "$run" || status=$?
done
[ "$status" -eq 0 ] || exit "$status"

before=
for night in "$nights"/????-??-??; do
  if [ "$night" != "$nights/$today" ] && [ -e "$night/tasks.jsonl" ]; then
    before=$night
  fi
done
if [ -n "$before" ]; then
  workbench bench report "$nights/$today" --before "$before" --output "$nights/$today/report.html"
else
  workbench bench report "$nights/$today" --output "$nights/$today/report.html"
fi
