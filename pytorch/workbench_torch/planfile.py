"""Reading plans (workbench.plan/v1) and the order in which they are carried out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UnsupportedError

FORWARDS = ("F_all", "F_ck", "F_none")


@dataclass(frozen=True)
class Op:
    """One operation: of a layer. Times in seconds."""

    op: str
    start: float
    end: float
    layer: int = 0
    tensor: str = ""

    def __str__(self) -> str:
        return " ".join(str(v) for v in (self.op, self.tensor, self.layer) if v)


@dataclass
class Plan:
    """A plan as it stands in its file."""

    problem: str
    method: str
    instance: dict[str, Any]
    memory: float  # bytes; 0: not said
    bandwidth: float  # bytes a second
    claims: dict[str, float]
    ops: list[Op]


def read_plan(plan: str | Path | dict[str, Any] | Plan) -> Plan:
    """A plan from a file, from its JSON, or as it is."""
    if isinstance(plan, Plan):
        return plan
    where = "the plan"
    if not isinstance(plan, dict):
        where = str(plan)
        plan = read_json(plan)
    if plan.get("format") != "workbench.plan/v1":
        raise UnsupportedError(f"{where}: format is {plan.get('format')!r}, it must be workbench.plan/v1")
    platform, ops = plan.get("platform", {}), []
    known = set(Op.__dataclass_fields__)
    for k, o in enumerate(plan.get("ops", [])):
        unknown = {name for name in o if name not in known and not name.startswith("x-")}
        if unknown or "op" not in o:
            what = ", ".join(sorted(unknown)) or "no op"
            raise UnsupportedError(f"{where}: operation {k} has {what}: a plan for a chain on one device is needed")
        try:
            fields: dict[str, Any] = {"start": 0.0, "end": 0.0, **{name: o[name] for name in known if name in o}}
            ops.append(Op(**fields))
        except TypeError as e:
            raise UnsupportedError(f"{where}: operation {k}: {e}") from e
    return Plan(
        plan.get("problem", ""), plan.get("method", ""), plan.get("instance", {}), platform.get("memory", 0),
        platform.get("bandwidth", 0), plan.get("claims", {}), ops,
    )  # fmt: skip


def read_json(path: str | Path) -> dict[str, Any]:
    """An object from a JSON file."""
    try:
        value = json.loads(Path(path).read_text())
    except OSError as e:
        raise UnsupportedError(f"{path}: {e.strerror}") from e
    except ValueError as e:
        raise UnsupportedError(f"{path} is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise UnsupportedError(f"{path}: an object is needed")
    return value


@dataclass(frozen=True)
class Event:
    """Something to do next: "run" an operation, or "begin" or "finish" a transfer."""

    what: str
    op: Op


def events(plan: Plan) -> list[Event]:
    """What a plan does, one after the other.

    Without transfers that is the order of the file. Transfers begin and finish at their instants among
    the computations, as the verifier of workbench orders them: of what happens at one instant (1e-9 of
    the makespan) what began before ends first, then operations start as the plan lists them, and
    prefetches come last. An offload that begins while something is computed begins before that, which may
    use up its tensor. The instants themselves mean nothing here: a transfer that is late is waited for.
    """
    if not any(o.op in ("O", "P") for o in plan.ops):
        return [Event("run", o) for o in plan.ops]
    span = max((o.end for o in plan.ops), default=0.0)
    instants: dict[float, int] = {}
    last: float | None = None
    number = 0
    for t in sorted({t for o in plan.ops for t in (o.start, o.end)}):
        number += last is not None and t - last > 1e-9 * span
        instants[t], last = number, t
    running = {}
    for k, o in enumerate(plan.ops):
        if o.op not in ("O", "P"):
            running.update({i: (instants[o.start], k) for i in range(instants[o.start] + 1, instants[o.end])})
    keyed = []
    for k, o in enumerate(plan.ops):
        begin, end = instants[o.start], instants[o.end]
        if o.op == "O" and begin in running:
            keyed.append((running[begin][0], 1, running[begin][1], -1, Event("begin", o)))
            keyed.append((end, 0, k, 1, Event("finish", o)))
            continue
        if o.op not in ("O", "P"):
            keyed.append((begin, 1, k, 0, Event("run", o)))
            continue
        keyed.append((begin, 2 if o.op == "P" and end > begin else 1, k, 0, Event("begin", o)))
        keyed.append((end, 0 if end > begin else 1, k, 1, Event("finish", o)))
    keyed.sort(key=lambda e: e[:4])
    return [e[4] for e in keyed]


@dataclass(frozen=True)
class Graphs:
    """What becomes of the graphs that the F_all of a plan make, each by its place among the events."""

    stays: frozenset[int] = frozenset()  # its input stays, the same copy of it, until its backward
    follows: frozenset[int] = frozenset()  # its graph goes on from that of the layer before
    goes_on: frozenset[int] = frozenset()  # another one goes on from its graph


def graphs(of: Sequence[Event], pairs: set[int]) -> Graphs:
    """Which graphs of a plan without transfers can be one, so that one backward goes through all their layers.

    of: the events, which keep the rules. pairs: layers that may share a graph with the layer before. One follows it
    if it reads a_{ℓ-1} in ā_{ℓ-1}, which stays, and if its backward is followed by that of the layer before. O(events).
    """
    made = {("a", 0): -1}  # which event made what is stored
    source: dict[int, tuple[tuple[str, int], int]] = {}  # by F_all: what it reads, and what made that
    stays, follows, goes_on = set(), set(), set()
    for k, e in enumerate(of):
        op, layer = e.op.op, e.op.layer
        if op in FORWARDS:
            place = ("a", layer - 1) if ("a", layer - 1) in made else ("abar", layer - 1)
            if op == "F_all":
                source[k] = place, made[place]
            made["abar" if op == "F_all" else "a", layer] = k
            if op == "F_none":
                made.pop(("a", layer - 1), None)
        elif op == "B":
            maker = made.pop(("abar", layer))
            place, before = source[maker]
            if made.get(place) == before:
                stays.add(maker)
                then = of[k + 1].op if k + 1 < len(of) else e.op
                if place[0] == "abar" and layer in pairs and (then.op, then.layer) == ("B", layer - 1):
                    follows.add(maker)
                    goes_on.add(before)
            made.pop(("a", layer - 1), None)
        else:
            made.pop(("a" if layer == 0 else e.op.tensor, layer), None)
    return Graphs(frozenset(stays), frozenset(follows), frozenset(goes_on))
