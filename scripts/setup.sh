#!/usr/bin/env bash
# Make the two MILP solvers available, and print nothing when they are.
#
#   scripts/setup.sh         set up what is missing
#   scripts/setup.sh --env   print the shell lines that let plain `go build` and
#                            `go test` find them: eval "$(scripts/setup.sh --env)"
#   scripts/setup.sh --readers   install CBC and GLPK where apt has them: tests have
#                            them read what the program writes
#
# HiGHS is linked into the binary, so its headers, its library and a pkg-config
# are needed, in version 1.15 or later: those before answer known models wrongly. In this
# order: the system's; the static library of a Python wheel, pinned by its digest, which
# pip fetches into the user's cache in seconds; the package manager's.
# lp_solve is loaded at run time, so only its shared library is needed. It is the
# optional second solver: failing to get it is a warning.
#
# Variables:
#   WORKBENCH_NO_INSTALL=1   never install system packages, use the cache only
#   WORKBENCH_HIGHS_WHEEL    the file of the wheel, for machines without network
#   WORKBENCH_LPSOLVE        the lp_solve shared library to use
set -euo pipefail

HIGHS_MIN=1.15
# The wheel holds libhighs.a and the headers; which Python it is for does not matter.
WHEEL=cyhighs==0.2.2
WHEEL_VERSION=1.15.1
WHEEL_SHA256='
  Linux-x86_64  manylinux_2_28_x86_64  9a30391826d8fa40ec850835ea44eeef81253f89a34c58e8c235feaabc93d649
  Linux-aarch64 manylinux_2_28_aarch64 ff3258fa560340e6c9a98cd3c5c30607dba1210d58cf9bc589288d508311f19c
  Darwin-arm64  macosx_11_0_arm64      e5a7015c555ae7fa6de8126b75b0be4c5c29a95d25f0bdf096270daa752d608b'

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/workbench
wheel_dir=$cache/highs-$WHEEL_VERSION
wheel_pc=$wheel_dir/lib/pkgconfig # where its highs.pc is
lpsolve_dir=$cache/lp_solve
work=

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# ---- system packages --------------------------------------------------------

# as_root runs a command as root without ever asking for a password: when that is
# impossible there is always the user's cache.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
  [ -z "${WORKBENCH_NO_INSTALL:-}" ] && have apt-get && as_root true 2>/dev/null
}

# apt_lists makes sure that apt knows any packages at all: a fresh container has
# no package lists. Without root they go to a private place.
apt_options=()
apt_lists() {
  [ -z "$(apt-get "${apt_options[@]}" indextargets 2>/dev/null)" ] || return 0
  if can_install; then
    say "reading the package lists"
    as_root apt-get -qq update >&2
  else
    new_work
    mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial"
    apt_options=(-o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt")
    say "reading the package lists"
    apt-get "${apt_options[@]}" -qq update >&2
  fi
}

# apt_offers PACKAGE MIN: is there a package to install, of at least that version?
apt_offers() {
  local version
  apt_lists || return 1
  version=$(apt-cache "${apt_options[@]}" policy "$1" 2>/dev/null |
    awk '$1 == "Candidate:" { print $2 }')
  case $version in '' | '(none)') return 1 ;; esac
  dpkg --compare-versions "$version" ge "$2"
}

# apt_install retries with fresh lists: old ones name files that are gone.
apt_install() {
  apt_lists
  say "installing $*"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0
    install --no-install-recommends "$@")
  as_root "${install[@]}" >/dev/null ||
    { as_root apt-get -qq update >&2 && as_root "${install[@]}" >/dev/null; }
}

# ---- a private place to work in ---------------------------------------------

# new_work makes the temporary directory. It lies in the cache so that finished
# work can be renamed into place, and what killed runs left behind is removed.
# The lock keeps two runs from building the same thing.
new_work() {
  [ -z "$work" ] || return 0
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  if have flock && ! flock -n 9; then
    say "waiting for another setup to finish"
    flock 9
  fi
  rm -rf "$cache"/work.* || true
  work=$(mktemp -d "$cache/work.XXXXXX")
}

cleanup() { [ -z "$work" ] || rm -rf "$work"; }
trap cleanup EXIT

# ---- tools ------------------------------------------------------------------

need_compiler() {
  have "${CXX:-c++}" && have "${CC:-cc}" && return 0
  if can_install; then apt_install g++ libc6-dev; else
    die "a C and C++ compiler is needed: install g++"
  fi
}

# pkg_config runs the real one, or our small replacement where there is none.
pkg_config() {
  if have "${PKG_CONFIG:-pkg-config}"; then
    "${PKG_CONFIG:-pkg-config}" "$@"
  else
    "$here/pkg-config.sh" "$@"
  fi
}

# cgo asks pkg-config for the flags.
need_pkg_config() {
  have "${PKG_CONFIG:-pkg-config}" || ! can_install || apt_install pkg-config
}

# ---- HiGHS ------------------------------------------------------------------

# usable_highs PATH: does pkg-config find a HiGHS under that PKG_CONFIG_PATH, new
# enough and with its headers where it says?
usable_highs() {
  local flag
  PKG_CONFIG_PATH=$1 pkg_config --atleast-version=$HIGHS_MIN highs 2>/dev/null || return 1
  for flag in $(PKG_CONFIG_PATH=$1 pkg_config --cflags highs) -I/usr/include; do
    [ ! -f "${flag#-I}/interfaces/highs_c_api.h" ] || return 0
  done
  return 1
}

# user_path is PKG_CONFIG_PATH without our own entry, so that running under our
# own environment gives the same answers.
user_path() {
  local path=:${PKG_CONFIG_PATH:-}:
  path=${path//:$wheel_pc:/:}
  path=${path#:}
  printf '%s' "${path%:}"
}

# highs_path prints the PKG_CONFIG_PATH to use: the system's HiGHS comes first.
highs_path() {
  local path
  path=$(user_path)
  ! usable_highs "$path" || { printf '%s' "$path" && return; }
  [ -f "$wheel_pc/highs.pc" ] && printf '%s' "$wheel_pc${path:+:$path}"
}

# fetch_wheel FILE gets the wheel, from WORKBENCH_HIGHS_WHEEL or by pip.
fetch_wheel() {
  local file=$1 platform=$2 sha256=$3
  if [ -n "${WORKBENCH_HIGHS_WHEEL:-}" ]; then
    cp "$WORKBENCH_HIGHS_WHEEL" "$file"
    sha256_is "$file" "$sha256" || die "WORKBENCH_HIGHS_WHEEL is not the wheel $WHEEL for $platform"
    return
  fi
  python3 -m pip --version >/dev/null 2>&1 ||
    { can_install && apt_install python3-pip && python3 -m pip --version >/dev/null 2>&1; } || return 1
  say "fetching HiGHS $WHEEL_VERSION (the wheel $WHEEL)"
  printf '%s --hash=sha256:%s\n' "$WHEEL" "$sha256" >"$work/wheel.txt"
  python3 -m pip download --quiet --disable-pip-version-check --retries 1 --no-deps --require-hashes \
    --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --platform "$platform" \
    --dest "$work/wheel" --requirement "$work/wheel.txt" >"$work/pip.log" 2>&1 ||
    { grep -m1 '^ERROR' "$work/pip.log" >&2 || true; return 1; }
  mv "$work"/wheel/*.whl "$file"
}

sha256_is() { # FILE SHA256
  local sum=sha256sum
  have sha256sum || sum="shasum -a 256"
  [ "$($sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

# unpack_highs unpacks the wheel into the cache. The optional parts of HiGHS that its
# library asks for are not linked in: it is told that there are none.
unpack_highs() {
  local platform sha256 out=$work/out tree=$work/tree
  read -r platform sha256 < <(awk -v m="$(uname -s)-$(uname -m)" '$1 == m { print $2, $3 }' <<<"$WHEEL_SHA256") || return 1
  have python3 || { can_install && apt_install python3-pip; } || return 1 # it unpacks, too
  fetch_wheel "$work/highs.whl" "$platform" "$sha256" || return 1
  python3 -m zipfile -e "$work/highs.whl" "$tree"
  mkdir -p "$out/lib/pkgconfig"
  cp "$tree"/lib*/libhighs.a "$out/lib"
  cp -r "$tree/include" "$out/include"
  cp "$tree/share/doc/HIGHS/LICENSE.txt" "$out"
  printf '%s\n' 'const void *HighsExtras_getApi(void) { return 0; }' \
    'int HighsExtras_getFeatureInfo(void) { return 0; }' >"$work/none.c"
  ${CC:-cc} -O2 -fPIC -c "$work/none.c" -o "$work/none.o"
  ar rcs "$out/lib/libhighs_none.a" "$work/none.o"
  highs_pc "$wheel_dir" $WHEEL_VERSION '-lhighs -lhighs_none' >"$out/lib/pkgconfig/highs.pc"
  rm -rf "$wheel_dir"
  mv "$out" "$wheel_dir" # all or nothing
}

setup_highs() {
  ! highs_path >/dev/null || return 0
  new_work
  ! highs_path >/dev/null || return 0 # another run may have got it while we waited
  ! unpack_highs || return 0
  if can_install && apt_offers libhighs-dev $HIGHS_MIN; then
    apt_install libhighs-dev || true
  elif [ -z "${WORKBENCH_NO_INSTALL:-}" ] && have brew; then
    brew install highs >&2 || true
  fi
  highs_path >/dev/null || die "there is no HiGHS >= $HIGHS_MIN, and no way to get it: install python3 and pip, set" \
    "WORKBENCH_HIGHS_WHEEL to the file of the wheel $WHEEL, or install HiGHS with its highs.pc"
}

# highs_pc DIR VERSION LIBS. Go's build cache does not notice another library behind
# pkg-config, but it does notice another flag.
highs_pc() {
  cat <<END
prefix=$1
libdir=\${prefix}/lib
includedir=\${prefix}/include/highs

Name: HiGHS
Description: Linear optimization software (static library)
Version: $2
Cflags: -I\${includedir} -DWORKBENCH_HIGHS=$2
Libs: -L\${libdir} $3
Libs.private: -lstdc++ -lm -lpthread
END
}

# ---- lp_solve ---------------------------------------------------------------

# find_lpsolve prints the path of the shared library.
find_lpsolve() {
  local file
  for file in "${WORKBENCH_LPSOLVE:-}" \
    /usr/lib/lp_solve/liblpsolve55.so \
    "$lpsolve_dir/libworkbench_lpsolve.so" \
    "${HOMEBREW_PREFIX:-/opt/homebrew}/lib/liblpsolve55.dylib" \
    /usr/local/lib/liblpsolve55.dylib; do
    [ ! -f "$file" ] || { echo "$file" && return; }
  done
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null |
    awk '$1 ~ /^liblpsolve55\.so/ { print $NF; found = 1; exit } END { exit !found }'
}

setup_lpsolve() {
  ! find_lpsolve >/dev/null || return 0
  if can_install && apt_offers lp-solve 5.5; then
    apt_install lp-solve || true
  elif [ -z "${WORKBENCH_NO_INSTALL:-}" ] && have brew; then
    brew install lp_solve >&2 || true
  elif have apt-get; then
    new_work
    set +e # a failure is no more than the warning below
    (set -e && unpack_lpsolve)
    set -e
  fi
  find_lpsolve >/dev/null || say "warning: lp_solve is not available, only HiGHS can be used"
}

# unpack_lpsolve unpacks the packages that apt would install into the cache. Our
# small library on top carries the search path to their libraries, so that one
# dlopen finds them all without LD_LIBRARY_PATH.
unpack_lpsolve() {
  local packages root=$work/lp_solve libs
  apt_offers lp-solve 5.5 || return 1
  say "unpacking lp_solve into $lpsolve_dir"
  packages=$(apt-get "${apt_options[@]}" -s install --no-install-recommends lp-solve |
    awk '$1 == "Inst" { print $2 }')
  mkdir -p "$root/lib" "$work/deb"
  # shellcheck disable=SC2086 # a list
  (cd "$work/deb" && apt-get "${apt_options[@]}" -qq download $packages)
  for deb in "$work"/deb/*.deb; do dpkg -x "$deb" "$work/tree"; done
  find "$work/tree/usr/lib" -name '*.so*' -exec cp -P {} "$root/lib" \;
  libs=$(cd "$root/lib" && ls)
  # shellcheck disable=SC2086,SC2046,SC2016
  (cd "$root/lib" && ${CC:-cc} -shared -o ../libworkbench_lpsolve.so \
    -Wl,--no-as-needed -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/lib' $libs)
  rm -rf "$lpsolve_dir"
  mv -T "$root" "$lpsolve_dir"
}

# ---- other programs that read models ----------------------------------------

setup_readers() {
  have cbc && have glpsol && return 0
  can_install && apt_offers coinor-cbc 2 && apt_offers glpk-utils 4 && apt_install coinor-cbc glpk-utils && return 0
  say "CBC and GLPK are not here: no test has them read our files"
}

# ---- main -------------------------------------------------------------------

print_env() {
  local path lpsolve
  if path=$(highs_path) && [ -n "$path" ]; then
    printf 'export PKG_CONFIG_PATH=%q\n' "$path"
  fi
  if ! have "${PKG_CONFIG:-pkg-config}"; then
    printf 'export PKG_CONFIG=%q\n' "$here/pkg-config.sh"
  fi
  if lpsolve=$(find_lpsolve); then
    printf 'export WORKBENCH_LPSOLVE=%q\n' "$lpsolve"
  fi
}

case ${1:-} in
  '')
    need_compiler
    need_pkg_config
    setup_highs
    setup_lpsolve
    ;;
  --env) print_env ;;
  --readers) setup_readers ;;
  *) die "usage: $0 [--env | --readers]" ;;
esac
