"""What a layer's forward leaves for its backward, held apart from autograd.

Autograd keeps tensors inside its graph, where nothing can drop or move them. Here the graph of one
layer holds handles only: saved-tensor hooks put what is saved into a :class:`Record`, parameters and
buffers stay where they are, and of the layer's input no reference is kept at all, so that the input
can be dropped while ā stays, and be computed again before the backward. The graph begins in
:class:`Entry` (a leaf would keep its tensor alive) and ends in :class:`Exit` (so would the output).
"""

from __future__ import annotations

from typing import Any, ContextManager, Dict, List, Optional, Sequence, Set, Tuple

import torch

from . import memory
from .errors import Refused
from .state import flatten, unflatten

Shape = Tuple[torch.Size, Tuple[int, ...], int]  # sizes, strides, elements from the start of the base


class Gate:
    """What a layer's graph is handed for its backward, and what comes out of it."""

    def __init__(self) -> None:
        self.inputs: Sequence[torch.Tensor] = ()
        self.gradients: Sequence[Optional[torch.Tensor]] = ()  # δ_ℓ, then δ_{ℓ-1}


class Entry(torch.autograd.Function):
    """Hands a layer its input, and takes the gradient of it."""

    @staticmethod
    def forward(ctx: Any, gate: Gate, anchor: torch.Tensor, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        ctx.gate = gate
        ctx.set_materialize_grads(False)
        return tuple(x.detach() for x in inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Optional[torch.Tensor]) -> Any:
        ctx.gate.gradients = gradients
        return (None, None, *(None for _ in gradients))


class Exit(torch.autograd.Function):
    """The one scalar that a layer's backward starts from; it stands for the outputs."""

    @staticmethod
    def forward(ctx: Any, gate: Gate, *outputs: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        ctx.gate = gate
        return torch.zeros((), device=outputs[0].device)

    @staticmethod
    def backward(ctx: Any, one: torch.Tensor) -> Any:  # type: ignore[override]
        gradients, ctx.gate.gradients = ctx.gate.gradients, ()
        return (None, *gradients)


class Base:
    """One storage: on the device, on the host, or on both."""

    __slots__ = ("tensor", "bytes")

    def __init__(self, tensor: torch.Tensor):
        self.tensor: Optional[torch.Tensor] = tensor
        self.bytes = memory.storage(tensor).nbytes()

    def there(self) -> torch.Tensor:
        """What the device has of it."""
        if self.tensor is None:
            raise AssertionError("a saved tensor is used while it is on the host")
        return self.tensor


class View:
    """A tensor in a Base."""

    __slots__ = ("base", "sizes", "strides", "offset", "dtype")

    def __init__(self, base: Base, t: torch.Tensor):
        self.base, self.dtype = base, t.dtype
        self.sizes, self.strides, self.offset = t.shape, t.stride(), t.storage_offset()

    def tensor(self) -> torch.Tensor:
        t = self.base.there()
        if t.dtype == self.dtype and t.shape == self.sizes and t.stride() == self.strides and t.storage_offset() == self.offset:
            return t.detach()
        with torch.no_grad():
            if t.dtype != self.dtype:
                t = torch.empty(0, dtype=self.dtype, device=t.device).set_(memory.storage(t))
            return t.as_strided(self.sizes, self.strides, self.offset)


class InputView:
    """A tensor in the k-th input of a layer, wherever that is when it is needed."""

    __slots__ = ("index", "of", "sizes", "strides", "offset", "dtype")

    def __init__(self, index: int, start: int, of: Tuple[torch.Size, Tuple[int, ...], torch.dtype], t: torch.Tensor):
        self.index, self.of, self.dtype = index, of, t.dtype
        self.sizes, self.strides, self.offset = t.shape, t.stride(), t.storage_offset() - start

    def tensor(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        x = inputs[self.index]
        if (x.shape, x.stride(), x.dtype) != self.of:
            raise Refused(f"an activation was {tuple(self.of[0])} with strides {self.of[1]}, and is {tuple(x.shape)} with {x.stride()} now")
        with torch.no_grad():
            offset = x.storage_offset() + self.offset
            if self.dtype != x.dtype:
                raw = torch.empty(0, dtype=self.dtype, device=x.device).set_(memory.storage(x))
                return raw.as_strided(self.sizes, self.strides, offset)
            return x.detach().as_strided(self.sizes, self.strides, offset)


class Record:
    """ā_ℓ: the graph of a layer's forward, what it saved, and its outputs."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.bases: List[Base] = []
        self.outputs: List[View] = []
        self.root: Optional[torch.Tensor] = None
        self._known: Dict[int, Base] = {}

    def hold(self, t: torch.Tensor) -> View:
        key = memory.key(t)
        base = self._known.get(key)
        if base is None:
            base = self._known[key] = Base(t.detach())
            self.bases.append(base)
        return View(base, t)

    def close(self) -> None:
        """Ends the forward: from here on nothing is added."""
        self._known = {}

    def there(self) -> bool:
        """Whether all of it is on the device."""
        return all(b.tensor is not None for b in self.bases)

    def bytes(self) -> int:
        """What the device keeps for it: storages, the scalar at its end and the one at its beginning."""
        return sum(b.bytes for b in self.bases) + (2 * memory.size(self.root) if self.root is not None else 0)

    def saving(self, inputs: Sequence[torch.Tensor], resident: Set[int]) -> ContextManager[None]:
        """Hooks under which a forward saves into this record. resident: keys of storages that stay anyway."""
        places = {memory.key(x): (k, x.storage_offset(), (x.shape, x.stride(), x.dtype)) for k, x in enumerate(inputs)}
        gate, hold = self.gate, self.hold

        def pack(t: torch.Tensor) -> Any:
            if t.layout is not torch.strided:
                raise Refused(f"a saved tensor is {t.layout}: only dense tensors can be dropped and computed again")
            k = memory.key(t)
            if k in resident:
                return t
            if k in places:
                return InputView(*places[k], t)
            return hold(t)

        def unpack(saved: Any) -> torch.Tensor:
            if isinstance(saved, View):
                return saved.tensor()
            if isinstance(saved, InputView):
                return saved.tensor(gate.inputs)
            return saved

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def record(layer: Any, value: Any, needs: Sequence[bool], extra: Tuple[Any, ...], resident: Set[int]) -> Tuple[Record, Any]:
    """Runs a layer with gradients, F_all; returns its record and the structure of its output.

    value: the layer's input; its tensors need gradients where needs says so.
    """
    flat, spec = flatten(value)
    inputs = [t for t in flat if isinstance(t, torch.Tensor)]
    made = Record()
    with torch.enable_grad(), made.saving(inputs, resident):
        if any(needs):
            anchor = torch.zeros((), requires_grad=True)
            entered = iter(Entry.apply(made.gate, anchor, *(x for x, n in zip(inputs, needs) if n)))
            given = iter([next(entered) if n else x.detach() for x, n in zip(inputs, needs)])
        else:
            given = iter([x.detach() for x in inputs])
        output = layer(unflatten([next(given) if isinstance(t, torch.Tensor) else t for t in flat], spec), extra)
        out, out_spec = flatten(output)
        differentiable = [t for t in out if isinstance(t, torch.Tensor) and t.requires_grad]
        if differentiable:
            made.root = Exit.apply(made.gate, *differentiable)
    made.outputs = [made.hold(t) if isinstance(t, torch.Tensor) else t for t in out]
    made.close()
    return made, out_spec


def backward(made: Record, inputs: Sequence[torch.Tensor], delta: Sequence[Optional[torch.Tensor]]) -> Sequence[Optional[torch.Tensor]]:
    """B of a layer: from δ_ℓ, one per output that needs a gradient, to δ_{ℓ-1}. Uses up the record and δ_ℓ.

    Gradients of parameters are accumulated in their .grad.
    """
    gate, root = made.gate, made.root
    gate.inputs, gate.gradients = list(inputs), tuple(delta)
    made.bases, made.outputs, made.root = [], [], None
    delta = ()
    if root is None or all(g is None for g in gate.gradients):
        return ()
    torch.autograd.backward(root)
    gate.inputs = ()
    gradients, gate.gradients = gate.gradients, ()
    return gradients
