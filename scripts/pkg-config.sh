#!/bin/sh
# A stand-in for pkg-config on machines that have none and where we cannot install
# it: just enough for cgo to read one file such as highs.pc (no "Requires").
set -eu

want='' minimum='' static='' name=''
for arg; do
  case $arg in
    --cflags | --libs | --modversion | --exists) want=${arg#--} ;;
    --atleast-version=*) want=atleast minimum=${arg#*=} ;;
    --static) static=1 ;;
    --) ;;
    -*) echo "pkg-config.sh: unknown option $arg" >&2 && exit 1 ;;
    *) name=$arg ;;
  esac
done

find_file() {
  IFS=:
  for dir in ${PKG_CONFIG_PATH:-} /usr/local/lib/pkgconfig /usr/local/share/pkgconfig \
    /usr/lib/*/pkgconfig /usr/lib64/pkgconfig /usr/lib/pkgconfig /usr/share/pkgconfig; do
    [ ! -f "$dir/$name.pc" ] || { echo "$dir/$name.pc" && return; }
  done
  echo "pkg-config.sh: package $name was not found" >&2
  return 1
}

file=$(find_file)
awk -v want="$want" -v minimum="$minimum" -v static="$static" '
  # expand replaces ${variable} by its value.
  function expand(s) {
    while (match(s, /\$\{[^}]*\}/))
      s = substr(s, 1, RSTART - 1) var[substr(s, RSTART + 2, RLENGTH - 3)] substr(s, RSTART + RLENGTH)
    return s
  }
  function atleast(have, need,    h, n, i, count) {
    split(have, h, "."); count = split(need, n, ".")
    for (i = 1; i <= count; i++)
      if (h[i] + 0 != n[i] + 0) return h[i] + 0 > n[i] + 0
    return 1
  }
  match($0, /^[A-Za-z_.]+[ \t]*=/) {
    key = $0; sub(/[ \t]*=.*/, "", key); sub(/^[^=]*=[ \t]*/, ""); var[key] = expand($0); next
  }
  match($0, /^[A-Za-z_.]+:/) {
    key = $0; sub(/:.*/, "", key); sub(/^[^:]*:[ \t]*/, ""); field[key] = expand($0)
  }
  END {
    if (want == "cflags") print field["Cflags"]
    if (want == "libs") print field["Libs"] (static ? " " field["Libs.private"] : "")
    if (want == "modversion") print field["Version"]
    if (want == "atleast") exit !atleast(field["Version"], minimum)
  }' "$file"
