"""What the operations of a graph take: measured one by one, or estimated from a roofline.

Each node runs alone on random tensors of its shapes, so that a step is measured that does not fit.
Nodes that are called alike are measured once.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import memory
from .errors import Refused
from .graph import Call, Graph, Node, Ref, lazy, schema_name
from .profiler import clock
from .state import Generators

# Peak of float32 in operations a second, and bandwidth of the memory in bytes a second, from NVIDIA's data sheets.
DEVICES = {"v100": (15.7e12, 900e9), "a100": (19.5e12, 1555e9), "h100": (66.9e12, 3350e9)}


def measure(graph: Graph, *, repeats: int = 5, budget: float = 0.5) -> str:
    """Fills in times and workspaces of all nodes; returns what counted the workspaces.

    repeats: runs of a node for its time, fewer where they take more than budget seconds.
    """
    meter, generators = memory.meter(graph.device), Generators()
    known: dict[Any, tuple[float, float, int]] = {}
    for n in graph.nodes:
        signature = repr([(c.function, _shapes(graph, n, (c.args, c.kwargs)), _shapes(graph, n, c.results)) for c in n.calls])
        if signature not in known:
            known[signature] = _alone(graph, n, meter, repeats, budget)
        n.time, n.spread, n.workspace = known[signature]
    generators.restore()
    return meter.name if meter else "nothing: workspaces are left 0"


def _shapes(graph: Graph, node: Node, value: Any) -> Any:
    """A value with the sizes of storages in the places of their numbers, so that equal nodes look equal."""
    numbers: dict[int, int] = {}

    def shape(a: Any) -> Any:
        if not isinstance(a, Ref):
            return a
        place = numbers.setdefault(a.storage, len(numbers))
        return (place, graph.storages[a.storage].bytes, a.sizes, a.strides, a.offset, a.dtype)

    return pytree.tree_map(shape, value)


def _alone(graph: Graph, node: Node, meter: Any, repeats: int, budget: float) -> tuple[float, float, int]:
    """Seconds, spread and workspace of a node, run on tensors that are made up."""
    inputs = {s: _made_up(graph, node, s) for s in {*node.reads(), *node.mutates}}

    def run() -> list[torch.Tensor]:
        have = dict(inputs)
        for c in node.calls:
            perform(c, have)
        return [have[s] for s in node.writes()]

    try:
        with torch.no_grad():
            timing = clock(graph.device, run, repeats, budget)
            if meter is None:
                return timing.median, timing.spread, 0
            before = meter.current()
            meter.reset()
            made = run()
            above = meter.peak() - before
            return timing.median, timing.spread, max(0, above - memory.sizes(made))
    except (RuntimeError, IndexError) as e:
        raise Refused(f"{node.operation} cannot be measured on made-up numbers: {e}; estimate it with --roofline") from e


def _made_up(graph: Graph, node: Node, s: int) -> torch.Tensor:
    """A storage with numbers that any operation takes: of a normal distribution, zeros where they are whole."""
    dtype = next((r.dtype for c in node.calls for r in c.refs() if r.storage == s), torch.uint8)
    elements = graph.storages[s].bytes // torch.empty(0, dtype=dtype).element_size()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(elements, dtype=torch.float32, device=graph.device).abs().to(dtype)
    return torch.zeros(elements, dtype=dtype, device=graph.device)


def view(t: torch.Tensor, r: Ref) -> torch.Tensor:
    """The tensor that r describes, in the storage of t."""
    if t.dtype != r.dtype:
        t = torch.empty(0, dtype=r.dtype, device=t.device).set_(memory.storage(t))
    t = t.as_strided(r.sizes, r.strides, r.offset)
    conjugate, negate = (a != b for a, b in zip(r.lazy, lazy(t)))
    t = torch._conj(t) if conjugate else t
    return torch._neg_view(t) if negate else t


def need_form(t: torch.Tensor, r: Ref, operation: str) -> None:
    """Refuses a result that is not as the trace has it: views of it would be of other numbers. One that was left out has none."""
    if t.numel() and (t.shape, t.stride(), t.storage_offset(), t.dtype, lazy(t)) != (r.sizes, r.strides, r.offset, r.dtype, r.lazy):
        raise Refused(
            f"{operation} makes a {tuple(t.shape)} with strides {t.stride()}, of a fake tensor it made a {r.sizes} with {r.strides}: "
            "trace with fake=False (--trace real)"
        )


def perform(call: Call, have: dict[int, torch.Tensor]) -> None:
    """Runs a call on the storages that are there, and adds what it makes."""
    args, kwargs = pytree.tree_map(lambda a: view(have[a.storage], a) if isinstance(a, Ref) else a, (call.args, call.kwargs))
    made = pytree.tree_flatten(call.function(*args, **kwargs))[0]
    for r, t in zip(call.results, made):
        if r is not None:
            need_form(t, r, str(call.function))
            have[r.storage] = t


# ---- roofline ---------------------------------------------------------------


def roofline(graph: Graph, device: str) -> None:
    """Fills in times of all nodes as a device's peaks allow them; workspaces are left as they are.

    device: v100, a100 or h100, or the peaks themselves, as 19.5e12,1.555e12: operations and bytes a second.
    """
    peaks = DEVICES.get(device.lower())
    if peaks is None:
        try:
            flops, rate = (float(x) for x in device.split(","))
        except ValueError as e:
            raise Refused(f"--roofline {device}: {', '.join(DEVICES)}, or operations and bytes a second, as 19.5e12,1.555e12") from e
        peaks = flops, rate
    if not all(p > 0 and math.isfinite(p) for p in peaks):
        raise Refused(f"--roofline {device}: both numbers must be positive")
    for n in graph.nodes:
        moved = sum(graph.storages[s].bytes for s in {*n.reads(), *n.writes(), *n.mutates})
        n.time = max(sum(map(operations, n.calls)) / peaks[0], moved / peaks[1])


def operations(call: Call) -> float:
    """Floating-point operations of products of matrices and convolutions; of everything else 0: its memory takes longer."""
    name = schema_name(call.function).rpartition("::")[2]
    refs = call.refs()
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        a, b = refs[-2], refs[-1]
        return 2.0 * math.prod(a.sizes) * b.sizes[-1]
    if name == "convolution":
        made, weight = call.results[0], call.args[1]
        return 2.0 * math.prod(made.sizes) * math.prod(weight.sizes[1:]) if made else 0.0
    if name == "convolution_backward":
        gradient, weight = call.args[0], call.args[2]
        return 2.0 * math.prod(gradient.sizes) * math.prod(weight.sizes[1:]) * sum(call.args[-1][:2])
    return 0.0
