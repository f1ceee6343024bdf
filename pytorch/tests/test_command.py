"""The command line, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import planning

HERE = Path(__file__).resolve().parent
NETWORK = ["networks:gpt", "--args", '{"layers": 2, "width": 32, "length": 16}', "--input", "2x16", "--dtype", "int64", "--high", "900"]


def command(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(HERE.parent), str(HERE)])
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    environment.update(PYTHONPATH=path, OMP_NUM_THREADS="1")
    run = [sys.executable, "-m", "workbench_torch", *arguments]
    return subprocess.run(run, capture_output=True, text=True, env=environment, cwd=folder)


def test_profile_and_check(tmp_path: Path) -> None:
    made = command(tmp_path, "profile", *NETWORK, "--loss", "cross_entropy", "-o", "net.json", "--repeats", "1")
    assert made.returncode == 0, made.stderr
    plan = planning.solve(tmp_path / "net.json", "--memory", "30%")
    flags = ["--loss", "cross_entropy", "--instance", "net.json", "--plan", "net.plan.json", "--steps", "1", "--format", "json"]
    checked = command(tmp_path, "check", *NETWORK, *flags)
    assert checked.returncode == 0, checked.stderr
    result = json.loads(checked.stdout)
    assert result["limit"] == plan["platform"]["memory"]
    assert all(result[k] for k in ("loss_equal", "gradients_equal", "buffers_equal"))
    assert 0 < result["measured_peak"] <= result["limit"]
    plan["platform"]["memory"] = result["measured_peak"] - 1
    (tmp_path / "net.plan.json").write_text(json.dumps(plan))
    assert command(tmp_path, "check", *NETWORK, *flags).returncode == 5


def test_bad_input(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    check = ["--loss", "sum", "--instance", "bad.json", "--plan", "bad.json"]
    for arguments, words in (
        (["profile", "nowhere:gpt", "--input", "2x2", "--loss", "sum", "-o", "x.json"], "cannot be found"),
        (["profile", "networks:gpt", "--input", "2xy", "--loss", "sum", "-o", "x.json"], "cannot be read"),
        (["profile", "networks:gpt", "--input", "2x2", "--dtype", "int64", "--loss", "sum", "-o", "x.json"], "--high"),
        (["profile", "networks:resnet18", "--input", "2x2", "--loss", "cross_entropy", "-o", "x.json"], "does not take"),
        (["profile", *NETWORK, "--loss", "sum", "--graph", "--optimizer", "adam", "-o", "x.json"], "only the step of sgd"),
        (["check", *NETWORK, *check], "is no JSON"),
        (["check", *NETWORK, *check[:3], "none.json", *check[4:]], "none.json"),
    ):
        done = command(tmp_path, *arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
