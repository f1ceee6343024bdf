"""Attributes of modules other than parameters and buffers, and modes that a plan depends on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .errors import UnsupportedError
from .state import refuse_without_memory, same

OWN = frozenset(vars(nn.Module()))  # what every module has
WRAPPERS = {  # and where what they hold is
    "DataParallel": ".module",
    "DistributedDataParallel": ".module",
    "FullyShardedDataParallel": ".module",
    "OptimizedModule": "._orig_mod",  # of torch.compile
}


def refuse_wrapped(model: Any) -> None:
    """Refuses networks inside something that runs them in its own way."""
    for m in model.modules() if isinstance(model, nn.Module) else ():
        name = type(m).__name__
        if name in WRAPPERS:
            raise UnsupportedError(f"the network is inside a {name}, which runs it in its own way: give what is inside ({WRAPPERS[name]})")


class Attributes:
    """The attributes of modules as they are now: numbers, tensors, and what lists, dicts and objects among them hold."""

    def __init__(self, modules: Iterable[nn.Module]):
        self.modules = list({id(m): m for m in modules}.values())
        self.before = [dict(vars(m)) for m in self.modules]
        self.tables = [(of, dict(of)) for m in self.modules for of in _tables(m)]
        self.containers: list[tuple[Any, Any]] = []
        self.leaves = {k: (v, v._version if isinstance(v, torch.Tensor) else 0) for k, v in self._all(self.containers)}

    def _all(self, containers: list[tuple[Any, Any]] | None = None) -> Iterator[tuple[tuple[int, str], Any]]:
        for k, m in enumerate(self.modules):
            for name, v in list(vars(m).items()):
                if name not in OWN:
                    for path, leaf in _spread(name, v, 3, containers):
                        yield (k, path), leaf

    def _name(self, at: tuple[int, str]) -> str:
        return f"{type(self.modules[at[0]]).__name__}.{at[1]}"

    def changed(self, of_tensors: bool = True) -> list[str]:
        """Names of what is another number, or holds other numbers, than before."""
        now, names = dict(self._all()), []
        for at in {**self.leaves, **now}:
            (old, version), new = self.leaves.get(at, (None, 0)), now.get(at)
            if isinstance(old, torch.Tensor) or isinstance(new, torch.Tensor):
                if of_tensors and not _equal(old, version, new):
                    names.append(self._name(at))
            elif old is not new and not _alike(old, new):
                names.append(self._name(at))
        return sorted(set(names))

    def graphs(self) -> list[tuple[nn.Module, str]]:
        """Modules and names of attributes that hold tensors with a graph which they did not hold before."""
        found = {}
        for at, v in self._all():
            old = self.leaves.get(at, (None, 0))[0]
            if isinstance(v, torch.Tensor) and v is not old and v.grad_fn is not None:
                found[at] = self.modules[at[0]], at[1]
        return list(found.values())

    def replaced(self) -> list[str]:
        """Names of parameters and buffers that are other tensors than before."""
        return sorted({k for of, old in self.tables for k in {**of, **old} if of.get(k) is not old.get(k)})

    def restore(self) -> None:
        """Puts everything back but the numbers of tensors."""
        for m, before in zip(self.modules, self.before):
            for name in set(vars(m)) - set(before):
                del vars(m)[name]
            vars(m).update(before)
        for of, old in self.tables:
            if any(of.get(k) is not old.get(k) for k in {**of, **old}):
                of.clear()
                of.update(old)
        for value, old in self.containers:
            value.clear()
            if isinstance(value, dict):
                value.update(old)
            else:
                value.extend(old)


def _spread(path: str, value: Any, depth: int, containers: list[tuple[Any, Any]] | None) -> Iterator[tuple[str, Any]]:
    """What a value is made of, by its path; containers collects what can be changed, with a copy."""
    if isinstance(value, dict):
        inner: Any = value
    elif isinstance(value, (list, tuple, deque)):
        inner = dict(enumerate(value))
    elif depth and hasattr(value, "__dict__") and not callable(value) and not isinstance(value, (nn.Module, torch.Tensor)):
        value = inner = vars(value)
    else:
        yield path, value
        return
    if containers is not None and isinstance(value, (dict, list, deque)):
        containers.append((value, value.copy()))
    yield f"{path} (how many)", len(inner)
    for k, v in list(inner.items()) if depth else ():
        yield from _spread(f"{path}.{k}", v, depth - 1, containers)


def _equal(old: Any, version: int, new: Any) -> bool:
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return old is None  # made for the first time
    if old is new:
        return old._version == version
    return old.device == new.device and same(old.detach(), new.detach())


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return False
    try:
        return bool(a == b)
    except Exception:  # of the user's classes
        return False


def _tables(m: nn.Module) -> list[dict[str, Any]]:
    """Its parameters and buffers, by name; those of torch.jit are in no dict of Python's."""
    return [of for of in (m._parameters, m._buffers) if isinstance(of, dict)]


class Watch:
    """The modes of a network's modules and parameters when it was cut."""

    def __init__(self, model: nn.Module):
        refuse_without_memory(model)
        self.modules = list(model.modules())
        self.of = [t for m in self.modules for table in _tables(m) for t in table.values() if t is not None]
        self.modes = self._modes()

    def _modes(self) -> tuple[bool, ...]:
        return (*(m.training for m in self.modules), *(t.requires_grad for t in self.of))

    def check_modes(self) -> None:
        """Raises UnsupportedError if a mode was changed since."""
        if self._modes() != self.modes:
            raise UnsupportedError("train/eval or requires_grad was changed since the network was cut: profile and plan again")
