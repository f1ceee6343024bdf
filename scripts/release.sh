#!/usr/bin/env bash
# Pack one self-contained binary with the licences of all that is in it:
# dist/workbench-VERSION-OS-ARCH.tar.gz. It is linked statically, HiGHS included, so that it
# runs in a bare root directory; lp_solve, the optional second solver, is loaded at run time
# and needs the C library that it was built with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
eval "$(scripts/setup.sh --env)"

# A tagged commit is a release; any other has its revision in the name.
version=$(sed -n 's/^## \([0-9.]*\) .*/\1/p' CHANGELOG.md | head -1)
tag=$(git describe --tags --exact-match 2>/dev/null || true)
[ "$tag" = "v$version" ] || version=$version-$(git describe --always --dirty --exclude '*' 2>/dev/null || echo unversioned)
name=workbench-$version-$(go env GOOS)-$(go env GOARCH)
into=dist/$name
rm -rf "$into"
mkdir -p "$into/licences"

# The linker warns of dlopen, by which lp_solve is found: said above.
go build -trimpath -tags netgo,osusergo -ldflags '-s -w -linkmode external -extldflags "-static"' \
  -o "$into/workbench" ./cmd/workbench 2> >(grep -v 'dlopen\|lps_open\|^# ' >&2 || true)

cp LICENSE "$into/licences/workbench.txt"
cp bench/sweep/results/uplot/LICENSE "$into/licences/uplot.txt"
highs=$(pkg-config --variable=prefix highs 2>/dev/null || true)
for text in "$highs/LICENSE.txt" "$highs/share/doc/HIGHS/LICENSE.txt" /usr/share/doc/libhighs-dev/copyright; do
  [ -e "$text" ] && cp "$text" "$into/licences/highs.txt" && break
done
[ -e "$into/licences/highs.txt" ] || { echo "release: no licence text of HiGHS beside its library" >&2; exit 1; }

# What is linked beside: Go's own packages, and the runtime of C and C++ where its text is.
cp "$(go env GOROOT)/LICENSE" "$into/licences/go.txt"
for library in libc6 libstdc++6; do
  text=/usr/share/doc/$library/copyright
  [ ! -e "$text" ] || cp "$text" "$into/licences/$library.txt"
done

# The text of each module is beside its source.
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/workbench | sort -u | while read -r path dir; do
  text=$(find "$dir" -maxdepth 1 -iname '*licen[cs]e*' -o -maxdepth 1 -iname 'copying*' | sort | head -1)
  [ -n "$text" ] || { echo "release: no licence text of $path" >&2; exit 1; }
  cp "$text" "$into/licences/$(tr / - <<<"$path").txt"
done
chmod -R u+w "$into"

# Tried where nothing else is, if that is allowed here.
if [ "$(id -u)" = 0 ]; then
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  mkdir "$root/tmp" && cp "$into/workbench" "$root/"
  chroot "$root" /workbench solve --quiet --range 40% >/dev/null
fi

tar -C dist -czf "dist/$name.tar.gz" "$name"
echo "dist/$name.tar.gz"
