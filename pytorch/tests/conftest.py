"""Where the package and the planner are, and one thread, so that the same sums come out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
os.environ.setdefault("WORKBENCH", str(HERE.parents[1] / "bin" / "workbench"))

import torch  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)
