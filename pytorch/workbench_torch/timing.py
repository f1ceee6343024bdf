"""Times and workspaces of the operations of a joint graph, each run alone on made-up tensors of its shapes.

Operations that are called alike are measured once, the most expensive first. What does not run on made-up tensors
is estimated from FLOP and bytes, at the rates of what was measured. So a step is measured that does
not fit into memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import flop_registry

from . import memory
from .errors import UnsupportedError
from .joint import Entry, Joint
from .state import Generators, tensors

FLOPS, RATE = 40e9, 8e9  # a second, of one core of a CPU: used until something is measured
DEVICES = {"v100": (15.7e12, 900e9), "a100": (19.5e12, 1555e9), "h100": (66.9e12, 3350e9)}  # float32 and bytes, of the data sheets


def cost(e: Entry) -> tuple[float, float]:
    """Returns the floating-point operations of an entry and the bytes that it moves."""
    n = e.node
    if n is None:
        return 0.0, 0.0
    values = [n.meta.get("val"), *(a.meta.get("val") for a in n.all_input_nodes)]
    moved = sum(float(t.numel()) * t.element_size() for v in values for t in tensors(v))
    count = flop_registry.get(getattr(n.target, "overloadpacket", None))
    if count is None:
        return 0.0, moved
    args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda a: a.meta.get("val"))
    try:
        return float(count(*args, **kwargs, out_val=n.meta.get("val"))), moved
    except Exception:  # formulas of torch know the common forms of an operation only
        return 0.0, moved


def estimate(joint: Joint, device: str = "", *, fused: bool = False) -> None:
    """Fills in times as the peaks of a device allow them.

    Args:
        joint: the graph.
        fused: a compiler fuses chains of operations without FLOP, which then take the time that their results take
            to be written.
        device: v100, a100, h100, or FLOP and bytes a second as "19.5e12,1.555e12"; "" for one core of a CPU.
    """
    try:
        flops, rate = (FLOPS, RATE) if not device else DEVICES.get(device.lower()) or tuple(float(x) for x in device.split(","))
    except ValueError as wrong:
        known = ", ".join(DEVICES)
        raise UnsupportedError(f"device {device!r} is unknown: {known}, or FLOP and bytes a second as 19.5e12,1.555e12") from wrong
    for e in joint.computed():
        operations, moved = cost(e)
        if fused and not operations:
            moved = sum(joint.storages[s].bytes for s in e.writes)
        e.time = max(operations / flops, moved / rate)


def measure(joint: Joint, given: dict[fx.Node, torch.Tensor], *, seconds: float = 3.0, repeats: int = 5) -> str:
    """Fills in times and workspaces.

    Args:
        joint: the graph.
        given: real tensors of its inputs, for the operations that read them.
        seconds: the time limit for repetitions; every operation runs three times at least.
        repeats: runs of each operation for its time.

    Returns:
        What counted the workspaces.
    """
    estimate(joint)
    groups: dict[str, list[Entry]] = {}
    for e in joint.computed():
        groups.setdefault(_signature(e), []).append(e)
    ordered = sorted(groups.values(), key=lambda g: -g[0].time * len(g))
    end, ratios, left = time.monotonic() + seconds, [], []
    with _disable_current_modes(), torch.no_grad():
        meter, generators = memory.meter(_device(joint)), Generators()
        for group in ordered:
            measured = _alone(group[0], given, meter, repeats, max(0.0, end - time.monotonic()) / 3)
            if measured is None:
                left.append(group)
                continue
            if group[0].time > 0:
                ratios.append(measured[0] / group[0].time)
            for e in group:
                e.time, e.workspace = measured[:2]
                for s, size in zip(e.writes, measured[2], strict=False):  # some kernels leave a result in a larger storage
                    joint.storages[s].bytes = max(size, joint.storages[s].bytes)
        generators.restore()
    ratio = statistics.median(ratios) if ratios else 1.0
    for group in left:
        for e in group:
            e.time *= ratio
    for e in joint.computed():
        if e.random and e.node is not None and all(t.device.type == "cpu" for t in tensors(e.node.meta.get("val"))):
            e.workspace += torch.get_rng_state().numel()  # the state meanwhile, when it is recomputed
    return meter.name if meter else "nothing: workspaces are left 0"


def _device(joint: Joint) -> torch.device:
    devices = [t.device for n in joint.primals for t in tensors(n.meta.get("val"))]
    return next((d for d in devices if d.type == "cuda"), torch.device("cpu"))


def _signature(e: Entry) -> str:
    """What makes calls alike: the operation, its constants, and the layouts of its tensors."""

    def layout(a: Any) -> Any:
        value = a.meta.get("val") if isinstance(a, fx.Node) else a
        if isinstance(a, fx.Node) and a.op == "placeholder" and any(not t.is_floating_point() for t in tensors(value)):
            return a.name
        return [(tuple(t.shape), t.stride(), t.dtype, t.device.type) for t in tensors(value)] if isinstance(a, fx.Node) else a

    assert e.node is not None
    return repr((e.operation, fx.node.map_aggregate((e.node.args, e.node.kwargs), layout)))


def _alone(e: Entry, given: dict[fx.Node, torch.Tensor], meter: Any, repeats: int, budget: float) -> tuple[float, int, list[int]] | None:
    """Seconds, workspace and sizes of the results of one operation; None where it does not run on made-up tensors."""
    n = e.node
    if n is None or not isinstance(n.target, torch._ops.OpOverload):
        return None
    small = min((s for a in n.all_input_nodes for t in tensors(a.meta.get("val")) if t.is_floating_point() for s in t.shape), default=2)

    def made_up(a: fx.Node) -> Any:
        if a in given:
            return given[a]
        return pytree.tree_map(lambda t: _tensor(t, max(1, small), n) if isinstance(t, torch.Tensor) else t, a.meta.get("val"))

    try:
        args, kwargs = fx.node.map_arg((n.args, n.kwargs), made_up)
        if n.target._schema.is_mutable:
            args, kwargs = pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, (args, kwargs))

        function: Any = n.target

        def run() -> Any:
            return function(*args, **kwargs)

        device = next((t.device for t in tensors((args, kwargs))), torch.device("cpu"))
        run()
        before = meter.current() if meter else 0
        if meter:
            meter.reset()
        made = run()
        above = meter.peak() - before if meter else 0
        inputs = {memory.key(t) for t in tensors((args, kwargs))}
        sizes = {memory.key(t): memory.size(t) for t in tensors(made) if memory.key(t) not in inputs}
        del made
        seconds = statistics.median(repeated(device, run, repeats, budget))
        return seconds, max(0, above - sum(sizes.values())), list(sizes.values()) if len(sizes) == len(e.writes) else []
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return None


def _tensor(t: torch.Tensor, bound: int, n: fx.Node) -> torch.Tensor:
    """A real tensor with the layout of a fake one: normal numbers, and indices that any tensor of the operation has."""
    last = t.storage_offset() + sum((s - 1) * d for s, d in zip(t.shape, t.stride(), strict=True))
    count = max(int(t.untyped_storage().nbytes()) // t.element_size(), int(last) + 1 if t.numel() else 0)
    if t.is_floating_point() or t.is_complex():
        made = torch.randn(count, dtype=torch.float32, device=t.device).abs_().to(t.dtype)
    elif t.dtype is torch.bool:
        made = torch.ones(count, dtype=t.dtype, device=t.device)
    elif "grouped_mm" in str(n.target):  # ends of the groups
        rows = next(x.shape[0] for a in n.all_input_nodes for x in tensors(a.meta.get("val")) if x.is_floating_point())
        made = (torch.arange(1, count + 1, device=t.device) * rows // max(1, count)).to(t.dtype)
    else:
        made = (torch.arange(count, device=t.device) % bound).to(t.dtype)
    return made.as_strided(t.shape, t.stride(), t.storage_offset())


def once(device: torch.device, run: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the seconds of one run and its result. With one thread on a CPU: processor time, which other load does not lengthen."""
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        begin.record()
        result = run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3, result
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    result = run()
    return clock() - start, result


def repeated(device: torch.device, run: Callable[[], Any], repeats: int, budget: float) -> list[float]:
    """Returns the seconds of runs: at least one, at most repeats, and none that begins after a budget of seconds."""
    taken: list[float] = []
    end = time.monotonic() + budget
    while not taken or len(taken) < repeats and time.monotonic() < end:
        taken.append(once(device, run)[0])
    return taken
