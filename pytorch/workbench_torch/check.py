"""Whether a step by a plan is the step that plain training makes, and keeps its memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from . import memory
from .arena import Arena
from .compiled import compile_plan
from .cut import Chain, Model, cut
from .errors import Refused
from .graph import Graph
from .plan import FORWARDS, Plan, events, read_json, read_plan
from .profiler import once
from .runner import Planned
from .state import State, same


def check(
    model: Model,
    inputs: Any,
    loss: Callable[..., Any] | None,
    targets: Sequence[Any],
    instance: Any,
    plan: Any,
    *,
    steps: int = 3,
    arena: Arena | None = None,
) -> dict[str, Any]:
    """Trains one step plainly and one by a plan, from the same state, and compares them.

    model, inputs, loss, targets: as for :func:`~workbench_torch.profiler.profile`.
    instance: the chain/v1 file that profile wrote, or its JSON; plan: a plan for it.
    steps: how many steps the times are medians of; 0: none are measured.
    arena: where the plan's tensors have their addresses. Then ``measured_peak`` is all of it and what there is
    beside it, ``within_limit`` says whether its height is, ``arena_height``, and ``arena_reached`` what was used of it.

    Returns sizes in bytes and times in seconds: ``limit`` (the plan's memory), ``predicted_peak`` and
    ``predicted_time`` (the plan replayed with what was profiled), ``claimed_peak`` (what the plan says),
    ``measured_peak`` and ``plain_peak`` (of a device on which parameters, buffers and gradients already are),
    ``plan_time``, ``plain_time``, and whether ``loss_equal``, ``gradients_equal``, ``buffers_equal``: bit by bit.
    """
    plan = read_plan(plan)
    document = instance if isinstance(instance, dict) else read_json(instance)
    chain = model if isinstance(model, Chain) else cut(model, inputs, loss, targets)
    whole = chain.model if isinstance(model, Chain) else model
    agree(chain, document)
    planned = Planned(chain, plan, arena)
    run = _Runs(chain.model, chain.example[0][2], inputs, targets)
    plain = run.measure(_plain(whole, loss, len(targets)), steps)
    follows = run.measure(planned.run_step, steps)
    predicted_peak, predicted_time = predict(document, plan)
    return {
        "limit": plan.memory,
        "predicted_peak": predicted_peak,
        "claimed_peak": plan.claims.get("peak_memory"),
        "measured_peak": follows["peak"] + (arena.height if arena else 0),
        "plain_peak": plain["peak"],
        "within_limit": (arena.height if arena else follows["peak"]) <= plan.memory if plan.memory else True,
        **compare(plain, follows),
        "plain_time": plain["time"],
        "plan_time": follows["time"],
        "predicted_time": predicted_time,
        "host_bytes": planned.link.bytes() if planned.link else 0,
        **({} if arena is None else {"arena_height": arena.height, "arena_reached": arena.reached}),
    }


def check_graph(
    model: nn.Module,
    inputs: Any,
    loss: Callable[..., Any] | None,
    targets: Sequence[Any],
    graph: Graph,
    plan: Any,
    *,
    steps: int = 3,
    optimizer: torch.optim.Optimizer | None = None,
) -> dict[str, Any]:
    """As :func:`check`, for a plan for a graph; graph is what trace made of the network.

    Gradients are storages of the graph, so both steps begin without any. optimizer: the one that was
    traced; then ``parameters_equal`` says whether parameters and momenta are equal after the step, too.
    """
    plan = read_plan(plan)
    step = compile_plan(graph, plan)
    run = _Runs(model, graph.device, inputs, targets, gradients=False, optimizer=optimizer)
    parameters = dict(model.named_parameters())

    def by_plan(given: list[Any]) -> torch.Tensor:
        value, gradients = step(*given)
        for name, g in gradients.items():
            parameters[name].grad = g
        return value

    plain = run.measure(_plain(model, loss, len(targets)), steps)
    follows = run.measure(by_plan, steps, backward=False)
    return {
        "limit": plan.memory,
        "predicted_peak": plan.claims.get("peak_memory"),
        "measured_peak": follows["peak"],
        "plain_peak": plain["peak"],
        "within_limit": follows["peak"] <= plan.memory if plan.memory else True,
        **compare(plain, follows),
        "plain_time": plain["time"],
        "plan_time": follows["time"],
        "predicted_time": plan.claims.get("makespan"),
        "host_bytes": step.link.bytes() if step.link else 0,
    }


def passes(result: dict[str, Any]) -> bool:
    """Whether nothing differs and the limit holds."""
    return all(result.get(k, True) for k in ("within_limit", "loss_equal", "gradients_equal", "buffers_equal", "parameters_equal"))


def compare(plain: dict[str, Any], other: dict[str, Any]) -> dict[str, bool]:
    """Whether two measured steps made the same, bit by bit."""
    return {
        f"{what}_equal": len(plain[what]) == len(other[what])
        and all((a is None) == (b is None) and (a is None or same(a, b)) for a, b in zip(plain[what], other[what]))
        for what in ("loss", "gradients", "buffers", "parameters")
        if what in plain
    }


def agree(chain: Chain, document: dict[str, Any]) -> None:
    """Refuses an instance that was not made of this network."""
    names = [layer.get("name") for layer in document.get("layers", [])]
    ours = [layer.name for layer in chain.layers]
    if names != ours:
        k = next((k for k, (a, b) in enumerate(zip(names, ours)) if a != b), min(len(names), len(ours)))
        raise Refused(
            f"the instance is of another network: it has {len(names)} layers and the network {len(ours)}, and layer {k + 1} is "
            f"{names[k] if k < len(names) else 'none'} there and {ours[k] if k < len(ours) else 'none'} here; profile it again"
        )


def agree_graph(graph: Graph, document: dict[str, Any]) -> None:
    """Refuses an instance that was not made of this step."""
    ours = [(f"n{k}", n.operation, [f"s{s}" for s in n.reads()]) for k, n in enumerate(graph.nodes)]
    theirs = [(str(n.get("id")), n.get("operation"), n.get("reads", [])) for n in document.get("nodes", [])]
    if ours != theirs:
        k = next((k for k, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
        raise Refused(
            f"the instance is of another step: it has {len(theirs)} nodes and this step {len(ours)}, and node {k} differs; profile it again"
        )


def predict(document: dict[str, Any], plan: Plan) -> tuple[int, float]:
    """Peak in bytes and makespan in seconds of a plan on a chain, as the profile has it.

    It knows more than chain/v1 has fields for: a forward that keeps ā and one that does not need
    different memory beside their outputs, and a backward that frees as it goes may need less than what
    is stored before it with δ_{ℓ-1}. So it lies at or below what workbench says of the plan.
    """
    layers = document["layers"]
    start = document.get("input", {"activation": 0})
    a = [start["activation"], *(x["activation"] for x in layers)]
    abar = [0, *(x.get("saved", x["activation"]) for x in layers)]
    delta = [start.get("gradient", a[0]), *(x.get("gradient", x["activation"]) for x in layers)]
    size = {"a": a, "abar": abar, "delta": delta}
    stored = {("a", 0), ("delta", len(layers))}
    leaving: set[tuple[str, int]] = set()
    peak = 0

    def total(more: int) -> int:
        return sum(size[t][k] for t, k in stored) + more

    for e in events(plan):
        o, k = e.op, e.op.layer
        place = ("a" if k == 0 else o.tensor, k)
        if o.op in FORWARDS:
            x = layers[k - 1]
            over = x.get("x-forward-overhead", [x.get("forward_overhead", 0)] * 2)
            made = "abar" if o.op == "F_all" else "a"
            peak = max(peak, total(size[made][k] + over[o.op != "F_all"]))
            stored.add((made, k))
            if o.op == "F_none":
                stored -= {("a", k - 1)} - leaving
        elif o.op == "B":
            over = layers[k - 1].get("x-backward-overhead", layers[k - 1].get("backward_overhead", 0))
            peak = max(peak, total(delta[k - 1] + over), total(0))
            stored -= {("delta", k), ("abar", k), ("a", k - 1)} - leaving
            stored.add(("delta", k - 1))
        elif o.op == "D":
            stored.discard(place)
        elif o.op == "P" and e.what == "begin":
            stored.add(place)
            peak = max(peak, total(0))
        elif o.op == "O" and e.what == "begin":
            leaving.add(place)
        elif o.op == "O":
            leaving.discard(place)
            stored.discard(place)
    computed = [layers[o.layer - 1]["backward_time" if o.op == "B" else "forward_time"] for o in plan.ops if o.op in (*FORWARDS, "B")]
    return int(peak), plan.claims.get("makespan") or sum(computed)


def _plain(model: Model, loss: Callable[..., Any] | None, targets: int) -> Callable[[list[Any]], Any]:
    """A plain step's forward from a list of inputs and targets."""

    def run(given: list[Any]) -> Any:
        inputs, rest = given[: len(given) - targets], given[len(given) - targets :]
        given.clear()
        if isinstance(model, nn.Module):
            output = model(*inputs)
        else:
            output = inputs[0]
            for f in model:
                output = f(output)
        return output if loss is None else loss(output, *rest)

    return run


class _Runs:
    """Steps from one state, measured."""

    def __init__(
        self,
        model: nn.Module,
        device: torch.device,
        inputs: Any,
        targets: Sequence[Any],
        gradients: bool = True,
        optimizer: torch.optim.Optimizer | None = None,
    ):
        self.model, self.device, self.gradients = model, device, gradients
        self.meter = memory.need_meter(self.device)
        self.given = [*(inputs if isinstance(inputs, tuple) else (inputs,)), *targets]
        self.state = State(model)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = optimizer
        momenta = [] if optimizer is None else [t for of in optimizer.state.values() for t in of.values() if isinstance(t, torch.Tensor)]
        self.learned = [] if optimizer is None else [*model.parameters(), *momenta]
        self.before = [t.detach().clone() for t in self.learned]

    def measure(self, forward: Callable[[list[Any]], Any], steps: int, backward: bool = True) -> dict[str, Any]:
        """Peak above what is resident, median time, and what the step made; backward: whether forward leaves that to us.

        For chains gradients are there before the step, full of zeros, and the first input belongs to the
        step; for graphs gradients are made by the step, and inputs are resident.
        """
        before = [p.grad for p in self.parameters]
        try:
            for p in self.parameters:
                p.grad = torch.zeros_like(p) if self.gradients else None
            self._step(forward, backward)  # warms up: host buffers, sums of shared gradients, caches of kernels
            self._clear()
            base = self.meter.current()
            self.meter.reset()
            _, loss = self._step(forward, backward)
            peak = self.meter.peak() - base
            made = {"loss": [loss], "peak": peak}
            if self.optimizer is None:
                made["gradients"] = [None if p.grad is None else p.grad.clone() for p in self.parameters]
            else:
                made["gradients"] = []
                made["parameters"] = [t.detach().clone() for t in self.learned]
            made["buffers"] = [b.detach().clone() for b in self.model.buffers()]
            made["time"] = statistics.median(self._step(forward, backward)[0] for _ in range(steps)) if steps else None
            return made
        finally:
            self._restore()
            for p, grad in zip(self.parameters, before):
                p.grad = grad

    def _clear(self) -> None:
        for p in self.parameters:
            if not self.gradients:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    def _restore(self) -> None:
        self.state.restore()
        with torch.no_grad():
            for t, before in zip(self.learned, self.before):
                t.copy_(before)

    def _step(self, forward: Callable[[list[Any]], Any], backward: bool) -> tuple[float, torch.Tensor]:
        self._restore()
        self._clear()
        first = self.given[0]
        if isinstance(first, torch.Tensor) and self.gradients:
            first = first.detach().clone().requires_grad_(first.requires_grad)
        given = [first, *self.given[1:]]
        del first

        def run() -> torch.Tensor:
            loss = forward(given)
            if backward:
                loss.backward()
                if self.optimizer is not None:
                    self.optimizer.step()
            return loss.detach()

        return once(self.device, run)
