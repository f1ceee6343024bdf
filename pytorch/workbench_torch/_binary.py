"""Where the workbench program is: named by the user, inside the package, or on PATH; and whether it is of this package's version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from .errors import UnsupportedError

__version__ = "0.2.0"
INTERFACE = 2  # of flags, files and results; ``workbench --version`` prints the program's
PACKAGED = Path(__file__).parent / "bin" / "workbench"


def find() -> Path:
    """Returns the path of the workbench program: $WORKBENCH, else the one in the package, else that on PATH.

    Raises:
        UnsupportedError: there is none, it cannot be run, or it speaks another interface than this package.
    """
    named = os.environ.get("WORKBENCH")
    found = named or (PACKAGED if PACKAGED.exists() else _on_path())
    if not found:
        raise UnsupportedError("the workbench program was not found: set WORKBENCH to its path, or install a wheel that has it inside")
    path = Path(found)
    spoken = _interface(path)
    if spoken != INTERFACE:
        what = f"interface {spoken}" if spoken else "no interface"
        where = " (named by WORKBENCH)" if named else ""
        raise UnsupportedError(f"{path}{where} speaks {what} and this package {INTERFACE}: use the program of the same version")
    return path


def _on_path() -> str | None:
    """The first program of that name on PATH that is no script: the console script of this package calls find."""
    for folder in os.get_exec_path():
        path = shutil.which("workbench", path=folder)
        if path and not _is_script(Path(path)):
            return path
    return None


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


@lru_cache
def _interface(path: Path) -> int:
    """The interface that a program says it has; 0: none."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    try:
        done = subprocess.run([str(path), "--version"], capture_output=True, text=True, env=environment, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise UnsupportedError(f"{path} cannot be run: {getattr(e, 'strerror', None) or e}") from e
    said = re.search(r"^workbench version .* interface (\d+)$", done.stdout, re.MULTILINE)
    return int(said[1]) if said else 0


def main() -> None:
    """Runs the program in the place of this process; the console script ``workbench`` of the wheel."""
    try:
        path = str(find())
    except UnsupportedError as e:
        sys.exit(f"workbench: {e}")
    os.execv(path, [path, *sys.argv[1:]])
