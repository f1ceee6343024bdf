"""AOTAutograd's joint graph of a step as a planning problem (workbench.graph/v2).

A joint graph is functional: operations on primals (parameters, buffers, inputs), then, from the gradients of
the outputs (tangents) on, those of the backward. Tensors are identified by the storage of their fake tensor:
an operation that makes no new storage is a view and no node of the problem. A node ``boundary`` between
forward and backward reads every output of the forward and makes the tangents, so that no plan begins the
backward early.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from . import memory
from .errors import LIBRARIES, Reason, UnsupportedError
from .state import tensors

aten = torch.ops.aten
BOUNDARY = "boundary"
SEEDED: Any = torch.Tag.nondeterministic_seeded  # type: ignore[attr-defined]
COLLECTIVES = ("_c10d_functional", "c10d", "_dtensor", "c10d_functional")


def draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers from torch's default generator."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or SEEDED not in target.tags:
        return False
    if "seed" in (a.name for a in target._schema.arguments):  # of inductor: what it draws is in the seed
        return False
    for place, a in enumerate(target._schema.arguments):  # attention and dropout with probability 0 draw nothing
        if a.name in ("dropout_p", "p") and "attention" in target._schema.name:
            value = node.kwargs.get(a.name, node.args[place] if place < len(node.args) else a.default_value)
            return bool(value)
    return True


def statistics(node: fx.Node) -> list[fx.Node]:
    """Returns the running statistics that a normalization of a training step is given and does not compute with."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or "batch_norm" not in target._schema.name or "no_training" in target._schema.name:
        return []
    given: dict[str, Any] = {a.name: node.kwargs.get(a.name, v) for a, v in zip(target._schema.arguments, node.args, strict=False)}
    trains = next((bool(given[k]) for k in ("training", "train", "update") if k in given), True)
    return [given[k] for k in ("running_mean", "running_var") if trains and isinstance(given.get(k), fx.Node)]


def source_line(node: fx.Node) -> str:
    """Returns "file:line" of the user's code that made a node, from its recorded stack; "" if none was recorded."""
    found = ""
    for line in (node.meta.get("stack_trace") or "").splitlines():
        parts = line.strip().split('"')
        if len(parts) == 3 and parts[0] == "File " and not parts[1].startswith(LIBRARIES):
            found = f"{parts[1]}:{parts[2].split(',')[1].split()[-1]}"
    return found


def module_path(node: fx.Node) -> str:
    """Returns the innermost module that a node of the forward belongs to, as layers.3.mlp; "" if unknown."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = ""
    for entry in stack.values():
        path = entry[0] if isinstance(entry, tuple) else path
    path = re.sub(r"^L\['\w+'\](\[\d+\])?\.?", "", path)  # Dynamo's name of the network
    return path.replace("._modules", "").replace("['", ".").replace("']", "").strip(".")


@dataclass
class Storage:
    """Memory that is allocated and freed as a whole."""

    bytes: int
    kind: str = "value"
    resident: bool = False
    result: bool = False
    name: str = ""


@dataclass
class Entry:
    """A node of the problem: an operation of the joint graph, or the boundary."""

    id: str
    operation: str
    phase: str
    node: fx.Node | None = None
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    mutates: list[int] = field(default_factory=list)
    recompute: bool = True
    random: bool = False
    captures: bool = False  # takes the state of the generator before the random node that follows
    layer: str = ""
    time: float = 0.0
    workspace: int = 0


class Joint:
    """A joint graph with its storages and nodes.

    Args:
        gm: the joint graph; its nodes have fake tensors in ``meta["val"]``.
        num_fwd_outputs: how many of its outputs belong to the forward.
        replay: whether random operations may be recomputed, from the state of the generator that they ran with; inductor
            makes them of seeds, and what it leaves is kept.

    Raises:
        UnsupportedError: sizes are symbolic, or the step has collectives or ordered effects.
    """

    def __init__(self, gm: fx.GraphModule, num_fwd_outputs: int, *, replay: bool = True):
        self.gm, self.replay = gm, replay
        (output,) = gm.graph.find_nodes(op="output")
        outputs = pytree.tree_leaves(output.args, is_leaf=lambda a: a is None)
        described = output.meta.get("desc", [None] * len(outputs))
        self.forward_outputs, self.backward_outputs = outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]
        self.forward_described, self.backward_described = described[:num_fwd_outputs], described[num_fwd_outputs:]
        holders = gm.graph.find_nodes(op="placeholder")
        self.tangents = [n for n in holders if "tangents" in str(n.target)]
        self.primals = [n for n in holders if "tangents" not in str(n.target)]
        self.storages: list[Storage] = []
        self.of: dict[fx.Node, list[int]] = {}  # the storages of a value of the graph
        self.numbers: dict[int, int] = {}  # by key of a storage
        self.makers: dict[int, fx.Node] = {}  # the operation that makes a storage
        self.clones: dict[str, str] = {}  # nodes that must be recomputed: their second entry
        self.alive: list[torch.Tensor] = []  # keys are unique while their tensors live
        self.entries: list[Entry] = []
        self._build()
        self.by_id = {e.id: e for e in self.entries}

    # ---- building

    def _build(self) -> None:
        for n in self.primals:
            _refuse_symbolic(n)
            for t in tensors(n.meta.get("val")):
                self._new(n, t, kind=_primal_kind(n), resident=True, name=str(n.target))
        for n in self.tangents:
            for t in tensors(n.meta.get("val")):
                self._new(n, t, kind="gradient", name=str(n.target))
        later = self._after_tangents()
        ordered = self._ordered(later)
        needed = self._needed(ordered)
        crossed = False
        for n in ordered:
            if not crossed and n in later:
                self._add_boundary()
                crossed = True
            if n.op == "get_attr":
                for t in tensors(n.meta.get("val", getattr(self.gm, str(n.target), None))):
                    self._new(n, t, kind="buffer", resident=True, name=str(n.target))
            elif n.op == "call_function":
                self._add(n, "backward" if crossed else "forward", n in needed)
        if not crossed:
            self._add_boundary()
        written_back = [type(d).__name__ == "InputMutationAOTOutput" for d in self.forward_described]  # when the forward has ended
        for n in (*(n for n, w in zip(self.forward_outputs, written_back, strict=True) if not w), *self.backward_outputs):
            for s in self.of.get(n, ()) if isinstance(n, fx.Node) else ():
                self.storages[s].result |= not self.storages[s].resident
        for n in self.backward_outputs:
            for s in self.of.get(n, ()) if isinstance(n, fx.Node) else ():
                self.storages[s].kind = "gradient" if self.storages[s].result else self.storages[s].kind
        self._refuse_stale()
        self._recompute_marked()
        self._layers_of_backward()

    def _after_tangents(self) -> set[fx.Node]:
        found = set(self.tangents)
        for n in self.gm.graph.nodes:
            if any(a in found for a in n.all_input_nodes):
                found.add(n)
        return found

    def _ordered(self, later: set[fx.Node]) -> list[fx.Node]:
        """The nodes with everything that the forward's outputs need first."""
        first: set[fx.Node] = {n for n in self.forward_outputs if isinstance(n, fx.Node)}
        nodes = [n for n in self.gm.graph.nodes if n.op in ("call_function", "get_attr")]
        for n in reversed(nodes):
            if n in first or n not in later and n.op == "call_function" and (_mutable(n) or draws(n)):
                first.update((n, *n.all_input_nodes))
        return [n for n in nodes if n in first] + [n for n in nodes if n not in first]

    def _needed(self, ordered: list[fx.Node]) -> set[fx.Node]:
        """The nodes whose results are read, and those with effects."""
        found = {n for n in (*self.forward_outputs, *self.backward_outputs) if isinstance(n, fx.Node)}
        for n in reversed(ordered):
            if n in found or _mutable(n) or draws(n):
                found.update((n, *n.all_input_nodes))
        return found

    def _new(self, n: fx.Node, t: torch.Tensor, **what: Any) -> int:
        key = memory.key(t)
        if key not in self.numbers:
            self.alive.append(t)
            self.numbers[key] = len(self.storages)
            self.storages.append(Storage(memory.size(t), **what))
        self.of.setdefault(n, []).append(self.numbers[key])
        return self.numbers[key]

    def _add(self, n: fx.Node, phase: str, needed: bool) -> None:
        value = n.meta.get("val")
        _refuse_symbolic(n)
        if n.target is operator.getitem:
            self.of[n] = [self.numbers[memory.key(t)] for t in tensors(value)]
            return
        _refuse_effects(n)
        made = tensors(value)
        fresh = [t for t in made if memory.key(t) not in self.numbers]
        if not fresh and not _mutable(n):
            self.of[n] = list(dict.fromkeys(self.numbers[memory.key(t)] for t in made))
            return
        if not needed:
            return
        writes = list(dict.fromkeys(self._new(n, t) for t in fresh))
        self.of[n] = list(dict.fromkeys(self.numbers[memory.key(t)] for t in made))
        self.makers.update(dict.fromkeys(writes, n))
        entry = Entry(f"n{len(self.entries)}", str(n.target), phase, n, writes=writes, layer=module_path(n))
        entry.mutates = [s for a in _mutated(n) for s in self.of[a]]
        changed = [s for s in entry.mutates if not self.storages[s].resident]
        if changed:
            raise UnsupportedError(f"{n.target} changes an intermediate result in place", reason=Reason.TRACE, where=source_line(n))
        hidden = statistics(n)
        inputs = dict.fromkeys(s for a in n.all_input_nodes if a not in hidden for s in self.of.get(a, ()))
        entry.reads = [s for s in inputs if s not in writes and s not in entry.mutates]
        tagged = str(getattr(n.meta.get("recompute"), "name", ""))
        entry.recompute = isinstance(n.target, torch._ops.OpOverload) and not entry.mutates and tagged != "MUST_SAVE"
        if n.kwargs.get("generator") is not None:
            raise UnsupportedError(
                f"{n.target} draws from a generator of its own", reason=Reason.RANDOM, where=source_line(n), hint="use the default one"
            )
        if draws(n) and self.replay:
            self._capture(entry)
        elif draws(n):
            entry.random, entry.recompute = True, False
        entry.id = f"n{len(self.entries)}"
        self.entries.append(entry)

    def _capture(self, entry: Entry) -> None:
        """Adds a node that keeps the generator's state, from which the random node is recomputed."""
        entry.random = True
        device = next((t.device.type for t in tensors(entry.node.meta.get("val"))), "cpu") if entry.node is not None else "cpu"
        size = torch.get_rng_state().numel() if device == "cpu" else 1  # states of CUDA generators are kept on the host
        self.storages.append(Storage(size, name="state of the generator"))
        number = len(self.storages) - 1
        state = Entry(f"n{len(self.entries)}", "workbench.rng_state", entry.phase, entry.node, writes=[number], layer=entry.layer)
        state.recompute, state.random, state.captures = False, True, True
        self.entries.append(state)
        entry.reads.append(number)

    def _add_boundary(self) -> None:
        outputs = dict.fromkeys(s for n in self.forward_outputs if isinstance(n, fx.Node) for s in self.of.get(n, ()))
        reads = [s for s in outputs if not self.storages[s].resident]
        writes = list(dict.fromkeys(s for n in self.tangents for s in self.of.get(n, ()) if s not in outputs))
        boundary = Entry(BOUNDARY, "forward ends, tangents arrive", "loss", None, reads, writes, recompute=False)
        described = [getattr(d, "mutated_input", None) for d in self.forward_described]
        for n in self.primals:  # AOTAutograd writes new values of buffers when the forward has ended
            if n.meta.get("desc") is not None and n.meta["desc"] in described:
                if _primal_kind(n) == "parameter":
                    raise UnsupportedError(
                        f"the forward changes the parameter {n.meta['desc'].target}", reason=Reason.TRACE, hint="change it before the step"
                    )
                boundary.mutates += self.of.get(n, ())
        self.entries.append(boundary)

    def _recompute_marked(self) -> None:
        """Gives what the user marked MUST_RECOMPUTE a second entry after the boundary, whose results the backward reads."""
        place = next(k for k, e in enumerate(self.entries) if e.id == BOUNDARY)
        tangents = self.entries[place].writes
        forward = [e for e in self.entries[:place] if e.node is not None]
        marked = [e for e in forward if e.node and getattr(e.node.meta.get("recompute"), "name", "") == "MUST_RECOMPUTE"]
        if not marked or not tangents:
            return
        stand_in: dict[int, int] = {}
        clones = []
        results = {s for s, x in enumerate(self.storages) if x.result}
        for e in marked:
            if e.random or e.captures or e.mutates or results & set(e.writes):
                continue
            for s in e.writes:
                stand_in[s] = len(self.storages)
                self.storages.append(Storage(self.storages[s].bytes))
            clone = Entry(f"{e.id}_recomputed", e.operation, "backward", e.node, layer=e.layer)
            clone.reads = [*dict.fromkeys([*(stand_in.get(s, s) for s in e.reads), tangents[0]])]
            clone.writes = [stand_in[s] for s in e.writes]
            self.clones[clone.id] = e.id
            clones.append(clone)
        for e in self.entries[place + 1 :]:
            e.reads = [stand_in.get(s, s) for s in e.reads]
        self.entries[place + 1 : place + 1] = clones
        read = {s for e in self.entries for s in e.reads}
        for clone in reversed(clones):  # of what the backward does not read
            if not read & set(clone.writes):
                self.entries.remove(clone)
                read = {s for e in self.entries for s in e.reads}

    def _refuse_stale(self) -> None:
        """Refuses a backward that reads what the forward has changed since."""
        place = next(k for k, e in enumerate(self.entries) if e.id == BOUNDARY)
        changed = set(self.entries[place].mutates)
        for e in self.entries[place + 1 :]:
            stale = changed & set(e.reads)
            if stale and e.node is not None:
                raise UnsupportedError(
                    f"the backward ({e.operation}) reads {self.storages[stale.pop()].name}, which the forward changes",
                    reason=Reason.TRACE, where=source_line(e.node), hint="compute with a copy of the buffer",
                )  # fmt: skip

    def _layers_of_backward(self) -> None:
        """Gives a backward node the module of the forward value that it reads, else of the gradient that it reads."""
        of: dict[int, str] = {}
        for e in self.entries:
            if e.phase == "backward" and not e.layer:
                e.layer = next((of[s] for s in reversed(e.reads) if of.get(s)), "")
            of.update(dict.fromkeys(e.writes, e.layer))

    # ---- the file

    def document(self, name: str = "step", samples: int = 1) -> dict[str, Any]:
        """Returns the JSON of workbench.graph/v2."""
        used = {s for e in self.entries for s in (*e.reads, *e.writes, *e.mutates)}
        storages: list[dict[str, Any]] = []
        for s, x in enumerate(self.storages):
            if s in used:
                storages.append({"id": f"s{s}", "bytes": x.bytes, **_set(kind=x.kind, resident=x.resident, result=x.result)})
                storages[-1].update(_set(**{"x-name": x.name}))
        nodes = [self._node(e) for e in self.entries]
        source = {"program": "workbench_torch", "torch": torch.__version__}
        top = {"format": "workbench.graph/v2", "name": name, "samples": max(1, samples)}
        return {**top, "storages": storages, "nodes": nodes, "source": source}

    def _node(self, e: Entry) -> dict[str, Any]:
        node: dict[str, Any] = {"id": e.id, "operation": e.operation, "phase": e.phase, "time": e.time}
        node.update(reads=[f"s{s}" for s in e.reads], writes=[f"s{s}" for s in e.writes])
        node.update(_set(workspace=e.workspace, mutates=[f"s{s}" for s in e.mutates], random=e.random, layer=e.layer))
        return node if e.recompute else {**node, "recompute": False}

    def computed(self) -> Iterable[Entry]:
        """Returns the entries that are operations of torch."""
        return (e for e in self.entries if e.node is not None and not e.captures)


def _set(**values: Any) -> dict[str, Any]:
    """The entries of a JSON object that differ from their defaults."""
    return {k: v for k, v in values.items() if v and v != "value"}


def _primal_kind(n: fx.Node) -> str:
    kind = type(n.meta.get("desc")).__name__
    return {"ParamAOTInput": "parameter", "BufferAOTInput": "buffer"}.get(kind, "input")


def _mutable(n: fx.Node) -> bool:
    return n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable


def _mutated(n: fx.Node) -> list[fx.Node]:
    """The arguments that a node writes into."""
    if not _mutable(n):
        return []
    schema: Any = n.target._schema  # type: ignore[union-attr]
    found = []
    for place, a in enumerate(schema.arguments):
        value = n.kwargs.get(a.name, n.args[place] if place < len(n.args) else None)
        if a.alias_info is not None and a.alias_info.is_write and isinstance(value, fx.Node):
            found.append(value)
    return found


def _refuse_symbolic(n: fx.Node) -> None:
    leaves = pytree.tree_leaves(n.meta.get("val"))
    sizes = [v for v in leaves if not isinstance(v, torch.Tensor)] + [d for t in tensors(leaves) for d in t.shape]
    if any(isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool)) for v in sizes):
        raise UnsupportedError(
            f"{n.name} has a symbolic size", reason=Reason.DYNAMIC_SHAPES, where=source_line(n), hint="compile with dynamic=False"
        )


def _refuse_effects(n: fx.Node) -> None:
    target: Any = n.target
    name = str(target)
    if getattr(target, "namespace", "") in COLLECTIVES or "with_effects" in name:
        raise UnsupportedError(
            f"{name} communicates or has ordered effects, which a plan cannot move",
            reason=Reason.COLLECTIVE,
            where=source_line(n),
            hint="plan the step of one process, or wrap the planned step in DistributedDataParallel",
        )

