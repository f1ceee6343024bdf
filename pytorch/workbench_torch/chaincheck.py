"""Steps by plans for chains compared with plain training: values, memory and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from . import memory
from .arena import Arena
from .comparison import Trial, different
from .cut import Chain, Model, cut
from .errors import UnsupportedError
from .planfile import FORWARDS, Plan, events, read_json, read_plan
from .runner import PlannedModule


def check_chain(
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
    """Runs one step by plain training and one by a plan, from the same state, and compares them.

    Args:
        model: the network, or a chain that was cut of it.
        inputs: as for :func:`~workbench_torch.profiler.profile`, as are loss and targets.
        loss: see inputs.
        targets: see inputs.
        instance: the chain/v1 file that profile wrote, or its JSON.
        plan: a plan for the instance.
        steps: the number of steps that the times are medians of.
        arena: the memory in which the plan's tensors have their addresses. Then ``measured_peak`` includes all of it,
            ``within_limit`` compares its height, ``arena_height``, and ``arena_reached`` is how much of it was used.

    Returns:
        Sizes in bytes and times in seconds: ``limit`` (the plan's memory), ``predicted_peak`` and ``predicted_time`` (the
        plan replayed with what was profiled), ``claimed_peak`` (what the plan says), ``measured_peak`` and ``plain_peak``
        (beyond parameters, buffers and gradients), ``plan_time``, ``plain_time``, and whether ``loss_equal``,
        ``gradients_equal``, ``buffers_equal``: bit by bit.
    """
    plan = read_plan(plan)
    document = instance if isinstance(instance, dict) else read_json(instance)
    chain = model if isinstance(model, Chain) else cut(model, inputs, loss, targets)
    whole = chain.model if isinstance(model, Chain) else model
    agree(chain, document)
    memory.need_meter(chain.example[0][2])
    planned = PlannedModule(chain, plan, arena)
    given = [*(inputs if isinstance(inputs, tuple) else (inputs,)), *targets]
    training = _plain(whole, loss, len(targets))

    def fresh() -> list[Any]:
        """The inputs, the first of which belongs to the step."""
        first = given[0]
        return [first.detach().clone().requires_grad_(first.requires_grad) if isinstance(first, torch.Tensor) else first, *given[1:]]

    plain = Trial(chain.model, lambda: training(fresh()), steps, zeros=True)
    ours = Trial(chain.model, lambda: planned.run_step(fresh()), steps, zeros=True)
    wrong, buffers = set(different(plain.made, ours.made)), {name for name, _ in chain.model.named_buffers()}
    outputs = {name for name in wrong if name.startswith("output ")}
    predicted_peak, predicted_time = predict(document, plan)
    peak, height = ours.peak or 0, arena.height if arena else 0
    return {
        "limit": plan.memory,
        "predicted_peak": predicted_peak,
        "claimed_peak": plan.claims.get("peak_memory"),
        "measured_peak": peak + height,
        "plain_peak": plain.peak,
        "within_limit": (height or peak) <= plan.memory if plan.memory else True,
        "loss_equal": not outputs,
        "gradients_equal": not wrong - outputs - buffers,
        "buffers_equal": not wrong & buffers,
        "plain_time": plain.time,
        "plan_time": ours.time,
        "predicted_time": predicted_time,
        "host_bytes": planned.link.bytes() if planned.link else 0,
        **({} if arena is None else {"arena_height": height, "arena_reached": arena.reached}),
    }


def passes(result: dict[str, Any]) -> bool:
    """Returns whether nothing differs and the limit holds."""
    return all(result[k] for k in ("within_limit", "loss_equal", "gradients_equal", "buffers_equal"))


def agree(chain: Chain, document: dict[str, Any]) -> None:
    """Refuses an instance that was not made of this network."""
    names = [layer.get("name") for layer in document.get("layers", [])]
    ours = [layer.name for layer in chain.layers]
    if names != ours:
        k = next((k for k, (a, b) in enumerate(zip(names, ours)) if a != b), min(len(names), len(ours)))
        raise UnsupportedError(
            f"the instance is of another network: it has {len(names)} layers and the network {len(ours)}, and layer {k + 1} is "
            f"{names[k] if k < len(names) else 'none'} there and {ours[k] if k < len(ours) else 'none'} here; profile it again"
        )


def predict(document: dict[str, Any], plan: Plan) -> tuple[int, float]:
    """Peak in bytes and makespan in seconds of a plan on a chain, as the profile has it.

    It knows more than chain/v1 has fields for: a forward that keeps ā and one that does not need
    different memory in addition to their outputs, and a backward that frees as it goes may need less than what
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
