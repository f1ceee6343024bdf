"""Memory of the host for what a plan offloads.

On CUDA the memory is pinned and there is a stream for each direction. On a CPU the host is a second pool in the same memory,
and copies are done at once. Buffers are kept for the next step.
"""

from __future__ import annotations

from typing import Any

import torch

from . import memory


class Host:
    """Buffers on the host, and transfers to and from them. A transfer begins with one call and is waited for by another."""

    def __init__(self) -> None:
        self.bytes = 0  # of all buffers
        self._free: dict[int, list[torch.Tensor]] = {}
        self._streams: dict[Any, tuple[torch.cuda.Stream, torch.cuda.Stream]] = {}
        self._events: dict[int, Any] = {}  # by address of a buffer: the latest transfer

    def send(self, t: torch.Tensor) -> torch.Tensor:
        """Begins to copy the storage of t, and returns the buffer on the host."""
        size = memory.storage(t).nbytes()
        free = self._free.setdefault(size, [])
        if not free:
            self.bytes += size
        buffer = free.pop() if free else torch.empty(size, dtype=torch.uint8, pin_memory=t.is_cuda)
        self._copy(buffer, _raw(t), t, 0)
        return buffer

    def sent(self, buffer: torch.Tensor, t: torch.Tensor) -> None:
        """Waits until t, which is no longer needed on the device then, has been sent."""
        self._wait(buffer, t)

    def fetch(self, buffer: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Begins to copy a buffer to the device, and returns its bytes there.

        Their memory is taken from the stream that computes, where nothing that was computed so far still uses it.
        """
        made = torch.empty(buffer.numel(), dtype=torch.uint8, device=device)
        self._copy(made, buffer, made, 1)
        return made

    def fetched(self, buffer: torch.Tensor, made: torch.Tensor, release: bool) -> torch.Tensor:
        """Waits until bytes have arrived, and returns them; release: the buffer is free."""
        self._wait(buffer, made)
        if release:
            self._free[buffer.numel()].append(buffer)
        return made

    def _copy(self, to: torch.Tensor, source: torch.Tensor, on_device: torch.Tensor, direction: int) -> None:
        if not on_device.is_cuda:
            to.copy_(source)
            return
        device, buffer = on_device.device, source if direction else to
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device), torch.cuda.Stream(device)
        stream = self._streams[device][direction]
        stream.wait_event(torch.cuda.current_stream(device).record_event())
        if buffer.data_ptr() in self._events:
            stream.wait_event(self._events[buffer.data_ptr()])
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
            self._events[buffer.data_ptr()] = stream.record_event()

    def _wait(self, buffer: torch.Tensor, on_device: torch.Tensor) -> None:
        if on_device.is_cuda:
            torch.cuda.current_stream(on_device.device).wait_event(self._events[buffer.data_ptr()])


def restored(made: torch.Tensor, dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> torch.Tensor:
    """Returns a tensor in the bytes of its storage."""
    return torch.empty(0, dtype=dtype, device=made.device).set_(memory.storage(made), offset, size, stride)


def _raw(t: torch.Tensor) -> torch.Tensor:
    """The bytes of the storage behind t."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(memory.storage(t))
