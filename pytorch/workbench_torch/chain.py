"""A joint graph as a chain of layers (workbench.chain/v1), and plans for the chain as schedules of the graph.

A layer is a stretch of the forward between two places where a single storage that needs a gradient crosses, with the
stretch of the backward that reads what it made. What needs no gradient and is read by several layers (rotary tables, masks)
is computed once and kept, and so are states of generators; their bytes are in the overheads of all layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .errors import Reason, UnsupportedError
from .joint import BOUNDARY, Entry, Joint

FORWARDS, PROBLEMS = ("F_all", "F_ck", "F_none"), ("remat", "activation-offload", "remat-offload")
Op = dict[str, Any]
Place = tuple[str, int]  # a tensor of the chain, "a" or "abar", and its layer


@dataclass
class Layer:
    """Operations of a layer, and the storages of a, ā (with a) and δ."""

    name: str
    forward: list[Entry]
    backward: list[Entry]
    output: set[int]
    saved: set[int]
    delta: set[int]
    children: tuple[int, int] = (0, 0)  # first and last, of those that the cuts had to respect


class Chain:
    """The layers of a joint graph; the last one ends with the loss, or with the network's output where there is no loss.

    Args:
        joint: the graph, with times and workspaces.
        children: paths of modules that layers may not divide; none: layers are as short as possible.

    Attributes:
        layers: layers 1 to N.
        kept: bytes that are there all through a step, whatever the plan.
        gradients: bytes of the gradients of parameters, which chains do not count, with partial sums of shared ones.
    """

    def __init__(self, joint: Joint, children: Sequence[str] = ()):
        self.joint, self.children = joint, children
        place = next(k for k, e in enumerate(joint.entries) if e.id == BOUNDARY)
        self.forward, self.boundary, self.backward = joint.entries[:place], joint.entries[place], joint.entries[place + 1 :]
        if not self.forward:
            raise UnsupportedError("the forward computes nothing, so that it has no layers", reason=Reason.TRACE)
        written_back = [type(d).__name__ == "InputMutationAOTOutput" for d in joint.forward_described]
        outputs: tuple[set[int], set[int]] = set(), set()
        for n, w in zip(joint.forward_outputs, written_back, strict=True):
            outputs[w].update(joint.of.get(n, ()))
        self.results, self.updates = ({s for s in x if not joint.storages[s].resident} for x in outputs)
        self._uses()
        self._layers(self._cuts())

    def bytes(self, storages: Iterable[int]) -> int:
        """Returns the bytes of storages."""
        return sum(self.joint.storages[s].bytes for s in storages)

    # ---- cutting

    def _uses(self) -> None:
        """Notes where the forward first and last uses each storage, and which storages need a gradient."""
        joint = self.joint
        wanted = zip(joint.primals, joint.backward_outputs, strict=False)
        self.differentiable = {s for n, g in wanted if g is not None for s in joint.of.get(n, ())}
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for k, e in enumerate(self.forward):
            for s in (*e.reads, *e.writes):
                self.first.setdefault(s, k)
                self.last[s] = k
            if e.random and not e.captures or self.differentiable.intersection(e.reads):
                self.differentiable.update(e.writes)
        self.last.update(dict.fromkeys(self.results, len(self.forward)))

    def _cuts(self) -> list[tuple[int, int, int]]:
        """Places in the forward, the storages that cross there, and the places where the backward crosses them."""
        found = list(_single(self.forward, self.last, self.differentiable - self.updates))
        if self.children:
            found = [(k, x) for k, x in found if self._child(self.forward[k - 1]) != self._child(self.forward[k])]
        last = {s: p for p, e in enumerate(self.backward) for s in (*e.reads, *e.writes)}
        self.partial = self._partial_gradients()
        made = {s for e in (self.boundary, *self.backward) for s in e.writes}
        gradients = dict(_single([self.boundary, *self.backward], {s: p + 1 for s, p in last.items()}, made - self.partial, every=True))
        reads = [[s for s in e.reads if s in self.first] for e in self.backward]
        newest = [max((self.first[s] for s in of), default=-1) for of in reads]
        oldest = [min((self.last[s] for s in of), default=len(self.forward)) for of in reads]
        cuts, begin, delta = [], 0, set(self.boundary.writes)
        for k, x in reversed(found):
            low = max((p + 1 for p, m in enumerate(newest) if m >= k), default=0)
            high = next((p for p, m in enumerate(oldest) if m < k), len(self.backward))
            p = next((p for p in range(max(low, begin), high + 1) if gradients.get(p + 1, x) not in {x, *delta}), None)
            if p is not None:
                cuts.append((k, x, p))
                begin, delta = p, {gradients[p + 1]}
        self.crossing = gradients
        return cuts[::-1]

    def _partial_gradients(self) -> set[int]:
        """Sums of gradients that later operations of the backward only add to: those of shared parameters."""
        made = {s for e in self.backward for s in e.writes}
        readers: dict[int, list[int]] = {}
        for p, e in enumerate(self.backward):
            for s in e.reads:
                readers.setdefault(s, []).append(p)
        adds: set[int] = set()
        partial: set[int] = set()
        for p in reversed(range(len(self.backward))):
            e = self.backward[p]
            if made.issuperset(e.reads) and all(s in partial or self.joint.storages[s].result and s not in readers for s in e.writes):
                adds.add(p)
            partial.update(s for s in e.reads if s in made and adds.issuperset(readers[s]))
        return partial

    def _child(self, e: Entry) -> int:
        """The child that an operation belongs to; that of the loss is the one after the last."""
        named = (k for k, c in enumerate(self.children) if e.layer == c or e.layer.startswith(c + "."))
        return next(named, len(self.children))

    def _layers(self, cuts: list[tuple[int, int, int]]) -> None:
        self.once = self._once([k for k, _, _ in cuts])
        always = {s for e in self.forward if e.id in self.once for s in e.writes} | self.updates
        self.kept = self.bytes(always | self.results) + 2 * torch.zeros(()).nbytes
        held = {s for _, _, p in cuts for s in self.partial if self._is_alive(s, p)}
        self.gradients = self.bytes(s for e in self.backward for s in e.writes if self.joint.storages[s].result) + self.bytes(held)
        places = [(0, -1, len(self.backward)), *cuts, (len(self.forward), -1, 0)]
        self.layers: list[Layer] = []
        child = 0
        for (begin, _, end_b), (end, output, begin_b) in zip(places, places[1:], strict=False):
            forward, backward = self.forward[begin:end], self.backward[begin_b:end_b]
            made = {s for e in forward for s in e.writes} - always
            outputs = {output} if output >= 0 else self.results & made
            saved = made.intersection(s for e in backward for s in e.reads) | outputs
            delta = {self.crossing[begin_b + 1]} if output >= 0 else set(self.boundary.writes)
            last = self._child(forward[-1]) if output >= 0 else len(self.children)
            self.layers.append(Layer(_name(forward), forward, backward, outputs, saved, delta, (child, last)))
            child = last + 1

    def _once(self, cuts: list[int]) -> set[str]:
        """Operations whose results are kept.

        They may not run again, read a buffer that the end of the forward changes, or have results that cross and need no gradient.
        """
        found, changed = set(), set(self.boundary.mutates)
        for e in self.forward:
            free = [s for s in e.writes if s not in self.differentiable]
            crosses = any(self.first[s] < k <= self.last[s] for s in free for k in cuts)
            if crosses or not e.recompute or changed.intersection(e.reads):
                found.add(e.id)
        return found

    def _is_alive(self, s: int, p: int) -> bool:
        return any(s in e.writes for e in self.backward[:p]) and any(s in e.reads for e in self.backward[p:])

    # ---- the file

    def document(self, name: str, samples: int, counted_by: str) -> dict[str, Any]:
        """Returns the JSON of workbench.chain/v1.

        Args:
            name: of the network.
            samples: the batch.
            counted_by: what counted the workspaces.
        """
        primals = [s for s in self.joint.storages if s.resident]
        source = {
            "program": "workbench_torch", "torch": torch.__version__, "memory_counted_by": counted_by, "kept": self.kept,
            "parameters": sum(s.bytes for s in primals if s.kind == "parameter"), "gradients": self.gradients,
            "buffers": sum(s.bytes for s in primals if s.kind == "buffer"), "inputs": sum(s.bytes for s in primals if s.kind == "input"),
        }  # fmt: skip
        layers = [self._entry(k) for k in range(len(self.layers))]
        start = {"activation": 0, "gradient": 0}
        return {"format": "workbench.chain/v1", "name": name, "samples": samples, "input": start, "layers": layers, "source": source}

    def _entry(self, k: int) -> dict[str, Any]:
        of = self.layers[k]
        before = self.layers[k - 1].output if k else set()
        after = self.layers[k - 1].delta if k else set()
        output, saved = self.bytes(of.output), self.bytes(of.saved)
        more = self.kept - (self.bytes(self.results) if k + 1 == len(self.layers) else 0)
        forward = self._peak(of.forward, set(), of.saved) - saved
        alone = self._peak(of.forward, set(), of.output) - output
        counted = of.saved | before | of.delta
        backward = self._peak(of.backward, counted, before | after) - self.bytes(counted) - self.bytes(after)
        parameters = {s for e in of.forward for s in e.reads if self.joint.storages[s].kind == "parameter"}
        return {
            "name": of.name,
            "forward_time": sum(e.time for e in of.forward),
            "backward_time": sum(e.time for e in of.backward),
            "activation": output,
            "saved": saved,
            "gradient": self.bytes(of.delta),
            "forward_overhead": forward + more,
            "checkpoint_overhead": max(forward, alone) + more,
            "backward_overhead": max(0, backward + more),
            "weight": self.bytes(parameters),
            **({"x-children": of.children} if self.children else {}),
            **({"x-updates": True} if any(self.updates.intersection(e.writes) for e in of.forward) else {}),
        }

    def _peak(self, entries: list[Entry], there: set[int], stay: set[int]) -> int:
        """The peak of operations one after the other, in bytes, without gradients of parameters.

        there: what is there and counted before; stay: what is not freed after its last use among them.
        """
        last = {s: k for k, e in enumerate(entries) for s in (*e.reads, *e.writes)}
        storages, counted = self.joint.storages, self.results | stay
        size = {s: storages[s].bytes if s in counted or not storages[s].result else 0 for s in (*last, *there)}
        live = set(there)
        now = peak = sum(size[s] for s in live)
        for k, e in enumerate(entries):
            now += sum(size[s] for s in e.writes if s not in live)
            live.update(e.writes)
            peak = max(peak, now + e.workspace)
            gone = {s for s in (*e.reads, *e.writes) if last[s] == k and s in live and s not in stay}
            now -= sum(size[s] for s in gone)
            live -= gone
        return peak

    # ---- plans

    def schedule(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Returns a plan for the chain as one for the graph: operations in order, storages freed after their last use.

        Transfers are operations O, O_end, P and P_end of storages.

        Raises:
            UnsupportedError: the plan is for another chain or problem, or breaks a rule.
        """
        problem, ops = plan.get("problem"), plan.get("ops") or []
        if problem not in PROBLEMS:
            raise _wrong(f"plans of {problem or 'no problem'} are not run here, those of {', '.join(PROBLEMS)} are")
        highest = max((int(o.get("layer", 0)) for o in ops), default=0)
        if highest != len(self.layers):
            raise _wrong(f"the plan is for {highest} layers, the network has {len(self.layers)}: plan for its profile")
        made = _Schedule(self, problem == "activation-offload")
        for what, o in events(ops):
            made.add(what, o)
        if made.next:
            raise _wrong(f"the plan ends before the backward of layer {made.next}")
        memory = int(plan.get("platform", {}).get("memory") or 0)
        freed, peak, time = free_early(self.joint, made.ops)
        claims = {"peak_memory": peak, "makespan": time}
        claimed = int(plan.get("claims", {}).get("peak_memory") or 0)
        return {
            "format": "workbench.plan/v1", "problem": "remat", "method": plan.get("method", ""), "claims": claims, "ops": freed,
            "platform": {"memory": memory + self.gradients if memory else 0}, "x-claimed-peak": claimed + self.gradients if claimed else 0,
        }  # fmt: skip


class _Schedule:
    """Operations of a graph, in the order of a plan for its chain; what the chain has stored is followed by the rules."""

    def __init__(self, chain: Chain, evicts_after_use: bool):
        self.chain, self.evicts_after_use = chain, evicts_after_use
        self.ops: list[Op] = []
        self.stored: set[Place] = {("a", 0)}
        self.host: set[Place] = set()
        self.leaving: dict[Place, bool] = {}  # what is being evicted, and whether the host has it
        self.ran: set[int] = set()
        self.next = len(chain.layers)  # whose backward is due

    def add(self, what: str, o: Op) -> None:
        """Adds an operation of the plan, or the beginning or end of a transfer."""
        name, layer = o["op"], int(o.get("layer", 0))
        place = ("a" if layer == 0 else str(o.get("tensor", "")), layer)
        if name in FORWARDS:
            self._forward(name, layer, o)
        elif name == "B":
            self._backward(layer, o)
        elif name == "D":
            self._need(o, place)
            self.stored.discard(place)
        elif name in ("O", "P"):
            self._transfer(name, what, place, o)
        else:
            raise _wrong(f"operation {name} is unknown")

    def _need(self, o: Op, *places: Place) -> None:
        if not self.stored.intersection(places):
            names = " or ".join(f"{t}_{k}" for t, k in places)
            raise _wrong(f"the plan breaks a rule: {o['op']} of layer {o.get('layer')} needs {names}, which is not there")

    def _input(self, o: Op, layer: int) -> None:
        self._need(o, ("a", layer - 1), ("abar", layer - 1))

    def _forward(self, name: str, layer: int, o: Op) -> None:
        self._input(o, layer)
        of = self.chain.layers[layer - 1]
        entries = self._rerun(of, name) if layer in self.ran else of.forward
        self.ops += [{"op": "C", "node": e.id} for e in entries]
        self.ran.add(layer)
        self.stored.add(("abar" if name == "F_all" else "a", layer))
        if name == "F_none":
            self.stored.discard(("a", layer - 1))
        for place in (("a", layer - 1), ("abar", layer - 1)):
            if self.leaving.get(place):
                del self.leaving[place]
                self.stored.discard(place)

    def _rerun(self, of: Layer, name: str) -> list[Entry]:
        """The operations that recompute ā, or a alone."""
        wanted, found = set(of.saved if name == "F_all" else of.output), []
        for e in reversed(of.forward):
            if e.id not in self.chain.once and wanted.intersection(e.writes):
                wanted.update(e.reads)
                found.append(e)
        return found[::-1]

    def _backward(self, layer: int, o: Op) -> None:
        if layer != self.next:
            raise _wrong(f"the plan breaks a rule: B of layer {layer} where that of layer {self.next} is due")
        self._need(o, ("abar", layer))
        self._input(o, layer)
        if layer == len(self.chain.layers):
            self.ops.append({"op": "C", "node": BOUNDARY})
        self.ops += [{"op": "C", "node": e.id} for e in self.chain.layers[layer - 1].backward]
        self.stored -= {("abar", layer), ("a", layer - 1)}
        self.next -= 1

    def _transfer(self, name: str, what: str, place: Place, o: Op) -> None:
        tensor, layer = place
        storages = () if layer == 0 else self.chain.layers[layer - 1].saved if tensor == "abar" else self.chain.layers[layer - 1].output
        if what == "begin" and name == "O":
            self._need(o, place)
            self.host.add(place)
            self.leaving[place] = False
        elif what == "begin" and place not in self.host:
            raise _wrong(f"the plan breaks a rule: P of {tensor}_{layer}, which the host does not have")
        elif what == "finish" and name == "P":
            self.stored.add(place)
        elif what == "finish" and place in self.leaving:
            if self.evicts_after_use and layer + 1 not in self.ran:
                self.leaving[place] = True  # the next forward reads it
            else:
                del self.leaving[place]
                self.stored.discard(place)
        op = name if what == "begin" else f"{name}_end"
        self.ops += [{"op": op, "storage": f"s{s}"} for s in sorted(storages) if self.chain.joint.storages[s].bytes]


def _wrong(message: str) -> UnsupportedError:
    return UnsupportedError(message, reason=Reason.PLAN)


def _single(entries: list[Entry], last: dict[int, int], counted: set[int], *, every: bool = False) -> Iterable[tuple[int, int]]:
    """The places before which a single one of the counted storages is alive, with it; the first place of each unless every.

    last: by storage, the number of its last use. O(entries times storages that are alive).
    """
    alive: list[int] = []
    known: set[int] = set()
    for k, e in enumerate(entries[:-1], 1):
        alive = [s for s in dict.fromkeys([*alive, *e.writes]) if last.get(s, -1) >= k and s in counted]
        if len(alive) == 1 and (every or alive[0] not in known):
            known.add(alive[0])
            yield k, alive[0]


def _name(entries: list[Entry]) -> str:
    names = [e.layer or e.operation.removeprefix("aten.").split(".")[0] for e in entries]
    return names[0] if names[0] == names[-1] else f"{names[0]}..{names[-1]}"


def free_early(joint: Joint, ops: list[Op]) -> tuple[list[Op], int, float]:
    """Returns a schedule in which every storage is freed after its last use, its peak in bytes, and the time of its operations."""
    used = [_used(joint, o) for o in ops]
    live = {s for reads, writes in used for s in writes if joint.storages[s].result}
    gone: list[list[int]] = []
    for reads, writes in reversed(used):
        gone.append([s for s in dict.fromkeys((*reads, *writes)) if s not in live and not joint.storages[s].resident])
        live.difference_update(writes)
        live.update(s for s in reads if not joint.storages[s].resident)
    made: list[Op] = []
    now = peak = 0
    time = 0.0
    for o, (_, writes), freed in zip(ops, used, reversed(gone), strict=True):
        e = joint.by_id[o["node"]] if o["op"] == "C" else None
        made.append({**o, "start": time, "end": time + (e.time if e else 0.0)})
        time = made[-1]["end"]
        now += sum(joint.storages[s].bytes for s in writes)
        peak = max(peak, now + (e.workspace if e else 0))
        now -= sum(joint.storages[s].bytes for s in freed)
        made += [{"op": "D", "storage": f"s{s}", "start": time, "end": time} for s in freed]
    return made, peak, time


def _used(joint: Joint, o: Op) -> tuple[Sequence[int], Sequence[int]]:
    """What an operation of a schedule reads and writes; what is on the host is neither."""
    if o["op"] == "C":
        e = joint.by_id[o["node"]]
        return [s for s in e.reads if not joint.storages[s].resident], e.writes
    s = int(o["storage"][1:])
    return ([], [s]) if o["op"] == "P" else ([s], [])


def events(ops: list[Op]) -> list[tuple[str, Op]]:
    """Returns what a plan does, one after the other: "run" an operation, "begin" or "finish" a transfer.

    Without transfers that is the order of the file. Transfers begin and finish at their times among the computations, as
    ``workbench verify`` orders them: of what happens at one time (1e-9 of the makespan) what began before ends first, then
    operations start as the plan lists them, and prefetches come last. An offload that begins during a computation begins
    before it, which may use up its tensor. A transfer that is late is waited for.
    """
    if not any(o["op"] in ("O", "P") for o in ops):
        return [("run", o) for o in ops]
    spans = [(float(o.get("start", 0)), float(o.get("end", 0))) for o in ops]
    tolerance = 1e-9 * max(end for _, end in spans)
    rank: dict[float, int] = {}
    number, last = 0, None
    for t in sorted({t for span in spans for t in span}):
        number += last is not None and t - last > tolerance
        rank[t], last = number, t
    running = {}
    for k, (o, (start, end)) in enumerate(zip(ops, spans, strict=True)):
        if o["op"] not in ("O", "P"):
            running.update({i: (rank[start], k) for i in range(rank[start] + 1, rank[end])})
    keyed = []
    for k, (o, span) in enumerate(zip(ops, spans, strict=True)):
        begin, end = (rank[t] for t in span)
        if o["op"] not in ("O", "P"):
            keyed.append(((begin, 1, k, 0), ("run", o)))
            continue
        if o["op"] == "O" and begin in running:
            keyed.append(((running[begin][0], 1, running[begin][1], -1), ("begin", o)))
        else:
            keyed.append(((begin, 2 if o["op"] == "P" and end > begin else 1, k, 0), ("begin", o)))
        keyed.append(((end, 0 if end > begin or o["op"] == "O" and begin in running else 1, k, 1), ("finish", o)))
    return [e for _, e in sorted(keyed, key=lambda e: e[0])]
