"""What a layer's forward leaves for its backward, held apart from autograd.

Autograd keeps tensors inside its graph, where nothing can drop or move them. Here the graph of one
layer holds handles only: saved-tensor hooks put what is saved into a :class:`Record`, parameters and
buffers stay where they are, and of the layer's input no reference is kept at all, so that the input
can be dropped while ā stays, and be computed again before the backward. The graph begins in
:class:`Entry` (a leaf would keep its tensor alive) and ends in :class:`Exit` (so would the output).

That is what a profile counts, and what travels or has an address. Everything else is left to autograd: tensors
that nothing moves stay in its graph, the input too if the plan keeps it, and where a plan goes back through
two layers without a stop, the second goes on in the graph of the first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from . import memory
from .errors import UnsupportedError
from .state import flatten, unflatten

NOTHING: AbstractContextManager[None] = nullcontext()  # entering a context of a generator takes as long as a small operation


class Gate:
    """What a layer's graph is handed for its backward, and what comes out of it."""

    def __init__(self) -> None:
        self.inputs: Sequence[torch.Tensor] = ()
        self.gradients: Sequence[torch.Tensor | None] = ()  # δ_ℓ, then δ_{ℓ-1}


class Entry(torch.autograd.Function):
    """Hands a layer its input, and takes the gradient of it."""

    @staticmethod
    def forward(ctx: Any, gate: Gate, anchor: torch.Tensor, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        """Returns the inputs, detached."""
        ctx.gate = gate
        ctx.set_materialize_grads(False)
        return tuple(x.detach() for x in inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        """Hands the gradients of the inputs to the gate."""
        ctx.gate.gradients = gradients
        return (None, None, *(None for _ in gradients))


class Exit(torch.autograd.Function):
    """The one scalar that a layer's backward starts from; it stands for the outputs."""

    @staticmethod
    def forward(ctx: Any, gate: Gate, *outputs: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Returns the scalar."""
        ctx.gate = gate
        return torch.zeros((), device=outputs[0].device)

    @staticmethod
    def backward(ctx: Any, one: torch.Tensor) -> Any:  # type: ignore[override]
        """Returns δ, taken from the gate."""
        gradients, ctx.gate.gradients = ctx.gate.gradients, ()
        return (None, *gradients)


class Base:
    """One storage: on the device, on the host, or on both."""

    __slots__ = ("tensor", "bytes")

    def __init__(self, tensor: torch.Tensor):
        self.tensor: torch.Tensor | None = tensor
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
        """Returns the tensor."""
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

    def __init__(self, index: int, start: int, of: tuple[torch.Size, tuple[int, ...], torch.dtype], t: torch.Tensor):
        self.index, self.of, self.dtype = index, of, t.dtype
        self.sizes, self.strides, self.offset = t.shape, t.stride(), t.storage_offset() - start

    def tensor(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Returns the tensor, in the inputs as they are now."""
        x = inputs[self.index]
        if (x.shape, x.stride(), x.dtype) != self.of:
            raise UnsupportedError(f"an activation was {tuple(self.of[0])}, strides {self.of[1]}, now {tuple(x.shape)}, {x.stride()}")
        with torch.no_grad():
            offset = x.storage_offset() + self.offset
            if self.dtype != x.dtype:
                raw = torch.empty(0, dtype=self.dtype, device=x.device).set_(memory.storage(x))
                return raw.as_strided(self.sizes, self.strides, offset)
            return x.detach().as_strided(self.sizes, self.strides, offset)


class Record:
    """ā_ℓ: the graph of a layer's forward, what it saved, and its outputs; or a_ℓ, which is outputs alone."""

    def __init__(self, outputs: Sequence[Any] = ()) -> None:
        self.gate = Gate()
        self.bases: list[Base] = []  # of what can be moved
        self.outputs = list(outputs)  # Views where they can be moved, else tensors without a graph
        self.root: torch.Tensor | None = None
        self.live: torch.Tensor | None = None  # the output in the graph, if that goes on
        self.begins = 0  # the layer with which the graph begins
        self._known: dict[int, Base] = {}

    def hold(self, t: torch.Tensor) -> View:
        """Returns a view of t in a base of this record."""
        key = memory.key(t)
        base = self._known.get(key)
        if base is None:
            base = self._known[key] = Base(t.detach())
            self.bases.append(base)
        return View(base, t)

    def movable(self) -> Record:
        """The same, its outputs in bases; ends the forward: from here on nothing is added."""
        self.outputs = [self.hold(t) if isinstance(t, torch.Tensor) else t for t in self.outputs]
        self._known = {}
        return self

    def there(self) -> bool:
        """Whether all of it is on the device."""
        return all(b.tensor is not None for b in self.bases)

    def values(self) -> list[Any]:
        """The outputs."""
        return [v.tensor() if isinstance(v, View) else v for v in self.outputs]

    def bytes(self) -> int:
        """What the device keeps for it: storages, the scalar at its end and the one at its beginning."""
        return sum(b.bytes for b in self.bases) + (2 * memory.size(self.root) if self.root is not None else 0)

    def saving(self, inputs: Sequence[torch.Tensor], resident: set[int] | None) -> AbstractContextManager[None]:
        """Hooks under which a forward saves without its inputs.

        resident: keys of storages that stay anyway; the others go into bases. None: they stay in the graph.
        The hooks refer to the record weakly: autograd keeps them as long as the graph, which the record holds, and a
        cycle through C++ is never collected. A record that is dropped before its backward must free what it saved.
        """
        places = {memory.key(x): (k, int(x.storage_offset()), (x.shape, x.stride(), x.dtype)) for k, x in enumerate(inputs)}
        gate, this = self.gate, weakref.ref(self)

        def pack(t: torch.Tensor) -> Any:
            if t.layout is not torch.strided:
                raise UnsupportedError(f"a saved tensor is {t.layout}: only dense tensors can be dropped and computed again")
            k = memory.key(t)
            if k in places:
                return InputView(*places[k], t)
            if resident is None:
                return t.detach()
            made = this()
            return t if k in resident or made is None else made.hold(t)

        def unpack(saved: Any) -> torch.Tensor:
            if isinstance(saved, View):
                return saved.tensor()
            if isinstance(saved, InputView):
                return saved.tensor(gate.inputs)
            return saved

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def enter(self, inputs: Sequence[torch.Tensor], needs: Sequence[bool]) -> list[torch.Tensor]:
        """The inputs as the graph knows them."""
        if not any(needs):
            return [x.detach() for x in inputs]
        anchor = torch.zeros((), requires_grad=True)
        entered = iter(Entry.apply(self.gate, anchor, *(x for x, n in zip(inputs, needs) if n)))
        return [next(entered) if n else x.detach() for x, n in zip(inputs, needs)]

    def end(self, output: Any, goes_on: bool) -> Any:
        """Ends the forward, whose graph goes on in another layer or ends here; the structure of the output."""
        out, spec = flatten(output)
        differentiable = [t for t in out if isinstance(t, torch.Tensor) and t.requires_grad]
        if goes_on:
            (self.live,) = differentiable
        elif differentiable:
            self.root = Exit.apply(self.gate, *differentiable)
        self.outputs = [t.detach() if isinstance(t, torch.Tensor) else t for t in out]
        return spec


def record(
    layer: Any,
    value: Any,
    needs: Sequence[bool],
    extra: tuple[Any, ...],
    resident: set[int] | None,
    *,
    stays: bool = False,
    goes_on: bool = False,
) -> tuple[Record, Any]:
    """Runs a layer with gradients, F_all; returns its record and the structure of its output.

    value: the layer's input; its tensors need gradients where needs says so.
    resident: as for :meth:`Record.saving`; stays: the input stays until the backward, no hooks are needed.
    goes_on: the layer's graph does not end here but in :func:`follow`.
    """
    flat, spec = flatten(value)
    inputs = [t for t in flat if isinstance(t, torch.Tensor)]
    made = Record()
    with torch.enable_grad(), NOTHING if stays else made.saving(inputs, resident):
        given = iter(made.enter(inputs, needs))
        output = layer(unflatten([next(given) if isinstance(t, torch.Tensor) else t for t in flat], spec), extra)
        out_spec = made.end(output, goes_on)
    return made if resident is None else made.movable(), out_spec


def follow(before: Record, passed: Callable[[], None], layer: Any, extra: tuple[Any, ...], goes_on: bool) -> tuple[Record, Any]:
    """As record, in the graph of the layer before.

    passed: called by the backward when it is through with this layer and begins with the one before.
    """
    made = Record()
    made.gate, made.begins = before.gate, before.begins
    if before.live is None:
        raise AssertionError("a graph goes on that has ended")
    before.live.register_hook(lambda delta: passed())
    with torch.enable_grad():
        spec = made.end(layer(before.live, extra), goes_on)
    return made, spec


def backward(made: Record, inputs: Sequence[torch.Tensor], delta: list[torch.Tensor | None]) -> Sequence[torch.Tensor | None]:
    """B of a layer, and of those before it in its graph: from δ_ℓ, one per output that needs a gradient, to the δ of the graph's input.

    Uses up the record, and empties δ_ℓ, so that the first of several layers frees it before the others begin.
    Gradients of parameters are accumulated in their .grad.
    """
    gate, root = made.gate, made.root
    gate.inputs, gate.gradients = list(inputs), tuple(delta)
    made.bases, made.outputs, made.root = [], [], None
    delta.clear()
    if root is None or all(g is None for g in gate.gradients):
        return ()
    torch.autograd.backward(root)
    gate.inputs = ()
    gradients, gate.gradients = gate.gradients, ()
    return gradients
