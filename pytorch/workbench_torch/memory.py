"""How much memory tensors take, in bytes: of one storage, and of a whole device over time.

On CUDA the caching allocator counts. A CPU has no such counter, so there a small C library
(``counter.c``) is preloaded that counts allocations; it is built once with the system's C compiler
and kept in the user's cache. ``python -m workbench_torch`` preloads it by itself; a program of one's
own is started with ``LD_PRELOAD=$(python -m workbench_torch counter)``.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from .errors import UnsupportedError


def storage(t: Any) -> Any:
    """Returns the untyped storage of a tensor."""
    return t.untyped_storage()


def key(t: torch.Tensor) -> int:
    """Returns what identifies the storage of t while it lives."""
    return storage(t)._cdata


def size(t: torch.Tensor) -> int:
    """Returns the bytes that the storage of t takes on its device; CUDA allocates blocks of 512."""
    n = storage(t).nbytes()
    return -(-n // 512) * 512 if t.device.type == "cuda" else n


def sizes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages behind tensors, each once."""
    return sum({key(t): size(t) for t in tensors}.values())


class Meter:
    """Bytes allocated on a device, now and at most since the last reset."""

    name: str

    def current(self) -> int:
        """Returns the bytes allocated now."""
        raise NotImplementedError

    def peak(self) -> int:
        """Returns the most bytes allocated at once since the last reset."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begins a new peak."""
        raise NotImplementedError


class CudaMeter(Meter):
    """The caching allocator of a CUDA device."""

    name = "the caching allocator of CUDA"

    def __init__(self, device: torch.device):
        self.device = device

    def current(self) -> int:
        """As that of Meter."""
        torch.cuda.synchronize(self.device)
        return torch.cuda.memory_allocated(self.device)

    def peak(self) -> int:
        """As that of Meter."""
        torch.cuda.synchronize(self.device)
        return torch.cuda.max_memory_allocated(self.device)

    def reset(self) -> None:
        """As that of Meter."""
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)


class CounterMeter(Meter):
    """The preloaded counter of allocations."""

    name = "a preloaded counter of allocations"

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        for f in ("workbench_current", "workbench_peak", "workbench_lost"):
            getattr(library, f).restype = ctypes.c_size_t

    def current(self) -> int:
        """As that of Meter."""
        return self.library.workbench_current()

    def peak(self) -> int:
        """As that of Meter."""
        if self.library.workbench_lost():
            raise UnsupportedError("the counter of allocations is full: more than half a million blocks are alive")
        return self.library.workbench_peak()

    def reset(self) -> None:
        """As that of Meter."""
        self.library.workbench_reset()


def meter(device: torch.device) -> Meter | None:
    """The meter of a device; None for a CPU without the preloaded counter."""
    if device.type == "cuda":
        return CudaMeter(device)
    library = ctypes.CDLL(None)
    if hasattr(library, "workbench_peak"):
        return CounterMeter(library)
    return None


def need_meter(device: torch.device) -> Meter:
    """The meter of a device, or an error that says how to get one."""
    m = meter(device)
    if m is None:
        raise UnsupportedError(
            f"nothing counts the memory of {device.type}: start the program with "
            "LD_PRELOAD=$(python -m workbench_torch counter), which needs a C compiler, or run "
            "python -m workbench_torch, which does that itself"
        )
    return m


def build_counter() -> Path:
    """Returns where the counter is: the one in the package, else the one in the cache, which is built if it is not there."""
    packaged = Path(__file__).with_name("counter.so")
    if packaged.exists():
        return packaged
    source = Path(__file__).with_name("counter.c")
    code = source.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workbench"
    library = cache / f"counter-{hashlib.sha256(code).hexdigest()[:16]}.so"
    if library.exists():
        return library
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise UnsupportedError("counting memory on a CPU takes a C compiler, and there is none: install gcc")
    cache.mkdir(parents=True, exist_ok=True)
    partial = library.with_suffix(f".{os.getpid()}")
    built = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(partial), str(source)],
        capture_output=True,
        text=True,
    )
    if built.returncode != 0:
        raise UnsupportedError(f"{compiler} could not build the counter of allocations: {built.stderr.strip()}")
    partial.replace(library)
    return library
