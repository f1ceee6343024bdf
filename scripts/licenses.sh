#!/usr/bin/env bash
# List the licence of every package linked into the program, and fail when one is
# not among those we allow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

allowed='Apache-2.0 BSD-2-Clause BSD-3-Clause ISC MIT'

# Licences that the tool cannot recognise, read by hand: package prefix, licence.
# These are allowed as they are; each needs its line in THIRD_PARTY_LICENSES.
by_hand='
github.com/ajstarks/svgo CC-BY-4.0
github.com/golang/freetype FTL
modernc.org/mathutil BSD-3-Clause
'

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

echo "$report" | awk -F, -v allowed="$allowed" -v by_hand="$by_hand" '
  BEGIN {
    n = split(allowed, a, " "); for (i = 1; i <= n; i++) ok[a[i]] = 1
    n = split(by_hand, a, /[ \n]+/)
    for (i = 2; i < n; i += 2) hand[a[i]] = a[i + 1]
  }
  {
    licence = $3; fine = licence in ok
    for (prefix in hand) if (index($1, prefix) == 1) { licence = hand[prefix]; fine = 1 }
    printf "%-50s %s%s\n", $1, licence, fine ? "" : "  NOT ALLOWED"
    if (!fine) bad = 1
  }
  END { exit bad }'
printf '%-50s %s\n' \
  'HiGHS (linked in)' MIT \
  'lp_solve (optional, loaded at run time)' LGPL-2.1
