"""Measuring a chain: what each layer keeps, needs and takes.

Layers are measured one at a time, so that a network is profiled in far less memory than a step of it
takes: first all forwards, whose outputs wait on the host, then, from the loss down, each layer's
forward with gradients and its backward, with the gradient that really arrives there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from . import memory
from .cut import Chain, Layer, Model, cut
from .record import backward, record
from .state import State, autocast, autocast_as_now, tensors
from .timing import once, repeated


@dataclass
class Timing:
    """Seconds of repeated runs."""

    runs: list[float]

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.runs)

    @property
    def spread(self) -> float:
        """Half of what lies between the quartiles, relative to the median."""
        if len(self.runs) < 2 or not self.median:
            return 0.0
        q = statistics.quantiles(self.runs, n=4)
        return round((q[2] - q[0]) / 2 / self.median, 4)


def profile(
    model: Model,
    inputs: Any,
    loss: Callable[..., Any] | None = None,
    targets: Sequence[Any] = (),
    *,
    name: str = "",
    repeats: int = 9,
    budget: float = 10.0,
) -> tuple[dict[str, Any], Chain]:
    """Profiles a network as a chain: the JSON of workbench.chain/v1, and the chain itself.

    inputs, loss, targets: as for :func:`~workbench_torch.cut.cut`.
    repeats: runs of each layer for its times; budget: seconds that these may take for one layer.

    Sizes are bytes, times seconds. The network is left as it was; gradients are not touched.
    """
    chain = cut(model, inputs, loss, targets)
    first, extra = (inputs[0], tuple(inputs[1:])) if isinstance(inputs, tuple) else (inputs, ())
    device = chain.example[0][2]
    state = State(chain.model)
    try:
        with _own_gradients(chain.model):
            made = _Profile(chain, device, first, extra + tuple(targets), repeats, budget)
            layers = made.forwards()
            made.backwards(layers)
    finally:
        state.restore()
    return _document(chain, made, layers, name), chain


@contextmanager
def _own_gradients(model: nn.Module) -> Iterator[None]:
    """Gradients full of zeros for a while, as they are resident in the budgets of workbench."""
    before = [(p, p.grad) for p in model.parameters()]
    try:
        for p, _ in before:
            p.grad = torch.zeros_like(p) if p.requires_grad else None
        yield
    finally:
        for p, grad in before:
            p.grad = grad


class _Profile:
    """The measurements of one chain."""

    def __init__(self, chain: Chain, device: torch.device, first: Any, extra: tuple[Any, ...], repeats: int, budget: float):
        self.chain, self.device = chain, device
        self.repeats, self.budget = repeats, budget
        self.meter = memory.meter(device)
        self.modes = autocast_as_now()
        self.values: list[Any] = [first]  # a_0..a_N; on the host where the device is another
        resident = {memory.key(t) for t in (*chain.model.parameters(), *chain.model.buffers(), *tensors((first, extra)))}
        self.side_peak, self.extra = self._above(lambda: chain.with_side(first, extra))
        side = tensors(self.extra[len(extra) :])
        self.side = memory.sizes(t for t in side if memory.key(t) not in resident)  # bytes of the side inputs
        self.resident = {*resident, *map(memory.key, side)} - {memory.key(t) for t in tensors(first)}
        self.input_gradient = 0

    def forwards(self) -> list[dict[str, Any]]:
        """Runs all forwards without gradients; what is known of the layers after that."""
        layers: list[dict[str, Any]] = []
        for number, layer in enumerate(self.chain.layers):
            value, needs = self._there(self.values[-1]), self._needs(number)
            state = State(self.chain.model)

            def run(layer: Layer = layer, value: Any = value, needs: tuple[bool, ...] = needs) -> Any:
                with torch.no_grad(), autocast(self.modes):
                    return layer.forward_no_grad(value, needs, self.extra)

            run()  # warms up
            timing = Timing(repeated(self.device, run, self.repeats, self.budget))
            state.restore()
            above, made = self._above(run)
            activation = memory.sizes(tensors(made))
            layers.append({"layer": layer, "activation": activation, "no_grad": timing, "no_grad_overhead": above - activation})
            self.values.append(pytree.tree_map(self._host, made))
        return layers

    def backwards(self, layers: list[dict[str, Any]]) -> None:
        """Runs each layer with gradients, and its backward, from the last one down."""
        delta: list[torch.Tensor | None] = []
        for number in range(len(layers), 0, -1):
            m, layer = layers[number - 1], layers[number - 1]["layer"]
            value = self._there(self.values[number - 1])
            if number == len(layers):
                outputs = tensors(self._there(self.values[number]))
                delta = [torch.ones_like(t) for t, n in zip(outputs, layer.needs_grad) if n]
            m["gradient"] = memory.sizes(t for t in delta if t is not None)
            self.values[number] = None
            delta = self._layer(m, layer, value, self._needs(number - 1), delta)
        self.input_gradient = memory.sizes(t for t in delta if t is not None)

    def _needs(self, layer: int) -> tuple[bool, ...]:
        """Which tensors of a_ℓ need gradients."""
        return self.chain.layers[layer - 1].needs_grad if layer else self.chain.needs()

    def _layer(self, m: dict[str, Any], layer: Layer, value: Any, needs: tuple[bool, ...], delta: list[torch.Tensor | None]) -> Any:
        state = State(self.chain.model)
        inputs = tensors(value)

        def forward() -> Any:
            with autocast(self.modes):
                return record(layer, value, needs, self.extra, self.resident)[0]

        forward_times, backward_times = [], []
        for k in range(self.repeats + 1):  # the first warms up
            state.restore()
            seconds, made = once(self.device, forward)
            later, _ = once(self.device, partial(backward, made, inputs, [*delta]))
            if k:
                forward_times.append(seconds)
                backward_times.append(later)
            if k and sum(forward_times) + sum(backward_times) > self.budget:
                break
        state.restore()
        m["forward"], m["backward"] = Timing(forward_times), Timing(backward_times)
        above, made = self._above(forward)
        m["saved"] = made.bytes()
        m["overhead"] = above - m["saved"]
        above, gradients = self._above(lambda: backward(made, inputs, [*delta]))
        m["backward_above"] = above
        m["made"] = memory.sizes(t for t in gradients if t is not None)
        state.restore()
        return list(gradients) or [None] * sum(needs)

    def _above(self, run: Callable[[], Any]) -> tuple[int, Any]:
        """Bytes of the peak of a run above what was allocated before it, and what it returns."""
        if self.meter is None:
            return 0, run()
        before = self.meter.current()
        self.meter.reset()
        result = run()
        return self.meter.peak() - before, result

    def _host(self, t: Any) -> Any:
        return t.to("cpu") if isinstance(t, torch.Tensor) else t

    def _there(self, value: Any) -> Any:
        return pytree.tree_map(lambda t: t.to(self.device) if isinstance(t, torch.Tensor) else t, value)


def _document(chain: Chain, made: _Profile, layers: list[dict[str, Any]], name: str) -> dict[str, Any]:
    value = made.values[0]
    first = tensors(value)
    counted = made.meter is not None
    # Side inputs, anchor and output of the step with their gradients, and of each layer that is on the host what stays of its graph.
    scalars = made.side + (4 + 2 * len(layers)) * memory.size(torch.zeros((), device=made.device))
    entries = [_layer_entry(m, counted, scalars) for m in layers]
    if counted:  # layer 1 runs when the side inputs have been made, and needs at least what that took
        entries[0]["forward_overhead"] = max(entries[0]["forward_overhead"], made.side_peak - entries[0]["saved"])
        entries[0]["checkpoint_overhead"] = max(entries[0]["checkpoint_overhead"], made.side_peak - entries[0]["activation"])
    return {
        "format": "workbench.chain/v1",
        "name": name or type(chain.model).__name__,
        "samples": int(first[0].shape[0]) if first and first[0].dim() else 0,
        "input": {"activation": memory.sizes(first), "gradient": made.input_gradient},
        "layers": entries,
        "source": {
            "program": "workbench_torch",
            "torch": torch.__version__,
            **describe_device(made.device),
            "dtype": str(next((p.dtype for p in chain.model.parameters()), torch.get_default_dtype())),
            "inputs": [list(t.shape) for t in first],
            "memory_counted_by": made.meter.name if made.meter else "nothing: overheads are left 0",
            "parameters": memory.sizes(chain.model.parameters()),
            "gradients": memory.sizes(p for p in chain.model.parameters() if p.requires_grad),
            "shared_gradients": shared_gradients(chain),
            "buffers": memory.sizes(chain.model.buffers()),
            "notes": chain.notes,
        },
    }


def _layer_entry(m: dict[str, Any], counted: bool, scalars: int) -> dict[str, Any]:
    layer: Layer = m["layer"]
    # What the problem's model counts at B in addition to a_{ℓ-1}, ā_ℓ and δ_ℓ, which were allocated before: δ_{ℓ-1}.
    above = m["backward_above"] - m["made"] + scalars
    saved = max(m["saved"], m["activation"])
    forward = max(0, m["overhead"] + scalars) if counted else 0
    # A forward without gradients never needs less in addition to its output, nor more in all.
    no_grad = min(max(forward, m["no_grad_overhead"] + scalars), forward + saved - m["activation"]) if counted else 0
    return {
        "name": layer.name,
        "forward_time": m["forward"].median,
        "backward_time": m["backward"].median,
        "activation": m["activation"],
        "saved": saved,
        "gradient": m["gradient"],
        "forward_overhead": forward,
        "checkpoint_overhead": no_grad,
        "backward_overhead": max(0, above) if counted else 0,
        "weight": memory.sizes(layer.parameters()),
        "x-forward-time-without-gradients": m["no_grad"].median,
        "x-spread": [m["forward"].spread, m["backward"].spread, m["no_grad"].spread],
        "x-forward-overhead": [m["overhead"] + scalars, m["no_grad_overhead"] + scalars],
        "x-backward-overhead": above,
    }


def shared_gradients(chain: Chain) -> int:
    """Bytes of the gradients that are summed apart, because several layers share their parameter."""
    layers = [{id(p): p for p in layer.parameters() if p.requires_grad} for layer in chain.layers]
    every = {k: p for of in layers for k, p in of.items()}
    return memory.sizes(p for k, p in every.items() if sum(k in of for of in layers) > 1)


def describe_device(device: torch.device) -> dict[str, Any]:
    """Returns the fields of an instance that describe the device."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return {"device": properties.name, "device_memory": properties.total_memory}
    return {"device": "cpu", "threads": torch.get_num_threads()}
