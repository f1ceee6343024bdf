"""One piece of memory for what a step keeps, with the addresses of a placement.

``workbench place PLAN --align 64 --csv FILE`` gives every a, ā and δ of a plan its address before the
run. Operations of torch take the memory of their results themselves: what is to be kept is copied
into the arena as soon as it is there, and what they took is given back. So the arena needs no allocator
and has no holes that were not planned. Beside it there is what a single operation needs at a time, its result included.
"""

from __future__ import annotations

import csv
import ctypes
from pathlib import Path

import torch

from .errors import UnsupportedError
from .link import raw
from .record import Base

Place = tuple[str, int]  # a tensor of the plan and its layer


class Arena:
    """Memory of a CPU in which every tensor of a plan has its address.

    height: its bytes; reached: the first byte above all that has been in it.
    """

    def __init__(self, placement: str | Path):
        try:
            with open(placement, newline="") as f:
                self.buffers = {r["id"]: (int(r["offset"]), int(r["size"])) for r in csv.DictReader(f)}
        except (OSError, KeyError, TypeError, ValueError) as e:
            raise UnsupportedError(f"{placement}: {e!r}; workbench place PLAN --align 64 --csv FILE writes id, size and offset") from e
        if not self.buffers or min(min(b) for b in self.buffers.values()) < 0:
            raise UnsupportedError(f"{placement}: no buffers, or a negative size or offset")
        self.height = max(offset + size for offset, size in self.buffers.values())
        self.memory = torch.empty(self.height, dtype=torch.uint8)
        self.raw = (ctypes.c_char * self.height).from_address(self.memory.data_ptr())
        self.reached = 0
        self.begin()

    def begin(self) -> None:
        """Begins a step: nothing is there."""
        self.times: dict[Place, int] = {}
        self.live: dict[Place, tuple[int, int]] = {}  # from, up to

    def take(self, place: Place, bases: list[Base]) -> None:
        """Copies what is kept as a tensor of the plan, for the k-th time, to its k-th address."""
        self.times[place] = self.times.get(place, 0) + 1
        name = f"{place[0]}_{place[1]}" + (f"#{self.times[place]}" if self.times[place] > 1 else "")
        if name not in self.buffers:
            raise UnsupportedError(f"{name} has no address in the placement: it is for another plan")
        start, size = self.buffers[name]
        needs = sum(b.bytes for b in bases)
        if needs > size:
            raise UnsupportedError(f"{name} takes {needs} bytes, its buffer has {size}: the placement is for another network")
        for other, (low, high) in self.live.items():
            if low < start + size and start < high:
                raise UnsupportedError(f"{name} has its address where {other[0]}_{other[1]} still is: the placement is for another plan")
        self.live[place] = (start, start + size)
        for base in sorted(bases, key=lambda b: -(b.bytes & -b.bytes)):  # powers of two that divide sizes, falling: all are aligned
            if base.bytes == 0:
                continue
            # A storage of its own: whoever asks for the storage behind it gets its bytes only.
            there = torch.frombuffer(self.raw, dtype=torch.uint8, count=base.bytes, offset=start)
            there.copy_(raw(base.there()))
            base.tensor = there
            start += base.bytes
            self.reached = max(self.reached, start)

    def free(self, place: Place) -> None:
        """Gives an address back."""
        self.live.pop(place, None)
