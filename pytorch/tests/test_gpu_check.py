"""The script for a GPU, on a CPU: it runs, its plans hold, and what it reports of torch is so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import gpu_check


def test_runs_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row is measured and all plans hold; with dropout, budgets of torch compute other gradients."""
    file = tmp_path / "rows.json"
    small = ["--device", "cpu", "--steps", "1", "--budgets", "0.5", "--length", "32", "--seconds", "1e6", "--json", str(file)]
    assert gpu_check.main(small) == 0, capsys.readouterr()
    rows = {r["row"]: r for r in json.loads(file.read_text())["rows"]}
    assert len(rows) == 15 and not any("skipped" in r for r in rows.values()), rows
    claimed = [r for r in rows.values() if "claimed_bytes" in r]
    assert len(claimed) == 7 and all(r["relative_error"] == 0 for r in claimed)
    assert rows["dropout 0.1: aot_eager, budget 0.3"]["relative_error"] > 0.1, "torch replays random numbers now: mend the documents"


def test_faults() -> None:
    """A row above its claim, and one with other gradients, are faults; rows without a claim are not."""
    rows = [
        {"row": "a", "peak_bytes": 102, "claimed_bytes": 100, "relative_error": 0.0},
        {"row": "b", "peak_bytes": 101, "claimed_bytes": 100, "relative_error": 1e-3},
        {"row": "c", "peak_bytes": 300, "relative_error": 0.5},
        {"row": "d", "skipped": "no time left"},
    ]
    assert gpu_check.faults(rows) == ["a: 102 bytes, claimed 100", "b: gradients differ by 1.0e-03"]


def test_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert gpu_check.main([]) == 2
    assert "torch sees no GPU here" in capsys.readouterr().err
