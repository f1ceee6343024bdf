"""Training steps that follow a plan for a chain.

:func:`apply` makes a module of a network and a plan. Its forward carries out the plan up to the
backward of the last layer, its backward the rest. Everything that the plan's rules leave open is done
as plain training does it: recomputed layers see the random numbers, the autocast mode and the
buffers of their first run, and change nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import torch
from torch import nn

from . import memory
from .arena import Arena
from .cut import Chain, Model, cut
from .errors import UnsupportedError
from .link import Link
from .planfile import FORWARDS, Graphs, Op, Plan, events, graphs, read_plan
from .record import NOTHING, Record, backward, follow, record
from .rerun import RerunGuard
from .state import autocast, autocast_as_now, autocast_is_on, flatten, tensors, unflatten

will_execute: Any = getattr(torch._C, "_will_engine_execute_node")  # noqa: B009 # mypy does not know it
PROBLEMS = ("remat", "activation-offload", "remat-offload")


def apply(
    model: Model, plan: Any, inputs: Any = None, loss: Callable[..., Any] | None = None, targets: Sequence[Any] = ()
) -> PlannedModule:
    """A module with the forward of model whose training steps follow a plan.

    model: a network, or a :class:`~workbench_torch.cut.Chain` that was cut before.
    plan: a file, its JSON, or a Plan, for the chain that :func:`profile` made of the same network.
    inputs, targets: an example of a batch; the network is cut with it, unless it was cut before.
    loss: if given, the module is called with the inputs and then the targets, and returns the loss;
        else it returns what the network returns, and the last layer of the plan, the loss, is left
        to the caller.

    Raises UnsupportedError, before any training, where the plan cannot be carried out on this network.
    """
    if isinstance(model, Chain):
        return PlannedModule(model, read_plan(plan))
    if inputs is None:
        raise UnsupportedError("apply needs an example of the inputs: where a network is cut depends on its shapes")
    return PlannedModule(cut(model, inputs, loss, targets), read_plan(plan))


class PlannedModule(nn.Module):
    """A network whose training steps follow a plan."""

    def __init__(self, chain: Chain, plan: Plan, arena: Arena | None = None):
        super().__init__()
        if arena is not None and (plan.problem != "remat" or chain.example[0][2].type != "cpu"):
            raise UnsupportedError(f"an arena is for plans of remat on a CPU; this one is of {plan.problem}, on {chain.example[0][2].type}")
        self.arena = arena
        self.model = chain.model
        self.chain, self.plan = chain, plan
        self.layers_planned = len(chain.layers) + (not chain.has_loss)
        runs = check(chain, plan, self.layers_planned)
        self.recomputed = {layer for layer, times in runs.items() if times > 1}
        self.events = events(plan)
        of_last = [(k, e.op.op) for k, e in enumerate(self.events) if e.what == "run" and e.op.layer == self.layers_planned]
        self.last_forward = next(k for k, op in of_last if op in FORWARDS)  # where the last layer first runs
        self.first_backward = next(k for k, op in of_last if op == "B")  # and the backwards begin
        self.link: Link | None = None
        last = chain.layers[-1].modules()
        self.modules_once = list({id(m): m for m in (*chain.model.modules(), *last)}.values())
        self.uses = _uses(chain)
        if any(p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None) for of in self.uses.values() for p, _ in of):
            raise UnsupportedError(
                "a parameter that several layers share has a hook on its gradient, which would see its parts one by one: "
                "take it off"
            )
        self.shared_sums: dict[int, torch.Tensor] = {}  # sums of gradients of shared parameters
        self.tensor_attributes = list({(id(m), name): (m, name) for layer in chain.layers for m, name in layer.graphs}.values())
        self.moves = arena is not None or any(o.op == "O" for o in plan.ops)  # what is kept has to be taken hold of
        pairs = {k for k in range(2, len(chain.layers) + 1) if chain.layers[k - 2].gives_one and not {k - 1, k} & set(self.uses)}
        self.graphs = Graphs() if self.moves else graphs(self.events, pairs)
        self.guards: dict[int, RerunGuard] | None = self.make_guards()
        self.unfinished: Callable[[], Step | None] = lambda: None

    def forward(self, *inputs: Any) -> Any:
        """As the network's; with the loss as last layer, the inputs are followed by the targets."""
        if torch.is_grad_enabled() and self.training:
            return self.run_step(list(inputs))
        if not self.chain.has_loss:
            return self.chain.whole(*inputs)
        return self.chain.layers[-1](self.chain.whole(*inputs[: len(inputs) - self.chain.targets]), inputs[1:])

    def run_step(self, inputs: list[Any]) -> Any:
        """As a call, but empties the list of inputs: the plan may drop the first, or send it to the host."""
        self.chain.check(inputs[0], inputs[1:])
        if self.moves and self.unfinished() is not None:
            raise UnsupportedError(
                "a step begins before the backward of another, whose tensors are on the host or at addresses of their own: "
                "end that one, drop its loss, or run what needs no backward under torch.no_grad()"
            )
        step = Step(self, inputs)
        self.unfinished = weakref.ref(step)
        anchor = torch.zeros((), requires_grad=True)
        step.sink = cast(Any, anchor.view_as(anchor).grad_fn).next_functions[0][0]
        made = Run.apply(step, anchor, *step.differentiable())
        step.differentiable_inputs = ()
        for m, name in self.tensor_attributes:
            t = vars(m).get(name)
            if isinstance(t, torch.Tensor):
                vars(m)[name] = DetachedAttribute.apply(t.detach(), anchor, f"{type(m).__name__}.{name}")
        flat, spec = step.result
        out = iter(made)
        step.result = ([], spec)
        return unflatten([next(out) if isinstance(t, torch.Tensor) else t for t in flat], spec)

    def take_guards(self) -> dict[int, RerunGuard]:
        """What a step needs to know of first runs; one that begins before another has ended needs its own."""
        lent, self.guards = self.guards, None
        return self.make_guards() if lent is None else lent

    def make_guards(self) -> dict[int, RerunGuard]:
        """Returns a guard for each layer that runs more than once."""
        layers = enumerate(self.chain.layers, 1)
        return {k: RerunGuard(self.chain, layer) for k, layer in layers if k in self.recomputed and (layer.random or layer.changes)}

    def get_link(self) -> Link:
        """The link to the host of the device on which the chain's input lies."""
        if self.link is None:
            self.link = Link(self.chain.example[0][2])
        return self.link


class Run(torch.autograd.Function):
    """The two halves of a step, as autograd sees them."""

    @staticmethod
    def forward(ctx: Any, step: Step, anchor: torch.Tensor, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        """Runs the plan up to the first backward."""
        ctx.step, ctx.sink = step, step.sink
        ctx.set_materialize_grads(False)
        made, differ = step.first_half()
        ctx.mark_non_differentiable(*(t for t, d in zip(made, differ) if not d))
        ctx.differ = differ
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *delta: torch.Tensor | None) -> Any:
        """Runs the rest of the plan and returns the gradients of the inputs."""
        step = ctx.step
        if step is None:
            raise UnsupportedError("a planned step was asked for its backward twice: what it needs is gone after the first")
        if torch.is_grad_enabled():
            raise UnsupportedError(
                "a planned step has no second derivatives (create_graph=True): compute the part of the loss that needs them "
                "without a plan"
            )
        if not will_execute(ctx.sink):
            raise UnsupportedError(
                "a planned step adds gradients to the .grad of all parameters, and was asked for those of a few tensors "
                "(torch.autograd.grad, backward(inputs=…)): call backward(), or run that part without a plan"
            )
        ctx.step = None
        wanted = [g for g, d in zip(delta, ctx.differ) if d]
        del delta
        return (None, None, *step.second_half(wanted))


class DetachedAttribute(torch.autograd.Function):
    """A tensor that a module keeps in an attribute, for who reads it after the forward: of what made it the graph is not his."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, anchor: torch.Tensor, name: str) -> torch.Tensor:  # type: ignore[override]
        """Returns the value, detached."""
        ctx.name = name
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *delta: torch.Tensor) -> Any:
        """Raises UnsupportedError: the gradient would be lost."""
        raise UnsupportedError(
            f"{ctx.name} is part of the loss, but no output of the network: return it, so that its gradient goes back "
            "through the plan"
        )


class Step:
    """One training step: what is stored, and how far the plan is."""

    def __init__(self, planned: PlannedModule, inputs: list[Any]):
        self.planned, self.chain = planned, planned.chain
        self.layers = planned.chain.layers
        n = planned.layers_planned
        self.a: list[Record | None] = [None] * (n + 1)
        self.abar: list[Record | None] = [None] * (n + 1)
        self.delta: list[list[torch.Tensor | None] | None] = [None] * (n + 1)
        self.specs: list[Any] = [None] * (n + 1)
        self.offloaded: dict[tuple[str, int], Any] = {}
        self.evicting: dict[tuple[str, int], bool] = {}  # what is being offloaded, and whether it has arrived
        self.fetching: dict[tuple[str, int], Any] = {}
        self.summing: set[int] = set()
        self.forwarded: set[int] = set()
        self.done = 0  # events
        self.autocast = autocast_as_now()
        value = inputs.pop(0)
        self.extra = self.chain.with_side(value, tuple(inputs))
        inputs.clear()
        flat, self.specs[0] = flatten(value)
        self.needs0 = tuple(t.requires_grad for t in flat if isinstance(t, torch.Tensor))
        self.differentiable_inputs: Sequence[torch.Tensor] = [t for t in flat if isinstance(t, torch.Tensor) and t.requires_grad]
        self.guards = planned.take_guards()
        if self.planned.arena is not None:
            self.planned.arena.begin()
        self.a[0] = self._place_record("a", 0, Record(_without_graph(flat)))
        self.versions = [(weakref.ref(t), t._version) for t in tensors(value)]
        self.result: tuple[list[Any], Any] = ([], None)
        self.sink: Any = None  # what a backward to all leaves comes to
        self.resident: set[int] | None = self._resident() if planned.moves else None

    def _resident(self) -> set[int]:
        """Keys of the storages that stay wherever the plan is."""
        found = {memory.key(t) for t in tensors(self.extra)}
        for m in self.planned.modules_once:
            found.update(memory.key(t) for t in (*m._parameters.values(), *m._buffers.values()) if t is not None)
        found.update(memory.key(b) for first in self.guards.values() for b in first.spare)
        return found

    def differentiable(self) -> Sequence[torch.Tensor]:
        """Returns the inputs that need a gradient."""
        return self.differentiable_inputs

    # ---- the two halves

    def first_half(self) -> tuple[list[torch.Tensor], list[bool]]:
        """Everything before the backward of the last layer; the network's output, and what of it has gradients."""
        self.casts = bool(self.autocast)
        while self.done < (self.planned.first_backward if self.chain.has_loss else self.planned.last_forward):
            self._advance()
        layer = len(self.layers)
        output = self._output(layer)
        while self.done < self.planned.first_backward:
            self._advance()
        if self.planned.arena is not None:  # its place there is for others after this step
            output = [t.clone() if isinstance(t, torch.Tensor) else t for t in output]
        self.result = (list(output), self.specs[layer])
        made = [t for t in output if isinstance(t, torch.Tensor)]
        self.versions += [(weakref.ref(t), t._version) for t in made]
        return made, list(self.layers[layer - 1].needs_grad)

    def second_half(self, delta: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """The backwards; returns the gradients of the inputs that need them."""
        for watched, version in self.versions:
            t = watched()
            if t is not None and t._version != version:
                raise UnsupportedError("an input or output of the network was changed in place before the backward, which needs it")
        self.versions = []
        self.casts = bool(self.autocast) or autocast_is_on()  # of the caller of the backward
        n = self.planned.layers_planned
        last = n if self.chain.has_loss else n - 1
        self.delta[last] = self._place_delta(last, delta)
        del delta
        while self.done < len(self.planned.events):
            self._advance()
        self.planned.guards = self.guards
        return self.delta[0] or [None] * sum(self.needs0)

    def _advance(self) -> None:
        e, place = self.planned.events[self.done], self.done
        self.done += 1
        op, layer = e.op.op, e.op.layer
        if e.what == "begin":
            self._begin(e.op)
        elif e.what == "finish":
            self._finish(e.op)
        elif op == "D":
            self._free(e.op.tensor, layer)
        elif layer > len(self.layers):  # the caller computes it
            if op == "B":
                self._consume("a", layer - 1)
        elif op == "B":
            self._backward(layer)
        else:
            self._forward(e.op, place)

    # ---- computations

    def _record(self, layer: int) -> Record:
        """Where a_ℓ is: in itself or in ā_ℓ."""
        for tensor, kept in (("a", self.a[layer]), ("abar", self.abar[layer])):
            if kept is not None and (not self.planned.moves or kept.there() and (tensor, layer) not in self.fetching):
                return kept
        raise AssertionError(f"a_{layer} is not there")

    def _output(self, layer: int) -> list[Any]:
        """a_ℓ as tensors that may get a graph of their own."""
        return [t.detach() if isinstance(t, torch.Tensor) else t for t in self._record(layer).values()]

    def _needs(self, layer: int) -> tuple[bool, ...]:
        return self.layers[layer - 1].needs_grad if layer else self.needs0

    def _forward(self, op: Op, place: int) -> None:
        """F_all, F_ck or F_none. Autograd is off here, within a function of its own."""
        number = op.layer
        layer, first = self.layers[number - 1], self.guards.get(number)
        with first.run(number in self.forwarded) if first else NOTHING, autocast(self.autocast) if self.casts else NOTHING:
            if op.op == "F_all":
                made, spec = self._recorded(number, place)
                self.abar[number] = self._place_record("abar", number, made)
            else:
                value = unflatten(self._record(number - 1).values(), self.specs[number - 1])
                flat, spec = flatten(layer.forward_no_grad(value, self._needs(number - 1), self.extra))
                self.a[number] = self._place_record("a", number, Record(_without_graph(flat)))
                del flat, value
        self.specs[number] = spec
        self.forwarded.add(number)
        if op.op == "F_none":
            self._consume("a", number - 1)
        if self.evicting:
            for tensor in ("a", "abar"):
                if self.evicting.get((tensor, number - 1)):
                    del self.evicting[tensor, number - 1]
                    self._free(tensor, number - 1)

    def _recorded(self, number: int, place: int) -> tuple[Record, Any]:
        """ā_ℓ, made by the event at a place, and the structure of a_ℓ."""
        layer, before, how = self.layers[number - 1], self._record(number - 1), self.planned.graphs
        if place in how.follows:
            step = weakref.ref(self)  # which holds this graph

            def passed() -> None:
                of = step()
                if of is not None:
                    of.abar[number - 1] = None
                    of._consume("a", number - 1)  # noqa: SLF001 # this step

            return follow(before, passed, layer, self.extra, place in how.goes_on)
        value = unflatten(before.values(), self.specs[number - 1])
        made, spec = record(
            layer, value, self._needs(number - 1), self.extra, self.resident, stays=place in how.stays, goes_on=place in how.goes_on
        )
        made.begins = number
        return made, spec

    def _backward(self, number: int) -> None:
        """B, of all layers in the graph of ā_ℓ at once: their backwards come next."""
        made, self.abar[number] = self._stored("abar", number), None
        inputs = [t for t in self._record(made.begins - 1).values() if isinstance(t, torch.Tensor)]
        delta, self.delta[number] = self.delta[number] or [], None
        with self._summing(number):
            gradients = backward(made, inputs, delta)
        del inputs, delta
        for layer in range(made.begins, number):  # of those that no gradient has reached
            self.abar[layer] = None
            self._consume("a", layer)
        self.done += number - made.begins
        number = made.begins
        self._consume("a", number - 1)
        self.evicting.pop(("abar", number), None)
        for tensor in ("abar", "delta"):
            self._release(tensor, number)
        self.delta[number - 1] = self._place_delta(number - 1, list(gradients) or [None] * sum(self._needs(number - 1)))

    def _summing(self, number: int) -> AbstractContextManager[None]:
        return self._summed(number) if number in self.planned.uses else NOTHING

    @contextmanager
    def _summed(self, number: int) -> Iterator[None]:
        """Sums up the gradients of parameters that several layers share before they go to .grad.

        Plain training adds their parts to each other first; a .grad that holds something already would
        round in another order. Where .grad is empty the parts go there at once.
        """
        shared = [(p, layers) for p, layers in self.planned.uses.get(number, []) if p.grad is not None or id(p) in self.summing]
        before: dict[int, torch.Tensor] = {}  # .grad, which is not None
        for p, layers in shared:
            if number == max(layers):
                self.summing.add(id(p))
                held = self.planned.shared_sums.get(id(p))
                self.planned.shared_sums[id(p)] = torch.zeros_like(p) if held is None else held.zero_()
            if id(p) in self.summing:
                before[id(p)] = cast(torch.Tensor, p.grad)
                p.grad = self.planned.shared_sums[id(p)]
        try:
            yield
        finally:
            for p, layers in shared:
                if id(p) in before:
                    p.grad = before[id(p)]
                    if number == min(layers):
                        self.summing.discard(id(p))
                        with torch.no_grad():
                            before[id(p)].add_(self.planned.shared_sums[id(p)])

    # ---- what is stored

    def _kept(self, tensor: str) -> list[Record | None]:
        return self.a if tensor == "a" else self.abar

    def _stored(self, tensor: str, layer: int) -> Record:
        kept = self._kept(tensor)[layer]
        if kept is None:
            raise AssertionError(f"{tensor}_{layer} is not there")
        return kept

    def _place_record(self, tensor: str, layer: int, kept: Record) -> Record:
        """What is kept, at its address if there is an arena."""
        if self.planned.moves and not kept.bases:
            kept.movable()
        if self.planned.arena is not None:
            self.planned.arena.take((tensor, layer), kept.bases)
        return kept

    def _place_delta(self, layer: int, delta: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """The same for δ; that of the inputs goes to the caller."""
        if self.planned.arena is None or layer == 0:
            return delta
        return self._place_record("delta", layer, Record(delta)).values()

    def _release(self, tensor: str, layer: int) -> None:
        if self.planned.arena is not None:
            self.planned.arena.free((tensor, layer))

    def _consume(self, tensor: str, layer: int) -> None:
        if (tensor, layer) not in self.evicting:
            self._free(tensor, layer)

    def _free(self, tensor: str, layer: int) -> None:
        """Frees what the device has of a tensor; what was offloaded may be fetched later."""
        kept = self._kept(tensor)
        if (tensor, layer) not in self.offloaded:
            kept[layer] = None
            self._release(tensor, layer)
            return
        left = kept[layer]
        for base in left.bases if left else ():
            base.tensor = None

    def _place(self, op: Op) -> tuple[str, int]:
        return ("a" if op.layer == 0 else op.tensor), op.layer

    def _begin(self, op: Op) -> None:
        place, link = self._place(op), self.planned.get_link()
        bases = self._stored(*place).bases
        if op.op == "O":
            self.offloaded[place] = link.send(place, bases)
            self.evicting[place] = False
        else:
            self.fetching[place] = link.fetch(place, bases, self.offloaded[place])

    def _finish(self, op: Op) -> None:
        place, link = self._place(op), self.planned.get_link()
        if op.op == "P":
            link.wait(self.fetching.pop(place))
            return
        link.wait(self.offloaded[place])
        if place not in self.evicting:
            return
        if self.planned.plan.problem == "activation-offload" and op.layer + 1 not in self.forwarded:
            self.evicting[place] = True  # it stays for the next forward
            return
        del self.evicting[place]
        self._free(*place)


def _without_graph(flat: Sequence[Any]) -> list[Any]:
    return [t.detach() if isinstance(t, torch.Tensor) and t.requires_grad else t for t in flat]


def _uses(chain: Chain) -> dict[int, list[tuple[nn.Parameter, list[int]]]]:
    """By layer: its parameters that other layers use, too, with the layers that do."""
    of: dict[int, tuple[nn.Parameter, list[int]]] = {}
    for number, layer in enumerate(chain.layers, 1):
        for p in layer.parameters():
            of.setdefault(id(p), (p, []))[1].append(number)
    uses: dict[int, list[tuple[nn.Parameter, list[int]]]] = {}
    for p, layers in of.values():
        for number in layers if len(layers) > 1 else ():
            uses.setdefault(number, []).append((p, layers))
    return uses


def check(chain: Chain, plan: Plan, n: int) -> dict[int, int]:
    """Refuses plans that cannot be carried out on a chain of n layers; how often each layer's forward runs.

    What is stored is followed as the plan says it; memory and times are the business of workbench verify.
    """
    if plan.problem not in PROBLEMS:
        raise UnsupportedError(f"plans of {plan.problem or 'no problem'} are not run here, those of {', '.join(PROBLEMS)} are")
    highest = max((o.layer for o in plan.ops), default=0)
    if highest != n:
        raise UnsupportedError(f"the plan is for {highest} layers, the network has {n} with the loss: plan for its profile")
    stored: set[tuple[str, int]] = {("a", 0), ("delta", n)}
    host: set[tuple[str, int]] = set()
    runs: dict[int, int] = {}

    def need(op: Op, *choice: tuple[str, int]) -> None:
        if not any(c in stored for c in choice):
            names = " or ".join(f"{t}_{k}" for t, k in choice)
            raise UnsupportedError(f"the plan breaks a rule: {op} needs {names}, which is not there")

    for e in events(plan):
        o, layer = e.op, e.op.layer
        place = ("a" if layer == 0 else o.tensor, layer)
        if o.op in FORWARDS:
            need(o, ("a", layer - 1), ("abar", layer - 1))
            stored.add(("abar" if o.op == "F_all" else "a", layer))
            runs[layer] = runs.get(layer, 0) + 1
            if o.op == "F_none":
                stored.discard(("a", layer - 1))
        elif o.op == "B":
            for choice in ([("delta", layer)], [("abar", layer)], [("a", layer - 1), ("abar", layer - 1)]):
                need(o, *choice)
            stored -= {("delta", layer), ("abar", layer), ("a", layer - 1)}
            stored.add(("delta", layer - 1))
        elif o.op == "D":
            if o.tensor not in ("a", "abar"):
                raise UnsupportedError(f"the plan breaks a rule: {o} discards neither a nor abar")
            need(o, place)
            stored.discard(place)
        elif o.op == "O" and e.what == "begin":
            host.add(place)
        elif o.op == "P" and e.what == "begin":
            if place not in host:
                raise UnsupportedError(f"the plan breaks a rule: {o} fetches what the host does not have")
            stored.add(place)
        elif o.op not in ("O", "P"):
            raise UnsupportedError(f"operation {o} is unknown")
    if ("delta", 0) not in stored:
        raise UnsupportedError("the plan ends before the backward of layer 1")
    for number, of in enumerate(chain.layers, 1):
        if of.attributes and runs.get(number, 0) > 1:
            raise UnsupportedError(
                f"layer {number} ({of.name}) computes something else when it is recomputed, it changes {', '.join(of.attributes)}; "
                f"the plan runs it {runs[number]} times: keep that in a buffer, which is put back"
            )
    return runs
