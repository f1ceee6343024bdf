"""The link to the host: where tensors go that a plan sends away, and how they travel.

On CUDA there is a stream for each direction and the host's memory is pinned. On a CPU the host is a
second pool in the same memory, and copies are done at once. Buffers of the host are made when they
are first used and kept for all later steps.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from . import memory
from .record import Base


class Link:
    """Transfers of bases between a device and its host."""

    def __init__(self, device: torch.device):
        self.device = device
        self.host: dict[Hashable, torch.Tensor] = {}
        cuda = device.type == "cuda"
        self.out: torch.cuda.Stream | None = torch.cuda.Stream(device) if cuda else None
        self.back: torch.cuda.Stream | None = torch.cuda.Stream(device) if cuda else None

    def bytes(self) -> int:
        """What the host's buffers take."""
        return sum(b.numel() for b in self.host.values())

    def send(self, name: Hashable, bases: list[Base]) -> Any:
        """Begins to copy bases to the host, after everything that was computed so far."""
        if self.out is None:
            for k, base in enumerate(bases):
                self._buffer(name, k, base).copy_(raw(base.there()))
            return None
        self.out.wait_event(torch.cuda.current_stream(self.device).record_event())
        with torch.cuda.stream(self.out):
            for k, base in enumerate(bases):
                self._buffer(name, k, base).copy_(raw(base.there()), non_blocking=True)
            return self.out.record_event()

    def fetch(self, name: Hashable, bases: list[Base], sent: Any) -> Any:
        """Begins to copy bases back, once they have been sent.

        The memory is taken from the stream that computes, and nothing computed so far still uses it.
        """
        for base in bases:
            base.tensor = torch.empty(base.bytes, dtype=torch.uint8, device=self.device)
        if self.back is None:
            for k, base in enumerate(bases):
                base.there().copy_(self._buffer(name, k, base))
            return None
        self.back.wait_event(torch.cuda.current_stream(self.device).record_event())
        if sent is not None:
            self.back.wait_event(sent)
        with torch.cuda.stream(self.back):
            for k, base in enumerate(bases):
                base.there().copy_(self._buffer(name, k, base), non_blocking=True)
            return self.back.record_event()

    def wait(self, event: Any) -> None:
        """Lets what is computed from here on wait for a transfer."""
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)

    def _buffer(self, name: Hashable, k: int, base: Base) -> torch.Tensor:
        place = (name, k)
        if place not in self.host or self.host[place].numel() != base.bytes:
            self.host[place] = torch.empty(base.bytes, dtype=torch.uint8, pin_memory=self.out is not None)
        return self.host[place]


def raw(t: torch.Tensor) -> torch.Tensor:
    """The bytes of the storage behind t."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(memory.storage(t))
