#!/usr/bin/env bash
# The Python with PyTorch that tests pytorch/: the user's own, or a virtual environment in the user's cache.
#
#   scripts/torch.sh          make sure that it exists; on failure print what is missing and exit with 1
#   scripts/torch.sh --find   print its path, or fail without output
#
# TORCH=2.11 asks for that version (2.15 and 2.11 are supported). Without it, WORKBENCH_PYTHON or python3 is used if
# it has torch 2.11 or newer, torchvision, transformers and pytest. An environment of the user is never changed.
# WORKBENCH_NO_INSTALL=1 installs nothing.
#
# PyPI has no build of torch for Linux without CUDA, and its CUDA libraries are 2.5 GB to download. Where no NVIDIA
# driver is present they are replaced by one library of stubs, all of which return "no device" (no_cuda).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${TORCH:-2.15}
case $version in
  2.15) torch=2.15.0 torchvision=0.29.2 ;;
  2.11) torch=2.11.0 torchvision=0.26.0 ;;
  *) printf 'torch: TORCH=%s is not supported; use 2.15 or 2.11\n' "$version" >&2; exit 2 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/workbench
environment=$cache/torch-$version
recipe="$torch $torchvision $(cksum <pytorch/requirements.txt)"
say() { printf 'torch: %s\n' "$*" >&2; }

finish() { is_complete || { say "torch $torch could not be installed from PyPI here"; rm -rf "$environment"; }; }
is_complete() { [ "$(cat "$environment/recipe" 2>/dev/null)" = "$recipe" ]; }

find_python() {
  local python
  if [ -z "${TORCH:-}" ]; then
    for python in ${WORKBENCH_PYTHON:-} python3; do
      if "$python" -c 'import torch, torchvision, transformers, pytest
assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)' >/dev/null 2>&1; then
        command -v "$python"
        return
      fi
    done
  fi
  is_complete && printf '%s\n' "$environment/bin/python"
}

# find_base prints a Python that can make virtual environments with the pinned packages.
find_base() {
  local python
  for python in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$python" -c 'import sys, venv, ensurepip; assert (3, 11) <= sys.version_info < (3, 15)' >/dev/null 2>&1; then
      command -v "$python"
      return
    fi
  done
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_venv() {
  command -v apt-get >/dev/null && as_root true 2>/dev/null || return 1
  local get=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  "${get[@]}" install -y --no-install-recommends python3-venv >&2 ||
    { "${get[@]}" update >&2 && "${get[@]}" install -y --no-install-recommends python3-venv >&2; }
}

# no_cuda LIBRARIES puts a library of stubs where torch looks for those of CUDA that are not installed.
no_cuda() {
  local lib=$1 work so
  work=$(mktemp -d)
  nm -D --undefined-only "$lib"/lib{torch,c10}_*.so |
    grep -oE '\b(cublas|__cuda|cuda|cudnn|cufft|cupti|cusolver|cusparse|cuFile|nccl|nvrtc|nvshmem)\w+(@\S+)?' |
    sort -u >"$work/symbols"
  # cudaErrorNoDevice is 100; functions that return text return an empty one.
  awk -F@ '{ print ($1 ~ /String|Name/ ? "const char *" $1 "(void) { return \"\"; }" : "int " $1 "(void) { return 100; }") }' \
    "$work/symbols" >"$work/stub.c"
  awk -F@ '$2 { of[$2] = of[$2] " " $1 ";" } END { for (v in of) print v " { global:" of[v] " };" }' "$work/symbols" >"$work/stub.map"
  "${CC:-cc}" -w -shared -fPIC -o "$lib/libno_cuda.so" "$work/stub.c" -Wl,--version-script="$work/stub.map"
  for so in $(ldd "$lib"/libtorch_python.so "$lib"/libtorch_cuda_linalg.so | awk '/not found/ { print $1 }' | sort -u); do
    ln -sf libno_cuda.so "$lib/$so"
  done
  rm -r "$work"
}

has_driver() { [ -e /dev/nvidiactl ] || command -v nvidia-smi >/dev/null; }

install() {
  local base pip
  base=$(find_base) || { install_venv && base=$(find_base); } ||
    { say "no Python 3.11 to 3.14 here can make virtual environments (venv, ensurepip)"; return 1; }
  say "making $environment with torch $torch: a download of 0.6 GB, 1.7 GB on disk, a minute or two"
  rm -rf "$environment"
  "$base" -m venv "$environment"
  pip=("$environment/bin/python" -m pip --disable-pip-version-check install -q --no-cache-dir)
  "${pip[@]}" -r pytorch/requirements.txt >&2
  if [ "$(uname -s)" = Linux ] && ! has_driver && command -v nm "${CC:-cc}" >/dev/null; then
    "${pip[@]}" --no-deps "torch==$torch" "torchvision==$torchvision" >&2
    no_cuda "$(echo "$environment"/lib/python3*/site-packages/torch/lib)"
  else
    "${pip[@]}" "torch==$torch" "torchvision==$torchvision" >&2
  fi
  "$environment/bin/python" -c 'import torch, torchvision, transformers, pytest; torch.ones(1).sum()' >&2
  printf '%s\n' "$recipe" >"$environment/recipe"
}

if [ "${1:-}" = --find ]; then
  find_python
  exit
fi
if find_python >/dev/null; then exit; fi
if [ -n "${WORKBENCH_NO_INSTALL:-}" ]; then
  say "no Python here has torch 2.11 or newer, torchvision, transformers and pytest, and WORKBENCH_NO_INSTALL is set"
  say "activate an environment that has them, or name its python in WORKBENCH_PYTHON"
  exit 1
fi
mkdir -p "$cache"
exec 9>"$cache/torch-$version.lock"
if command -v flock >/dev/null; then flock 9; fi
if is_complete; then exit; fi
trap finish EXIT
install
