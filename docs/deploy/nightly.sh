#!/bin/sh
# One night: the sweep into a folder of today, or on with it if it was cut off, then the report
# with the two nights before, the comparison with the last, the history of all nights, and retention.
#
#   nightly.sh SPEC NIGHTS
#
# NIGHTS gets a folder a night; the last KEEP (default 30) stay. Everything is written to
# nightly.log of the night; what is printed is a summary of a few lines, as for a mail. With METRICS
# set, the last night is written to that file for Prometheus. If NIGHTS/accepted has the name of a night, the
# history begins there: what changed before is accepted.
#
# Status: 1 if this night is worse than the one before or an older regression stands, else 6 if tasks
# failed, else 0. An interruption is passed on, so that tasks which run are finished; the next call on
# the same day goes on.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: nightly.sh SPEC NIGHTS" >&2
  exit 2
fi
spec=$1 nights=$2
today=$(date +%F)
night=$nights/$today
log=$night/nightly.log
mkdir -p "$night"

# The trap comes first: a signal may come as soon as the run has begun.
run='' stopped=''
stop() {
  stopped=yes
  [ -z "$run" ] || kill -TERM "$run" 2>/dev/null || true
}
trap stop INT TERM
workbench bench run "$spec" --into "$night" --resume >>"$log" 2>&1 &
run=$!
[ -z "$stopped" ] || stop
failed=0
wait "$run" || failed=$?
while [ "$failed" -gt 128 ] && kill -0 "$run" 2>/dev/null; do # wait was interrupted
  failed=0
  wait "$run" || failed=$?
done
tail -n 1 "$log"
[ "$failed" -eq 0 ] || [ "$failed" -eq 6 ] || exit "$failed"

# say writes what a command prints to the log, its last line to the summary, and keeps its status if
# that is worse.
worst=$failed
say() {
  status=0
  "$@" >"$night/said" 2>&1 || status=$?
  cat "$night/said" >>"$log"
  tail -n 1 "$night/said"
  rm "$night/said"
  [ "$status" -eq 0 ] || [ "$worst" -eq 1 ] || worst=$status
}

# matched runs a command that compares nights. Its status 2 means that they have no task in common, as after a change of the
# specification: the report has read them, and says that it compares nothing.
# shellcheck disable=SC2317 # called by say
matched() {
  compared=0
  "$@" || compared=$?
  [ "$compared" -eq 2 ] || return "$compared"
}

accepted=$(cat "$nights/accepted" 2>/dev/null || true)
before='' earlier=''
set --
for other in "$nights"/????-??-??; do
  [ -e "$other/report.html" ] || [ "$other" = "$night" ] || continue # that was not done
  name=${other##*/}
  [ "$other" = "$night" ] || { earlier=$before; before=$other; }
  case $(printf '%s\n%s\n' "$accepted" "$name" | sort | head -n 1) in "$accepted") set -- "$@" "$other" ;; esac
done
if [ -z "$before" ]; then
  say workbench bench report "$night"
else
  say workbench bench report "$night" --before "$before" ${earlier:+--before "$earlier"}
  say matched workbench bench compare "$before" "$night"
  [ $# -lt 3 ] || say matched workbench bench history "$@" --html "$nights/history.html"
fi
workbench bench prune "$nights" --keep "${KEEP:-30}" >>"$log" 2>&1
[ -z "${METRICS:-}" ] || workbench bench status "$nights" --last 1 --prometheus "$METRICS" >>"$log" 2>&1 || true
echo "all of it: $log"
exit "$worst"
