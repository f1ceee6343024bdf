"""State other than parameters that a run of a network changes: buffers and generators of random numbers."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from .errors import UnsupportedError


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in a value."""
    return [t for t in pytree.tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


PLAIN = (int, float, complex, str, bytes, type(None), slice, range)
SEEN = (torch.Tensor, *PLAIN, torch.dtype, torch.device, torch.layout, torch.memory_format)


def opaque(value: Any) -> str:
    """The type of something in a value that may hold tensors which :func:`tensors` does not see; else nothing."""
    return next((type(leaf).__name__ for leaf in pytree.tree_flatten(value)[0] if not isinstance(leaf, SEEN)), "")


def flatten(value: Any) -> tuple[list[Any], Any]:
    """As pytree's, with None for the structure of a tensor, which most layers hand over."""
    return ([value], None) if isinstance(value, torch.Tensor) else pytree.tree_flatten(value)


def unflatten(flat: Sequence[Any], structure: Any) -> Any:
    """Returns a value of such a structure from its leaves."""
    return flat[0] if structure is None else pytree.tree_unflatten(list(flat), structure)


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

    def changed(self) -> list[str]:
        """Names of the buffers that hold other values than at the start."""
        return [n for n, (b, old) in self.buffers.items() if not same(b.detach(), old)]

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

    def moved(self) -> bool:
        """Whether random numbers were drawn since."""
        now = Generators()
        return not torch.equal(self.cpu, now.cpu) or any(not torch.equal(a, b) for a, b in zip(self.cuda, now.cuda))


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


Modes = list[Callable[[], AbstractContextManager[None]]]


def autocast_as_now() -> Modes:
    """Makers of contexts with today's autocast modes, for runs that come later; none where autocast is off.

    They keep no casts of weights for later: those made without gradients would be used with them.
    """
    modes: Modes = []
    for device, enabled, dtype in autocasts():
        if enabled:
            modes.append(partial(torch.autocast, device, dtype=dtype, cache_enabled=False))
    return modes


def autocast_is_on() -> bool:
    """Returns whether autocast is on for any device."""
    return any(enabled for _, enabled, _ in autocasts())


def autocasts() -> list[tuple[str, bool, torch.dtype]]:
    """By type of device, whether autocast is on and to which dtype it casts."""
    is_enabled: Any = torch.is_autocast_enabled
    return [(d, is_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]


@contextmanager
def autocast(modes: Modes) -> Iterator[None]:
    """All of the modes that :func:`autocast_as_now` noted, and no others."""
    now = [device for device, enabled, _ in autocasts() if enabled]
    if not modes and not now:
        yield
        return
    with ExitStack() as stack:
        for device in now:
            stack.enter_context(torch.autocast(device, enabled=False))
        for mode in modes:
            stack.enter_context(mode())
        yield
