"""Planned steps and plain training side by side: loss, gradients, buffers, memory and time."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from . import memory
from .errors import Reason, UnsupportedError
from .state import State, same
from .timing import once
from .watch import Attributes

if TYPE_CHECKING:
    from .step import Step

Forward = Callable[[], Any]
BRANCH_HINT = "the forward takes another branch while it is traced, or writes state outside of buffers"


@dataclass(frozen=True)
class Check:
    """A planned step compared with plain training.

    Attributes:
        planned_peak: bytes, as the plan says.
        measured_peak: bytes beyond what is there before the step; None where nothing counts the memory of a CPU.
        plain_peak: the same of plain training.
        loss_equal, gradients_equal, buffers_equal: whether all bits are equal.
        time, plain_time: seconds, medians.
        host_bytes: what the host keeps of it for the step.
    """

    planned_peak: int
    measured_peak: int | None
    plain_peak: int | None
    loss_equal: bool
    gradients_equal: bool
    buffers_equal: bool
    time: float
    plain_time: float
    host_bytes: int = 0

    @property
    def passes(self) -> bool:
        """Whether all bits are equal and the peak is not above the plan's by more than 0.5 %."""
        within = self.measured_peak is None or self.measured_peak <= 1.005 * self.planned_peak
        return self.loss_equal and self.gradients_equal and self.buffers_equal and within


def check(step: Step, *, steps: int = 3) -> Check:
    """Runs a step by its plan and by plain training, from the same state, and compares them.

    Args:
        step: the step, on its example.
        steps: how many steps the times are medians of.
    """
    args, kwargs = step.example()
    model, report = step.model, step.report
    ours, plain = (Trial(model, run, steps) for run in (lambda: step(*args, **kwargs), lambda: step.plain(*args, **kwargs)))
    wrong = different(plain.made, ours.made)
    buffers = {name for name, _ in model.named_buffers()}
    return Check(
        report.peak, ours.peak, plain.peak, not any(w.startswith("output ") for w in wrong),
        not any(w not in buffers and not w.startswith("output ") for w in wrong), not buffers & set(wrong), ours.time, plain.time,
        step.host_bytes,
    )  # fmt: skip


class Trial:
    """Steps of a network from one state, which is left as it was.

    Args:
        model: the network.
        forward: runs the step and returns its outputs.
        steps: how many steps are measured, at least one, after one for warming up.

    Attributes:
        made: what :func:`gradients` returns.
        peak: bytes beyond what was there; None where nothing counts.
        time: seconds, the median.
    """

    def __init__(self, model: nn.Module, forward: Forward, steps: int):
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        meter = memory.meter(device)
        self.made = gradients(model, forward)
        state, parameters = State(model), [p for p in model.parameters() if p.requires_grad]
        before, taken = [p.grad for p in parameters], []
        self.peak: int | None = None
        try:
            for p in parameters:
                p.grad = None
            for _ in range(max(1, steps)):
                state.restore()
                for p in parameters:
                    p.grad = None
                gc.collect()
                base = meter.current() if meter else 0
                if meter:
                    meter.reset()
                taken.append(once(device, lambda: _backward(forward()))[0])
                self.peak = meter.peak() - base if meter else None
        finally:
            state.restore()
            for p, grad in zip(parameters, before, strict=True):
                p.grad = grad
        self.time = statistics.median(taken)


def _backward(made: Any) -> list[torch.Tensor]:
    outputs = [t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor) and t.requires_grad]
    torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    return outputs


def gradients(model: nn.Module, forward: Forward) -> dict[str, Any]:
    """Returns outputs, gradients and buffers after a step, by name, and restores the state.

    Args:
        model: the network.
        forward: runs the step and returns its outputs.
    """
    state, parameters = State(model), {name: p for name, p in model.named_parameters() if p.requires_grad}
    before = {name: p.grad for name, p in parameters.items()}
    try:
        for p in parameters.values():
            p.grad = None
        with torch.enable_grad():
            outputs = _backward(forward())
        found: dict[str, Any] = {f"output {k}": t.detach() for k, t in enumerate(outputs)}
        found.update({name: p.grad for name, p in parameters.items()})
        found.update({name: b.detach().clone() for name, b in model.named_buffers()})
        return found
    finally:
        for name, p in parameters.items():
            p.grad = before[name]
        state.restore()


def different(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Returns the names of what is not equal bit by bit."""
    return [name for name in a if (a[name] is None) != (b.get(name) is None) or a[name] is not None and not same(a[name], b[name])]


def refuse_different(model: nn.Module, plain: Forward, planned: Forward) -> None:
    """Refuses a step whose loss, gradients or buffers are not those of plain training.

    A forward that counts in attributes of its modules is refused, too: a graph holds what it saw first.
    On CUDA, values that differ between two plain steps (sums by atomic additions) may differ.

    Raises:
        UnsupportedError: they are not; the first that differs is named.
    """
    before = Attributes(model.modules())
    expected = gradients(model, plain)
    if before.changed():  # once is a cache, twice a state
        before = Attributes(model.modules())
        expected = gradients(model, plain)
        if counted := before.changed():
            raise UnsupportedError(f"each forward changes {', '.join(counted)}", reason=Reason.TRACE, hint="keep it in a buffer")
    try:
        made = gradients(model, planned)
    except RuntimeError as e:
        raise UnsupportedError(f"the planned step fails: {e}", reason=Reason.DIFFERS, hint=BRANCH_HINT) from e
    wrong = different(expected, made)
    if wrong and next(iter(expected.values())).device.type == "cuda":
        varies = set(different(expected, gradients(model, plain)))
        wrong = [name for name in wrong if name not in varies]
    if wrong:
        raise UnsupportedError(
            f"the planned step computes other values than plain training: {len(wrong)} of {len(expected)} differ, first {wrong[0]}",
            reason=Reason.DIFFERS, hint=BRANCH_HINT,
        )  # fmt: skip
