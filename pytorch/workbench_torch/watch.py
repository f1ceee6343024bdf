"""What a network keeps beside parameters and buffers, and what it must still be when a planned step runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import nn

from .errors import Refused
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
            raise Refused(f"the network is inside a {name}, which runs it in its own way: give what is inside ({WRAPPERS[name]})")


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

    def touched(self) -> bool:
        """Whether anything is another object or number than before."""
        now = dict(self._all())
        if now.keys() != self.leaves.keys():
            return True
        return not all(now[at] is v or _alike(now[at], v) for at, (v, _) in self.leaves.items())

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


def tensor_attributes(model: nn.Module) -> list[tuple[dict[str, Any], str, torch.Tensor]]:
    """Tensors without a graph that modules keep beside parameters and buffers: where they are, their names, and they."""
    return [(vars(m), k, t) for m in model.modules() for k, t in vars(m).items() if isinstance(t, torch.Tensor) and t.grad_fn is None]


def _tables(m: nn.Module) -> list[dict[str, Any]]:
    """Its parameters and buffers, by name; those of torch.jit are in no dict of Python's."""
    return [of for of in (m._parameters, m._buffers) if isinstance(of, dict)]


class Watch:
    """A network as it was traced: modes of its modules, and the memory of its parameters, buffers and optimizer states."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None):
        refuse_without_memory(model)
        self.modules, self.optimizer = list(model.modules()), optimizer
        tables: list[dict[str, Any]] = [of for m in self.modules for of in _tables(m)]
        self.of: list[tuple[dict[str, Any], str, torch.Tensor]] = [(of, k, t) for of in tables for k, t in of.items() if t is not None]
        self.of += tensor_attributes(model)
        states: Any = {} if optimizer is None else cast(Any, optimizer).state
        self.states = [(p, k, t) for p, of in states.items() for k, t in of.items() if isinstance(t, torch.Tensor)]
        self.pointers = [t.data_ptr() for _, _, t in self.of]
        self.modes = self._modes()

    def _modes(self) -> tuple[bool, ...]:
        return (*(m.training for m in self.modules), *(t.requires_grad for _, _, t in self.of))

    def check_modes(self) -> None:
        """Refuses modules in other modes; what every step asks."""
        if self._modes() != self.modes:
            raise Refused("train/eval or requires_grad was changed since the network was cut or traced: profile and plan again")

    def check(self) -> None:
        """Refuses a network that is no longer what was traced."""
        self.check_modes()
        for (of, k, t), pointer in zip(self.of, self.pointers):
            if of.get(k) is not t or t.data_ptr() != pointer:
                raise Refused(
                    f"{k} is another tensor, or has other memory, than when the step was traced: write into it (copy_), or "
                    "trace again"
                )
        now: Any = {} if self.optimizer is None else cast(Any, self.optimizer).state
        for p, name, t in self.states:
            if now.get(p, {}).get(name) is not t:
                raise Refused(f"{name} of the optimizer is another tensor than when the step was traced: load its state before tracing")
