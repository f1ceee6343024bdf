"""Forward and backward modules that follow a plan for a joint graph, operation by operation.

Both are straight-line code: an operation that a plan recomputes is called again, views are made where they are
used, and a variable is dropped after its last use, which is where a plan frees at the latest. What the backward
reads and the forward made is an output of the forward; AOTAutograd saves it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch.fx._lazy_graph_module import _make_graph_module

from .errors import Reason, UnsupportedError
from .joint import BOUNDARY, Entry, Joint, statistics
from .state import tensors


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
    """Writes the two graphs; ``now`` has the latest copy of every value, ``saved`` what crosses."""

    def __init__(self, joint: Joint):
        self.joint, self.made = joint, set(joint.makers.values())
        self.graph = fx.Graph()
        self.now: dict[fx.Node, fx.Node] = {}
        self.views: dict[Any, fx.Node] = {}
        self.states: dict[fx.Node, fx.Node] = {}
        self.crossed: tuple[fx.Graph, list[Any], dict[Any, fx.Node], dict[Any, fx.Node]] | None = None
        self.carried: dict[Any, fx.Node] = {}  # by value or (node,) for its generator's state: the placeholder in the backward
        self.saved: list[Any] = []
        self.first_tangent: fx.Node | None = None

    def write(self, order: list[Entry]) -> tuple[fx.GraphModule, fx.GraphModule]:
        joint, runs = self.joint, [e.node for e in order if e.random and not e.captures]
        again = {n for n in runs if runs.count(n) > 1}
        for n in joint.primals:
            self.now[n] = self._placeholder(n)
        done: set[fx.Node] = set()
        for e in order:
            if e.id == BOUNDARY:
                self._cross()
            elif e.captures and e.node is not None:
                if e.node in again:
                    self.states[e.node] = self._call(generator_state, (_device(e.node),), _fake_state(e.node))
            elif e.node is not None:
                self._run(e.node, e.node in again and e.node in done)
                done.add(e.node)
        outputs = [self._value(n) if isinstance(n, fx.Node) else n for n in joint.backward_outputs]
        if self.crossed is None:
            raise AssertionError("a plan without the boundary")
        forward, made, now, states = self.crossed
        saved = [states[k[0]] if isinstance(k, tuple) else now[k] for k in self.saved]
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
        self.crossed = self.graph, made, dict(self.now), dict(self.states)
        self.graph, self.views = fx.Graph(), {}
        for n in self.joint.tangents:
            self.now[n] = self._placeholder(n)
        self.first_tangent = self.now[self.joint.tangents[0]] if self.joint.tangents else None

    def _carry(self, key: Any, like: fx.Node) -> fx.Node:
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
            made = self.now[n]
            return made if made.graph is self.graph else self._carry(n, made)
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
            state = self.states[n]
            state = state if state.graph is self.graph else self._carry((n,), state)
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), self._value)
            target: Any = n.target
            made = self.graph.call_function(replay, (_device(n), state, target, *args), kwargs)
            made.meta = dict(n.meta)
        else:
            made = self._copied(n)
        parts = [g for g in n.users if g.target is operator.getitem]
        self.now[n] = made
        self.carried.pop(n, None)
        for g in parts:
            self.now[g] = self.graph.call_function(operator.getitem, (made, g.args[1]))
            self.now[g].meta = dict(g.meta)
            self.carried.pop(g, None)


def _fake_state(n: fx.Node) -> torch.Tensor:
    """A generator's state without memory, in the mode of a node's tensors."""
    mode: Any = tensors(n.meta.get("val"))[0].fake_mode  # type: ignore[attr-defined]
    with mode:
        return torch.empty(torch.get_rng_state().numel(), dtype=torch.uint8)


def _device(n: fx.Node) -> str:
    return next((str(t.device) for t in tensors(n.meta.get("val"))), "cpu")


def write(joint: Joint, plan: dict[str, Any]) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and backward modules of a plan.

    Args:
        joint: the joint graph.
        plan: workbench.plan/v1 for ``joint.document()``.

    Returns:
        The modules, with the calling convention that AOTAutograd expects of a partition function.

    Raises:
        UnsupportedError: the plan is for another graph.
    """
    try:
        order = [joint.by_id[o["node"]] for o in plan["ops"] if o["op"] == "C"]
    except KeyError as e:
        raise UnsupportedError(f"the plan runs {e}, which this step does not have", reason=Reason.PLAN) from e
    never = len(joint.entries) - len({e.id for e in order})
    if never:
        raise UnsupportedError(f"the plan leaves out {never} operations of this step", reason=Reason.PLAN)
    return _Writer(joint).write(order)
