"""Forward and backward modules that follow a plan for a joint graph, operation by operation.

Both are straight-line code: an operation that a plan recomputes is called again, views are made where they are
used, and a variable is dropped after its last use, which is where a plan frees at the latest. What the backward
reads and the forward made is an output of the forward; AOTAutograd saves it. A storage that a plan offloads (O) is copied
to a buffer of the host, and made from that when it is fetched (P).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Hashable
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch.fx._lazy_graph_module import _make_graph_module

from .errors import Reason, UnsupportedError
from .host import Host, restored
from .joint import BOUNDARY, Entry, Joint, statistics
from .state import tensors

TRANSFERS = ("O", "O_end", "P", "P_end")


def generator_state(device: str) -> torch.Tensor:
    """Returns the state of torch's default generator of a device, on the host."""
    return torch.get_rng_state() if device == "cpu" else torch.cuda.get_rng_state(device)


def replay(device: str, state: torch.Tensor, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Returns what a random operation returned when the generator was in a state, and leaves the generator as it is now."""
    now = generator_state(device)
    _set_state(device, state)
    try:
        return function(*args, **kwargs)
    finally:
        _set_state(device, now)


def _set_state(device: str, state: torch.Tensor) -> None:
    if device == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state, device)


def recurrent(x: torch.Tensor, *rest: Any) -> Any:
    """Returns what mkldnn_rnn_layer returns while training: without gradients it leaves out what its backward needs."""
    with torch.enable_grad():
        return tuple(t.detach() for t in torch.ops.aten.mkldnn_rnn_layer.default(x.detach().requires_grad_(), *rest))


class _Writer:
    """Writes the two graphs; ``now`` has the latest copy of every value, ``saved`` what crosses.

    Keys of ``now`` are nodes of the joint graph; ("state", node) for the generator's state before a node; ("host", storage)
    for its buffer on the host and ("moving", storage) for what arrives from there.
    """

    def __init__(self, joint: Joint, host: Host):
        self.joint, self.made, self.host = joint, set(joint.makers.values()), host
        self.graph = fx.Graph()
        self.now: dict[Hashable, fx.Node] = {}
        self.views: dict[Any, fx.Node] = {}
        self.crossed: tuple[fx.Graph, list[Any], dict[Hashable, fx.Node]] | None = None
        self.carried: dict[Hashable, fx.Node] = {}  # the placeholders in the backward
        self.saved: list[Hashable] = []
        self.first_tangent: fx.Node | None = None

    def write(self, ops: list[dict[str, Any]]) -> tuple[fx.GraphModule, fx.GraphModule]:
        joint, runs = self.joint, [e.node for e in _computed(self.joint, ops) if e.random and not e.captures]
        recomputed = {n for n in runs if runs.count(n) > 1}
        for n in joint.primals:
            self.now[n] = self._placeholder(n)
        done: set[fx.Node] = set()
        fetches = Counter(o["storage"] for o in ops if o["op"] == "P_end")
        for o in ops:
            if o["op"] in TRANSFERS:
                fetches[o["storage"]] -= o["op"] == "P_end"
                self._transfer(o["op"], int(o["storage"][1:]), fetches[o["storage"]] == 0)
            if o["op"] != "C":
                continue
            e = joint.by_id[o["node"]]
            if e.id == BOUNDARY:
                self._cross()
            elif e.captures and e.node is not None:
                if e.node in recomputed:
                    state = _fake_bytes(e.node, torch.get_rng_state().numel(), "cpu")
                    self.now["state", e.node] = self._call(generator_state, (_device(e.node),), state)
            elif e.node is not None:
                self._run(e.node, e.node in recomputed and e.node in done)
                done.add(e.node)
        outputs = [self._value(n) if isinstance(n, fx.Node) else n for n in joint.backward_outputs]
        if self.crossed is None:
            raise AssertionError("a plan without the boundary")
        forward, made, now = self.crossed
        saved = [now[k] for k in self.saved]
        described = [*joint.forward_described, *(SavedForBackwardsAOTOutput(i) for i in range(len(saved)))]
        forward.output((*made, *saved)).meta["desc"] = described
        self.graph.output(tuple(outputs)).meta["desc"] = joint.backward_described
        for graph in (forward, self.graph):
            graph.lint()
        for n in self.graph.nodes:
            if n.op in ("call_function", "get_attr"):
                n.meta["autograd_backward"] = True
        return _make_graph_module(joint.gm, forward), _make_graph_module(joint.gm, self.graph)

    def _placeholder(self, n: fx.Node) -> fx.Node:
        made = self.graph.placeholder(n.name)
        made.meta = dict(n.meta)
        return made

    def _call(self, function: Any, args: tuple[Any, ...], value: Any, **kwargs: Any) -> fx.Node:
        made = self.graph.call_function(function, args, kwargs)
        made.meta["val"] = value
        return made

    def _cross(self) -> None:
        """Ends the forward; what is read from here on is a placeholder of the backward."""
        made = [self._value(n) if isinstance(n, fx.Node) else n for n in self.joint.forward_outputs]
        self.crossed = self.graph, made, dict(self.now)
        self.graph, self.views = fx.Graph(), {}
        for n in self.joint.tangents:
            self.now[n] = self._placeholder(n)
        self.first_tangent = self.now[self.joint.tangents[0]] if self.joint.tangents else None

    def _held(self, key: Hashable) -> fx.Node:
        """The latest copy of a value, in the graph that is being written."""
        made = self.now[key]
        return made if made.graph is self.graph else self._carry(key, made)

    def _carry(self, key: Hashable, like: fx.Node) -> fx.Node:
        if key not in self.carried:
            if self.first_tangent is None:
                made = self.graph.placeholder(like.name)
            else:
                with self.graph.inserting_before(self.first_tangent):
                    made = self.graph.placeholder(like.name)
            made.meta, made.target = dict(like.meta), made.name  # code is written with the target, which must be unique, too
            self.carried[key] = made
            self.saved.append(key)
        return self.carried[key]

    def _value(self, n: fx.Node) -> fx.Node:
        """The copy of a value that is good now, in the graph that is being written."""
        if n.op == "get_attr":
            if n not in self.views:
                self.views[n] = self.graph.node_copy(n)
            return self.views[n]
        if n in self.now:
            return self._held(n)
        if n.op == "placeholder" or n in self.made:
            raise UnsupportedError(f"the plan uses {n.name} before it is made", reason=Reason.PLAN)
        key = (n, *(id(self._value(a)) for a in n.all_input_nodes))
        if key not in self.views:  # a view, made of the latest copy of what it views
            self.views[key] = self._copied(n)
        return self.views[key]

    def _copied(self, n: fx.Node) -> fx.Node:
        unused = statistics(n) if self.crossed is not None else []  # updated when the forward has ended

        def value(a: fx.Node) -> fx.Node:
            if a not in unused:
                return self._value(a)
            like = a.meta["val"]
            return self._call(torch.zeros, (tuple(like.shape),), like, dtype=like.dtype, device=like.device)

        made = self.graph.node_copy(n, value)
        made.meta = dict(n.meta)
        if str(made.target) == "aten.mkldnn_rnn_layer.default":
            made.target = recurrent
        return made

    def _run(self, n: fx.Node, replayed: bool) -> None:
        if replayed:
            state = self._held(("state", n))
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), self._value)
            target: Any = n.target
            made = self.graph.call_function(replay, (_device(n), state, target, *args), kwargs)
            made.meta = dict(n.meta)
        else:
            made = self._copied(n)
        self.now[n] = made
        self.carried.pop(n, None)
        for g in _parts(n):
            self.now[g] = self.graph.call_function(operator.getitem, (made, g.args[1]))
            self.now[g].meta = dict(g.meta)
            self.carried.pop(g, None)


    # ---- transfers

    def _transfer(self, op: str, s: int, release: bool) -> None:
        """Writes the beginning or the end of a transfer of a storage; release: it is fetched for the last time."""
        maker, of = self.joint.makers[s], self.joint.of
        parts = [n for n in (maker, *_parts(maker)) if of.get(n) == [s] and isinstance(n.meta.get("val"), torch.Tensor)]
        if not parts:
            return
        t, size, value = parts[0].meta["val"], self.joint.storages[s].bytes, self._value(parts[0]) if op in ("O", "O_end") else None
        if op == "O":
            self.now["host", s] = self._call(self.host.send, (value,), _fake_bytes(maker, size, "cpu"))
            self.carried.pop(("host", s), None)
            return
        buffer = self._held(("host", s))
        if op == "O_end":
            self._call(self.host.sent, (buffer, value), None)
        elif op == "P":
            self.now["moving", s] = self._call(self.host.fetch, (buffer, t.device), _fake_bytes(maker, size, t.device))
            self.carried.pop(("moving", s), None)
        else:
            there = self._call(self.host.fetched, (buffer, self._held(("moving", s)), release), _fake_bytes(maker, size, t.device))
            for n in parts:
                t = n.meta["val"]
                self.now[n] = self._call(restored, (there, t.dtype, tuple(t.shape), t.stride(), t.storage_offset()), t)
                self.carried.pop(n, None)


def _parts(n: fx.Node) -> list[fx.Node]:
    return [g for g in n.users if g.target is operator.getitem]


def _fake_bytes(n: fx.Node, count: int, device: Any) -> torch.Tensor:
    """Bytes without memory, in the mode of a node's tensors."""
    mode: Any = tensors(n.meta.get("val"))[0].fake_mode  # type: ignore[attr-defined]
    with mode:
        return torch.empty(count, dtype=torch.uint8, device=device)


def _device(n: fx.Node) -> str:
    return next((str(t.device) for t in tensors(n.meta.get("val"))), "cpu")


def _computed(joint: Joint, ops: list[dict[str, Any]]) -> list[Entry]:
    return [joint.by_id[o["node"]] for o in ops if o["op"] == "C"]


def write(joint: Joint, plan: dict[str, Any], host: Host | None = None) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and backward modules of a plan.

    Args:
        joint: the joint graph.
        plan: workbench.plan/v1 for ``joint.document()``, or a schedule that :meth:`Chain.schedule` returned.
        host: where what is offloaded goes.

    Returns:
        The modules, with the calling convention that AOTAutograd expects of a partition function.

    Raises:
        UnsupportedError: the plan is for another graph.
    """
    try:
        order = _computed(joint, plan["ops"])
    except KeyError as e:
        raise UnsupportedError(f"the plan runs {e}, which this step does not have", reason=Reason.PLAN) from e
    never = len(joint.entries) - len({e.id for e in order})
    if never:
        raise UnsupportedError(f"the plan leaves out {never} operations of this step", reason=Reason.PLAN)
    return _Writer(joint, host or Host()).write(plan["ops"])
