"""Which program the package takes, and which it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import planning
import pytest
from workbench_torch import UnsupportedError, _binary


def script(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'workbench version {version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORKBENCH", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "scripts"), str(tmp_path / "programs")]))
    monkeypatch.setattr(_binary, "PACKAGED", tmp_path / "package" / "workbench")


def test_the_program_of_this_checkout_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On PATH behind a script of that name, in the package, and named: the later of these is preferred."""
    with pytest.raises(UnsupportedError, match="not found: set WORKBENCH"):
        _binary.find()
    script(tmp_path / "scripts" / "workbench", "of the package")
    with pytest.raises(UnsupportedError, match="not found"):
        _binary.find()
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "workbench").symlink_to(planning.WORKBENCH)
    assert _binary.find() == tmp_path / "programs" / "workbench"
    script(_binary.PACKAGED, f"abc interface {_binary.INTERFACE}")
    assert _binary.find() == _binary.PACKAGED
    monkeypatch.setenv("WORKBENCH", str(planning.WORKBENCH))
    assert _binary.find() == planning.WORKBENCH


@pytest.mark.parametrize(
    ("version", "message"), [("abc interface 7", "speaks interface 7 and this package"), ("abc", "speaks no interface and this package")]
)
def test_another_version_is_refused(version: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKBENCH", str(script(tmp_path / "other", version)))
    with pytest.raises(UnsupportedError, match=message):
        _binary.find()


def test_what_cannot_be_run_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKBENCH", str(tmp_path / "absent"))
    with pytest.raises(UnsupportedError, match="cannot be run: No such file"):
        _binary.find()
