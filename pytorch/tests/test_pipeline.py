"""Layouts run in torch.distributed.pipelining on CPU: gradients are those of no pipeline, ranks save what the plan says."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pipeline_rank import ROWS, WIDTH, Packed, Saved, batch, loss_of, network

RANKS, MICRO_BATCHES = 4, 8


def chain() -> dict:
    """Return the network as a chain: what each layer saves is measured alone, times are made up."""
    layers = []
    for i, block in enumerate(network()):
        x = torch.randn(ROWS, WIDTH, requires_grad=True)
        saved = Saved([*block.parameters(), x])
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda packed: packed.tensor):
            output = block(x)
        bytes_out = output.untyped_storage().nbytes()
        time = 1e-3 * (1 + i % 3)
        layers.append(
            {
                "name": f"block{i}",
                "forward_time": time,
                "input_gradient_time": time,
                "weight_gradient_time": time,
                "activation": bytes_out,
                "saved": sum(saved.bytes.values()) + bytes_out,
                "recompute": [{"name": "full", "saved": 1 << 30, "forward_time": time}],
            }
        )
    return {"format": "workbench.chain/v1", "name": "blocks", "input": {"activation": ROWS * WIDTH * 4}, "layers": layers}


def workbench(*arguments: str, folder: Path) -> str:
    """Run the planner and return what it prints."""
    done = subprocess.run([os.environ["WORKBENCH"], *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def planned(folder: Path, placement: str, memory: int) -> tuple[dict, list[float]]:
    """Lay the network out; return what the ranks need and the peak of each in the plan, which has no weights."""
    (folder / "chain.json").write_text(json.dumps(chain()))
    result = json.loads(
        workbench(
            "solve",
            "chain.json",
            "--problem",
            "layout",
            "--processors",
            str(RANKS),
            "--micro-batches",
            str(MICRO_BATCHES),
            "--placement",
            placement,
            "--memory",
            str(memory),
            "--bandwidth",
            "inf",
            "--time-limit",
            "5s",
            "--quiet",
            "--format",
            "json",
            "--plan",
            "plan.json",
            folder=folder,
        )
    )
    (folder / "schedule.csv").write_text(workbench("export", "plan.json", "--to", "torch-csv", folder=folder))
    layout = json.loads(workbench("export", "plan.json", "--to", "layout", folder=folder))
    assert set(layout["options"]) == {"none"}
    task = {
        "ranks": RANKS,
        "micro_batches": MICRO_BATCHES,
        "cuts": layout["cuts"],
        "placement": layout["placement"],
        "schedule": str(folder / "schedule.csv"),
    }
    return task, result["gpu_memory"]


def without_pipeline() -> list[list[torch.Tensor]]:
    """Return the gradients of each layer, micro-batches one after the other."""
    layers = network()
    for x in batch(MICRO_BATCHES).chunk(MICRO_BATCHES):
        y = x
        for layer in layers:
            y = layer(y)
        loss_of(y, x).backward()
    return [[p.grad for p in layer.parameters()] for layer in layers]


@pytest.mark.skipif(torch.__version__ < "2.14", reason="torch.distributed.pipelining before 2.14 loads other schedules")
@pytest.mark.parametrize(("placement", "memory"), [("straight", 1 << 30), ("straight", 70_000), ("v", 1 << 30)])
def test_layout_runs_as_planned(tmp_path: Path, placement: str, memory: int) -> None:
    """Gradients are equal to the bit, and the saved bytes of each rank to the byte, unless it has two stages in a row."""
    task, peaks = planned(tmp_path, placement, memory)
    (tmp_path / "task.json").write_text(json.dumps(task))
    script = Path(__file__).with_name("pipeline_rank.py")
    ranks = [
        subprocess.Popen([sys.executable, str(script), str(r), str(tmp_path)], stderr=subprocess.PIPE, text=True) for r in range(RANKS)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=300)
        assert rank.returncode == 0, errors[-3000:]
    expected = without_pipeline()
    seen = 0
    for r in range(RANKS):
        for layer, gradients in torch.load(tmp_path / f"gradients-{r}.pt").items():
            for got, want in zip(gradients, expected[layer], strict=True):
                assert torch.equal(got, want), (r, layer)
                seen += 1
    assert seen == sum(len(g) for g in expected)
    measured = [json.loads((tmp_path / f"rank-{r}.json").read_text()) for r in range(RANKS)]
    stages = task["placement"]
    for r, (m, planned_peak) in enumerate(zip(measured, peaks, strict=True)):
        # What one stage hands to the next on the same rank is one storage, and the plan counts it for both.
        turns = any(a == b == r for a, b in itertools.pairwise(stages))
        assert m["peak"] <= planned_peak if turns else m["peak"] == planned_peak, (r, task, measured, peaks)
        assert m["left"] == 0


def test_packed_tensors_are_counted_once() -> None:
    """A storage that is held twice counts once, until both holders are gone."""
    saved, x = Saved([]), torch.zeros(4)
    first, second = saved.pack(x), saved.pack(x[:2])
    assert isinstance(first, Packed)
    assert saved.peak == sum(saved.bytes.values()) == 16
    del first
    assert sum(saved.bytes.values()) == 16
    del second
    assert not saved.bytes
