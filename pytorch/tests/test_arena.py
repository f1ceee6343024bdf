"""Steps whose kept tensors lie at the addresses of a placement."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import planning
import pytest
from test_chains import profiled
from workbench_torch import check_chain
from workbench_torch.arena import Arena
from workbench_torch import UnsupportedError


def placed(instance: Path, *flags: str) -> Path:
    """The plan of workbench for an instance, and the addresses of its tensors."""
    planning.solve(instance, *flags)
    to = instance.with_suffix(".csv")
    place = [str(planning.WORKBENCH), "place", str(instance.with_suffix(".plan.json")), str(instance), "--align", "64", "--csv", str(to), "--quiet"]
    done = subprocess.run(place, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return to


def run(name: str, folder: Path, *flags: str) -> Dict[str, Any]:
    (_, inputs, loss, targets), chain, file = profiled(name, folder)
    arena = Arena(placed(file, *flags))
    return check_chain(chain, inputs, loss, targets, str(file), str(file.with_suffix(".plan.json")), steps=0, arena=arena)


@pytest.mark.parametrize("name", ["resnet18", "gpt", "vit"])
@pytest.mark.parametrize("method", ["optimum", "store-all"])
def test_step_is_the_same(name: str, method: str, tmp_path: Path) -> None:
    """Bit by bit, with what is kept in one piece of memory as high as the placement says."""
    result = run(name, tmp_path, "--memory", {"optimum": "range 50%", "store-all": "range 100%"}[method], "--method", method)
    assert result["loss_equal"] and result["gradients_equal"] and result["buffers_equal"], result
    # The height, but for what a buffer has beside its storages: scalars, and overheads on top.
    assert 0.95 * result["arena_height"] <= result["arena_reached"] <= result["arena_height"], result
    assert result["arena_height"] <= 1.001 * result["limit"], result  # addresses are rounded up
    assert result["measured_peak"] - result["arena_height"] < result["plain_peak"], result  # what is beside the arena


def rewritten(file: Path, change: Any) -> None:
    with open(file, newline="") as f:
        rows: List[Dict[str, str]] = list(csv.DictReader(f))
    for r in rows:
        change(r)
    with open(file, "w", newline="") as f:
        out = csv.DictWriter(f, list(rows[0]))
        out.writeheader()
        out.writerows(rows)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda r: r.update(offset="0"), "still is"),
        (lambda r: r.update(id="x" + r["id"]), "no address"),
        (lambda r: r.update(size="1"), "its buffer has 1"),
        (lambda r: r.update(size="1.5"), "invalid literal"),
        (lambda r: r.update(offset="-64"), "negative"),
    ],
)
def test_wrong_placements_are_refused(change: Any, says: str, tmp_path: Path) -> None:
    (_, inputs, loss, targets), chain, file = profiled("gpt", tmp_path)
    to = placed(file, "--memory", "range 50%", "--method", "optimum")
    rewritten(to, change)
    with pytest.raises(UnsupportedError, match=says):
        check_chain(chain, inputs, loss, targets, str(file), str(file.with_suffix(".plan.json")), steps=0, arena=Arena(to))
