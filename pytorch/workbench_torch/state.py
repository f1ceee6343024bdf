"""State other than parameters that a run of a network changes: buffers and generators of random numbers."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from .errors import UnsupportedError


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in a value."""
    return [t for t in pytree.tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


def refuse_without_memory(model: nn.Module) -> None:
    """Refuses parameters and buffers that are no piece of memory of a known size."""
    for name, t in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(t):
            raise UnsupportedError(f"{name} belongs to a lazy module, and has no size yet: run the network on an input first")
        if t.layout is not torch.strided:
            raise UnsupportedError(f"{name} is {t.layout}: only dense tensors are planned for")


class State:
    """Buffers, parameters' gradients and generators of a model, to be put back as they were."""

    def __init__(self, model: nn.Module):
        refuse_without_memory(model)
        self.buffers = {name: (b, b.detach().clone()) for name, b in model.named_buffers()}
        self.generators = Generators()

    def restore(self) -> None:
        """Puts buffers, generators and attributes back."""
        with torch.no_grad():
            for b, old in self.buffers.values():
                b.copy_(old)
        self.generators.restore()


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether all values are equal, NaNs included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())


class Generators:
    """The states of the generators of random numbers, on the CPU and on every CUDA device in use."""

    def __init__(self) -> None:
        self.cpu = torch.empty_like(torch.get_rng_state())
        self.take()

    def take(self) -> None:
        """Notes the states as they are now, in the memory of those noted before."""
        self.cpu.copy_(torch.get_rng_state())
        self.cuda: list[torch.Tensor] = []
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self.cuda = torch.cuda.get_rng_state_all()

    def restore(self) -> None:
        """Puts the generators back."""
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)


class OtherGenerators:
    """The states of Python's generator of random numbers and of NumPy's, which no plan can put back for a rerun."""

    def __init__(self) -> None:
        self.numpy = sys.modules.get("numpy")
        self.states = self._now()

    def _now(self) -> tuple[Any, Any]:
        return random.getstate(), self.numpy.random.get_state() if self.numpy else None

    def restore(self) -> None:
        """Puts the generators back."""
        random.setstate(self.states[0])
        if self.numpy:
            self.numpy.random.set_state(self.states[1])

    def moved(self) -> bool:
        """Whether random numbers were drawn since."""
        return repr(self._now()) != repr(self.states)


def autocasts() -> list[tuple[str, bool, torch.dtype]]:
    """By type of device, whether autocast is on and to which dtype it casts."""
    is_enabled: Any = torch.is_autocast_enabled
    return [(d, is_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
