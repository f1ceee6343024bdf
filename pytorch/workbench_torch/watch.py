"""Attributes of modules other than parameters and buffers, which a graph cannot hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .errors import UnsupportedError

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
        self.leaves = dict(self._all(self.containers))

    def _all(self, containers: list[tuple[Any, Any]] | None = None) -> Iterator[tuple[tuple[int, str], Any]]:
        for k, m in enumerate(self.modules):
            for name, v in list(vars(m).items()):
                if name not in OWN:
                    for path, leaf in _spread(name, v, 3, containers):
                        yield (k, path), leaf

    def _name(self, at: tuple[int, str]) -> str:
        return f"{type(self.modules[at[0]]).__name__}.{at[1]}"

    def changed(self) -> list[str]:
        """Names of what is another number than before."""
        now, names = dict(self._all()), []
        for at in {**self.leaves, **now}:
            old, new = self.leaves.get(at), now.get(at)
            if not (isinstance(old, torch.Tensor) or isinstance(new, torch.Tensor) or old is new or _alike(old, new)):
                names.append(self._name(at))
        return sorted(set(names))

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


def _alike(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # of the user's classes
        return False


def _tables(m: nn.Module) -> list[dict[str, Any]]:
    """Its parameters and buffers, by name; those of torch.jit are in no dict of Python's."""
    return [of for of in (m._parameters, m._buffers) if isinstance(of, dict)]
