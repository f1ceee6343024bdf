"""A planned step as a memory snapshot of torch, for PyTorch's viewer and ``torch.cuda._memory_viz``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from .step import Step

BASE, ROUND = 0x7F0000000000, 512
CATEGORIES = {"forward": "activation", "backward": "autograd_detail", "optimizer": "optimizer_state"}


def snapshot(step: Step, path: str | Path) -> None:
    """Writes what the plan of a step allocates and frees, as ``torch.cuda.memory._dump_snapshot`` would.

    Every storage gets an address of its own each time that it is made; the peak of the trace is the planned one.

    Args:
        step: the step.
        path: the file, a pickle: drop it on pytorch.org/memory_viz, or run ``python -m torch.cuda._memory_viz trace_plot``.
    """
    with Path(path).open("wb") as file:
        pickle.dump(trace(step.graph, step.plan), file)


class _Trace:
    """Events of an allocator that never uses an address twice."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.live: dict[str, dict[str, Any]] = {}
        self.top = BASE

    def allocate(self, key: str, size: int, time: int, frames: list[dict[str, Any]], category: str) -> None:
        event = {"action": "alloc", "addr": self.top, "size": size, "stream": 0, "frames": frames, "time_us": time, "category": category}
        self.top += -(-max(size, 1) // ROUND) * ROUND
        self.events.append(event)
        self.live[key] = event

    def free(self, key: str, time: int) -> None:
        made = self.live.pop(key, None)
        for action in ("free_requested", "free_completed") if made else ():
            self.events.append({**made, "action": action, "time_us": time})  # type: ignore[dict-item]


def trace(graph: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Returns a snapshot as ``torch.cuda.memory._snapshot`` does.

    Args:
        graph: workbench.graph/v2.
        plan: workbench.plan/v1 for it.
    """
    sizes = {s["id"]: int(s["bytes"]) for s in graph["storages"]}
    nodes, made = {n["id"]: n for n in graph["nodes"]}, _Trace()
    for o in plan["ops"]:
        now = int(1e6 * o["start"])
        if o["op"] == "D":
            made.free(o["storage"], now)
            continue
        n = nodes[o["node"]]
        frames = [{"filename": n.get("layer") or n["phase"], "line": 0, "name": n["operation"]}]
        frames.append({"filename": "plan", "line": 0, "name": n["id"]})
        category = CATEGORIES.get(n["phase"], "unknown")
        before = [s for s in n["writes"] if s in made.live]
        for k, s in enumerate(before):  # the old copy is there while a node is recomputed
            made.live[f"{s} old {k}"] = made.live.pop(s)
        for s in n["writes"]:
            made.allocate(s, sizes[s], now, frames, category)
        if n.get("workspace"):
            made.allocate("workspace", int(n["workspace"]), now, frames, "temporary")
            made.free("workspace", now)
        for k, s in enumerate(before):
            made.free(f"{s} old {k}", now)
    return {"segments": [_segment(made)], "device_traces": [made.events], "allocator_settings": {}, "external_annotations": []}


def _segment(made: _Trace) -> dict[str, Any]:
    """The memory at the end of the step: what lives, and the gaps."""
    blocks: list[dict[str, Any]] = []
    at = BASE
    for e in sorted(made.live.values(), key=lambda e: e["addr"]):
        size = -(-max(e["size"], 1) // ROUND) * ROUND
        blocks += _gap(at, e["addr"])
        blocks.append({"size": size, "requested_size": e["size"], "address": e["addr"], "state": "active_allocated", "frames": e["frames"]})
        at = e["addr"] + size
    blocks += _gap(at, made.top)
    used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    return {
        "device": 0, "address": BASE, "total_size": made.top - BASE, "allocated_size": used, "active_size": used, "requested_size": used,
        "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
    }  # fmt: skip


def _gap(start: int, end: int) -> list[dict[str, Any]]:
    return [{"size": end - start, "requested_size": 0, "address": start, "state": "inactive", "frames": []}] if start < end else []
