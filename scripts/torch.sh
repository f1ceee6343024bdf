#!/usr/bin/env bash
# The Python that has PyTorch, for pytorch/: found, or installed where that is possible.
#
#   scripts/torch.sh          make sure that there is one; says what is missing when not, and fails
#   scripts/torch.sh --find   print it, or fail in silence
#
# WORKBENCH_PYTHON names one; else python3 as the user has it, else the system's. Nothing is
# installed into an environment of the user: that is theirs. WORKBENCH_NO_INSTALL=1 installs nothing at all.
set -euo pipefail

packages=(python3-torch python3-torchvision python3-pytest)
say() { printf 'torch: %s\n' "$*" >&2; }

find_python() {
  local python
  for python in ${WORKBENCH_PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c 'import torch, torchvision, pytest' >/dev/null 2>&1; then
      command -v "$python"
      return
    fi
  done
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

if [ "${1:-}" = --find ]; then
  find_python
  exit
fi
if find_python >/dev/null; then exit; fi
if [ -n "${WORKBENCH_NO_INSTALL:-}" ] || ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
  say "no Python here has torch, torchvision and pytest, and nothing can be installed (no apt-get, no root, or WORKBENCH_NO_INSTALL)"
  say "activate an environment that has them, or name its python in WORKBENCH_PYTHON"
  exit 1
fi
say "installing ${packages[*]}"
as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${packages[@]}" >&2 ||
  { as_root apt-get -qq update >&2 && as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${packages[@]}" >&2; } ||
  { say "apt-get cannot install ${packages[*]} on this system"; exit 1; }
find_python >/dev/null || { say "installed, but importing torch, torchvision and pytest fails: $(/usr/bin/python3 -c 'import torch, torchvision, pytest' 2>&1 | tail -1)"; exit 1; }
