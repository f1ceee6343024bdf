#!/usr/bin/env bash
# List the licence of every package linked into the program, and fail when one is
# not among those we allow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

allowed='Apache-2.0 BSD-2-Clause BSD-3-Clause ISC MIT Unlicense'

# Built, and the packages fetched, before the network is shut off below.
tool=$(go tool -modfile=tools/go.mod -n go-licenses)
go list -deps ./cmd/... >/dev/null

# The tool would also look up the address of each licence in the network. We do not
# need those, and a proxy that refuses at once saves the waiting.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
nowhere=http://127.0.0.1:9
report=$(HTTP_PROXY=$nowhere HTTPS_PROXY=$nowhere http_proxy=$nowhere https_proxy=$nowhere \
  "$tool" report ./cmd/... --ignore "$(go list -m)" 2>"$log") || { cat "$log" >&2 && exit 1; }

# Licences the tool cannot read, read by hand: svgo's is CC-BY-4.0 without terms
# on binaries, freetype's the FreeType licence (it may also be had under the GPL), mathutil's BSD-3
# with its lines in another order.
read_by_hand='github.com/golang/freetype/raster=FTL modernc.org/mathutil=BSD-3-Clause'

echo "$report" | awk -F, -v allowed="$allowed" -v hand="$read_by_hand" '
  BEGIN {
    h = split(hand, b, " "); for (i = 1; i <= h; i++) { split(b[i], c, "="); known[c[1]] = c[2] }
    n = split(allowed, a, " "); for (i = 1; i <= n; i++) ok[a[i]] = 1
  }
  $3 == "Unknown" && $1 in known { printf "%-50s %s (read by hand)\n", $1, known[$1]; next }
  {
    printf "%-50s %s%s\n", $1, $3, $3 in ok ? "" : "  NOT ALLOWED"
    if (!($3 in ok)) bad = 1
  }
  END { exit bad }'
printf '%-50s %s\n' \
  'HiGHS (linked in)' MIT \
  'uPlot (embedded in reports)' MIT \
  'lp_solve (optional, loaded at run time)' LGPL-2.1
