"""The command line, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import planning
import pytest
from workbench_torch.__main__ import main

HERE = Path(__file__).resolve().parent
NETWORK = ["networks:gpt", "--args", '{"layers": 2, "width": 32, "length": 16}', "--input", "2x16", "--dtype", "int64", "--high", "900"]


def command(folder: Path, *arguments: str, preloaded: bool = True) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(HERE.parent), str(HERE)])
    environment = {k: v for k, v in os.environ.items() if preloaded or k != "LD_PRELOAD"}
    environment.update(PYTHONPATH=path, OMP_NUM_THREADS="1")
    run = [sys.executable, "-m", "workbench_torch", *arguments]
    return subprocess.run(run, capture_output=True, text=True, env=environment, cwd=folder)


def test_profile_and_check(tmp_path: Path) -> None:
    made = command(tmp_path, "profile", *NETWORK, "--loss", "cross_entropy", "-o", "net.json", "--seconds", "0.5", preloaded=False)
    assert made.returncode == 0, made.stderr
    plan = planning.solve(tmp_path / "net.json", "--memory", "range 30%")
    flags = ["--loss", "cross_entropy", "--plan", "net.plan.json", "--steps", "1", "--format", "json"]
    checked = command(tmp_path, "check", *NETWORK, *flags)
    assert checked.returncode == 0, checked.stderr
    result = json.loads(checked.stdout)
    gradients = json.loads((tmp_path / "net.json").read_text())["source"]["gradients"]
    assert result["limit"] == plan["platform"]["memory"] + gradients
    assert all(result[k] for k in ("loss_equal", "gradients_equal", "buffers_equal"))
    assert 0 < result["measured_peak"] <= result["claimed_peak"] <= result["limit"]
    plan["platform"]["memory"] = result["measured_peak"] - gradients - 1
    (tmp_path / "net.plan.json").write_text(json.dumps(plan))
    assert command(tmp_path, "check", *NETWORK, *flags).returncode == 5


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error, and status 2; in this process, as each of its own takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_COUNTER", "tried")
    (tmp_path / "bad.json").write_text("{")
    check = ["--loss", "sum", "--plan", "bad.json"]
    for arguments, words in (
        (["profile", "nowhere:gpt", "--input", "2x2", "--loss", "sum", "-o", "x.json"], "cannot be found"),
        (["profile", "networks:gpt", "--input", "2xy", "--loss", "sum", "-o", "x.json"], "cannot be read"),
        (["profile", "networks:gpt", "--input", "2x2", "--dtype", "int64", "--loss", "sum", "-o", "x.json"], "--high"),
        (["profile", "networks:resnet18", "--input", "2x2", "--loss", "cross_entropy", "-o", "x.json"], "does not take"),
        (["profile"], "--input"),
        (["profile", "networks:resnet18", "--input", "2x2", "--loss", "sum", "-o", "x.json"], "does not take"),
        (["profile", "torch:device", "--args", '["cpu"]', "--input", "2x2", "--loss", "sum", "-o", "x.json"], "nn.Module"),
        (["profile", *NETWORK, "--loss", "sum", "-o", "x.json", "--seconds", "0"], "positive number of seconds"),
        (["profile", *NETWORK, "--loss", "sum", "-o", "x.json", "--device", "cuda:77"], "cannot be read"),
        (["check", *NETWORK, *check], "bad.json cannot be read"),
        (["check", *NETWORK, *check[:3], "none.json"], "none.json"),
        (["check", *NETWORK, *check, "--steps", "0"], "positive"),
    ):
        try:
            status = main(arguments)
        except SystemExit as e:  # of argparse
            status = int(e.code or 0)
        said = capsys.readouterr().err
        assert status == 2 and words in said, (arguments, said)
        assert len(said.strip().splitlines()) == 1, said


def test_bad_input_of_the_program(tmp_path: Path) -> None:
    done = command(tmp_path, "profile", "nowhere:gpt", "--input", "2x2", "--loss", "sum", "-o", "x.json")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1 and "cannot be found" in done.stderr
