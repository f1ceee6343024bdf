#!/usr/bin/env bash
# Pack the Python package with the program and the counter of memory inside, dist/workbench_torch-*.whl, and try it in a
# fresh virtual environment with nothing else on PATH: no Go, no C compiler.
#
# The program is that of scripts/release.sh, linked statically, and the counter refers to no version of the C library, so
# that on Linux the wheel runs wherever torch does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(scripts/torch.sh --find)
release=$(scripts/release.sh | tail -1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -r pytorch "$work/pytorch"
rm -rf "$work/pytorch/tests"
package=$work/pytorch/workbench_torch
mkdir "$package/bin"
cp "${release%.tar.gz}/workbench" "$package/bin/"
cp -r "${release%.tar.gz}/licences" "$package/"
platform=$("$python" -c 'import sysconfig; print(sysconfig.get_platform())')
if [ "$(uname -s)" = Linux ]; then
  platform=manylinux_2_17_$(uname -m)
  "${CC:-cc}" -O2 -shared -fPIC -fno-builtin -fno-stack-protector -nostdlib -o "$package/counter.so" "$package/counter.c"
fi
(cd "$work/pytorch" && "$python" -c 'import setuptools; setuptools.setup()' -q bdist_wheel --plat-name "$platform" --dist-dir "$work") >&2
wheel=$(echo "$work"/*.whl)
cp "$wheel" dist/
built=dist/$(basename "$wheel")

"$python" -m venv "$work/fresh"
"$work/fresh/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$wheel"
"$python" -c 'import site; print(site.getsitepackages()[0])' >"$(echo "$work"/fresh/lib/python3*/site-packages)/torch.pth"
env -i PATH="$work/fresh/bin" HOME="$work" "$work/fresh/bin/workbench" solve --quiet --range 40% >/dev/null
counter=$(env -i PATH="$work/fresh/bin" HOME="$work" "$work/fresh/bin/python" -m workbench_torch counter)
cd "$work"
fresh=(env -i PATH="$work/fresh/bin" HOME="$work" OMP_NUM_THREADS=1 LD_PRELOAD="$counter" "$work/fresh/bin/python")
"${fresh[@]}" "$work/pytorch/examples/does_not_fit.py" >&2
"${fresh[@]}" - >&2 <<'END'
import torch, workbench_torch as wt
model = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Dropout(0.1))])
batch = torch.randn(512, 256), torch.randn(512, 256)
step = wt.plan(model, torch.nn.functional.mse_loss, batch, memory="range 40%", seconds=3)
step(*batch).backward()
print(step.report)
found = wt.check(step, steps=1)
assert found.passes and step.report.recomputed, found
END
echo "$built"
