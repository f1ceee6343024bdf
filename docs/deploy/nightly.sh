#!/bin/sh
# One night: the sweep into a folder of today, or on with it if it was cut off,
# then the report, beside the night before if there is one.
#
#   nightly.sh SPEC NIGHTS
#
# NIGHTS gets a folder a night. Ends with status 1 if this night is worse than the
# one before. An interruption is passed on, so that tasks which run are finished;
# the next call on the same day goes on.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: nightly.sh SPEC NIGHTS" >&2
  exit 2
fi
spec=$1 nights=$2
today=$(date +%F)
mkdir -p "$nights"

# The trap comes first: a signal may come as soon as the run has begun.
run='' stopped=''
stop() {
  stopped=yes
  [ -z "$run" ] || kill -TERM "$run" 2>/dev/null || true
}
trap stop INT TERM
workbench bench run "$spec" --into "$nights/$today" --resume &
run=$!
[ -z "$stopped" ] || stop
status=0
wait "$run" || status=$?
while [ "$status" -gt 128 ] && kill -0 "$run" 2>/dev/null; do # wait was interrupted
  status=0
  wait "$run" || status=$?
done
[ "$status" -eq 0 ] || exit "$status"

night=$nights/$today
before=
for other in "$nights"/????-??-??; do
  if [ "$other" != "$night" ] && [ -e "$other/report.html" ]; then # that was done
    before=$other
  fi
done
if [ -z "$before" ]; then
  workbench bench report "$night"
  exit
fi
workbench bench report "$night" --before "$before"
workbench bench compare "$before" "$night"
