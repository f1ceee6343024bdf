"""Training steps as straight-line code, from a graph and a plan.

Looking up every operation of a plan while it runs costs time; so the plan is written out as a Python
function once: one line per call, views as constants, ``del`` where the plan frees.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn

from . import memory
from .errors import Refused
from .graph import RUNNING, Call, Form, Graph, Node, Ref, lazy, statistics, trace
from .link import Link
from .measure import measure, need_form, roofline, view
from .plan import Event, Op, Plan, events, read_plan
from .profiler import describe_device
from .state import Generators


PROBLEMS = ("remat", "remat-offload")


CHECKS = "need_form"  # what lines begin with that only the first step has


def _function(lines: Iterable[str]) -> str:
    return "def step(given):\n  " + "\n  ".join(lines) + "\n"


class TrainStep:
    """A training step by a plan: called with inputs and targets it returns the loss and the gradients by name.

    Buffers of the network are updated in place; parameters and their .grad are not touched, unless an
    optimizer was traced: then parameters are updated and no gradients are returned. ``code`` is what
    runs, ``link`` the way to the host, if the plan sends anything there.
    """

    def __init__(self, graph: Graph, lines: Sequence[str], constants: Dict[str, Any]):
        self.graph, self.constants = graph, constants
        self.link: Optional[Link] = constants.get("link")
        self.code = _function(line for line in lines if not line.startswith(CHECKS))
        self._run = self._first = self._made(_function(lines))

    def _made(self, code: str) -> Callable[..., Any]:
        names = dict(self.constants)
        exec(compile(code, "<plan>", "exec"), names)  # the code is ours; what the plan says are numbers in it
        return names["step"]

    def __call__(self, *given: Any) -> Tuple[torch.Tensor, Dict[str, Optional[torch.Tensor]]]:
        expected = self.graph.example
        if len(given) != len(expected) or not all(map(_fits, expected, given)):
            raise Refused(f"the step is for {_listed(expected)}, got {_listed(map(Form.of, given))}: trace and plan again")
        if any(isinstance(g, torch.Tensor) and g.requires_grad for g in given):
            raise Refused("an input needs a gradient, and a step returns those of parameters only: detach it")
        self.graph.watch.check()
        with torch.no_grad():
            loss, gradients = self._run([expected[k].laid(given[k]) for k in self.graph.given.values()])
        if self._run is self._first:  # which looks at everything that is made
            self._run = self._made(self.code)
        return loss, dict(zip(self.graph.gradients, gradients))


def _fits(expected: Any, given: Any) -> bool:
    """Whether a tensor has the form that is expected, or what is no tensor is the same."""
    if isinstance(expected, Form):
        return expected.fits(given)
    return expected is given or type(expected) is type(given) and bool(expected == given)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def compile_plan(graph: Graph, plan: Any) -> TrainStep:
    """The training step of a graph that follows a plan (a file, its JSON, or a Plan) of remat or remat-offload.

    Transfers are done as :mod:`~workbench_torch.link` says: on CUDA on a stream for each direction, begun and
    waited for where the plan's instants put them among the computations.

    Raises Refused where the plan breaks a rule of graph/v2.
    """
    plan = read_plan(plan)
    writer = _Writer(graph, check(graph, plan))
    return writer.write(plan)


def check(graph: Graph, plan: Plan) -> Set[int]:
    """Refuses plans that cannot be carried out; the places of nodes that run more than once."""
    if plan.problem not in PROBLEMS:
        raise Refused(f"plans of {plan.problem or 'no problem'} are not run on graphs, those of {' and '.join(PROBLEMS)} are")
    state = _Rules(graph)
    for e in events(plan):
        state.carry_out(e)
    state.end()
    return state.again


class _Rules:
    """The rules of graph/v2, as a plan goes on: what is where, and what has run."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.ids = {f"s{s}": s for s in graph.storages}
        self.nodes = {f"n{k}": k for k in range(len(graph.nodes))}
        self.here = {s for s, x in graph.storages.items() if x.resident}
        self.host: Set[int] = set()
        self.travels: Set[int] = set()
        self.ran: Set[int] = set()
        self.again: Set[int] = set()
        self.drawn: List[int] = []
        self.changes: Dict[int, List[int]] = {}  # the nodes that change a resident storage
        for k, n in enumerate(graph.nodes):
            for s in n.mutates:
                self.changes.setdefault(s, []).append(k)

    def carry_out(self, e: Event) -> None:
        o = e.op
        if o.op == "C" and o.node in self.nodes:
            self._run(o, self.nodes[o.node])
            return
        s = self.ids.get(o.storage)
        if s is None or o.op not in ("D", "O", "P") or self.graph.storages[s].resident:
            raise self._broken(f"{o} frees, sends or runs what is not there; is it a plan for this graph?")
        if e.what == "finish":
            self.travels.discard(s)
            (self.host if o.op == "O" else self.here).add(s)
            return
        if s in self.travels or (s in self.here) == (o.op == "P") or o.op == "P" and s not in self.host:
            what = {"D": "frees", "O": "sends", "P": "fetches"}[o.op]
            raise self._broken(f"{o} {what} what is not there, is there already, or is on its way")
        if o.op == "D":
            self.here.discard(s)
        else:
            self.travels.add(s)

    def _run(self, o: Op, k: int) -> None:
        n = self.graph.nodes[k]
        missing = [s for s in n.reads() if s not in self.here]
        if missing:
            raise self._broken(f"{o} ({n.operation}) needs s{missing[0]}, which is not there")
        if self.travels & set(n.writes()):
            raise self._broken(f"{o} ({n.operation}) makes what is on its way")
        if k in self.ran:
            if not n.recompute or set(n.mutates) & set(n.reads()):
                raise self._broken(f"{o} ({n.operation}) may run once only")
            self.again.add(k)
        elif n.random:
            self.drawn.append(k)
        for s in (*n.reads(), *(n.mutates if k not in self.ran else ())):
            if any((m in self.ran) != (m < k) for m in self.changes.get(s, ()) if m != k):
                raise self._broken(f"{o} ({n.operation}) uses s{s} before or after it has been changed by another node than in the step")
        self.ran.add(k)
        self.here.update(n.writes())

    def end(self) -> None:
        results = [s for s, x in self.graph.storages.items() if x.result and s not in self.here]
        never = len(self.graph.nodes) - len(self.ran)
        if never:
            raise self._broken(f"{never} nodes never run")
        if results:
            raise self._broken(f"s{results[0]}, a result, is not there in the end")
        if self.drawn != sorted(self.drawn):
            raise self._broken("random numbers are drawn in another order")

    @staticmethod
    def _broken(why: str) -> Refused:
        return Refused(f"the plan breaks a rule: {why}")


class _Writer:
    """Writes the code of a step."""

    def __init__(self, graph: Graph, again: Set[int]):
        self.graph, self.again = graph, again
        self.constants: Dict[str, Any] = {"view": view, CHECKS: need_form}
        self.names: Dict[Any, str] = {}
        self.whole: Dict[int, Ref] = {}  # how the variable of a storage views it
        self.lines: List[str] = []

    def constant(self, value: Any, prefix: str) -> str:
        """The name of a constant; equal ones of a kind share it."""
        at = (prefix, id(value) if prefix in "tf" else repr(value))
        if at not in self.names:
            self.names[at] = f"{prefix}{len(self.names)}"
            self.constants[self.names[at]] = value
        return self.names[at]

    def write(self, plan: Plan) -> TrainStep:
        graph = self.graph
        nodes = {f"n{k}": k for k in range(len(graph.nodes))}
        for s, t in graph.fixed.items():
            if s in graph.storages:
                self.constants[f"s{s}"] = t
                self.whole[s] = Ref(s, tuple(t.shape), tuple(t.stride()), t.storage_offset(), t.dtype, lazy(t))
        if graph.given:
            self.lines.append(f"{', '.join(f's{s}' for s in graph.given)}, = given")
        ran: Set[int] = set()
        for e in events(plan):
            if e.op.op == "D":
                self.lines.append(f"del {e.op.storage}")
            elif e.op.op == "C":
                self.node(nodes[e.op.node], nodes[e.op.node] in ran)
                ran.add(nodes[e.op.node])
            else:
                self.transfer(e)
        gradients = ", ".join("None" if r is None else self.argument(r) for r in graph.gradients.values())
        self.lines.append(f"return {self.argument(graph.loss)}, [{gradients}]")
        return TrainStep(graph, self.lines, self.constants)

    def node(self, k: int, again: bool) -> None:
        n = self.graph.nodes[k]
        drawn = n.random and k in self.again
        if drawn:
            for name in ("now", f"g{k}"):  # made once: a state takes 5,056 bytes on a CPU, which no plan knows of
                self.constants.setdefault(name, Generators())
            self.lines.append(f"now.take(); g{k}.restore()" if again else f"g{k}.take()")
        for c in n.calls:
            self.call(n, c, again)
        if drawn and again:
            self.lines.append("now.restore()")

    def transfer(self, e: Event) -> None:
        """A transfer begins, or is waited for. What comes back is bytes, and seen as what it was by views."""
        self.constants.setdefault("link", Link(self.graph.device))
        name = e.op.storage
        number, sent, fetched = int(name[1:]), f"sent_{name}", f"fetched_{name}"
        if e.what == "finish":
            self.lines.append(f"link.wait({sent if e.op.op == 'O' else fetched})")
        elif e.op.op == "O":
            self.lines.append(f"{sent} = link.send_storage({name!r}, {name})")
        else:
            size = self.graph.storages[number].bytes
            self.lines.append(f"{name}, {fetched} = link.fetch_storage({name!r}, {size}, {sent})")
            self.whole[number] = Ref(number, (size,), (1,), 0, torch.uint8)

    def call(self, n: Node, c: Call, again: bool) -> None:
        """One line: the call, and names for what it makes. Of a call that runs again, statistics are left alone."""
        text = [self.argument(a) for a in c.args]
        if again and statistics(c):
            for k in RUNNING:
                text[k] = f"{text[k]}.clone()" if c.function._schema.arguments[k].alias_info else "None"
        text += [f"{name}={self.argument(a)}" for name, a in c.kwargs.items()]
        run = f"{self.constant(c.function, 'f')}({', '.join(text)})"
        made = [f"s{r.storage}" if r is not None else "_" for r in c.results]
        for r in c.results:
            if r is not None:
                self.whole[r.storage] = r
        if not any(c.results):
            self.lines.append(run)
        elif len(made) == 1:
            self.lines.append(f"{made[0]} = {run}")
        else:
            self.lines.append(f"{', '.join(made)} = {run}")
        for r in c.results:
            if r is not None:
                self.lines.append(f"{CHECKS}(s{r.storage}, {self.constant(r, 'r')}, {str(c.function)!r})")

    def argument(self, a: Any) -> str:
        if isinstance(a, Ref):
            whole = self.whole.get(a.storage)
            if a == whole:
                return f"s{a.storage}"
            if whole is not None and whole.dtype == a.dtype and whole.lazy == a.lazy:
                return f"s{a.storage}.as_strided({a.sizes}, {a.strides}, {a.offset})"
            return f"view(s{a.storage}, {self.constant(a, 'r')})"
        if isinstance(a, (list, tuple)):
            inner = ", ".join(map(self.argument, a))
            return f"[{inner}]" if isinstance(a, list) else f"({inner}{',' if len(a) == 1 else ''})"
        if a is None or isinstance(a, (bool, int, str)):
            return repr(a)
        return self.constant(a, "c" if isinstance(a, float) else "t")


def document(graph: Graph, source: Dict[str, Any]) -> Dict[str, Any]:
    """The JSON of workbench.graph/v2."""
    storages = []
    for s, x in graph.storages.items():
        entry: Dict[str, Any] = {"id": f"s{s}", "bytes": x.bytes}
        entry.update({"kind": x.kind} if x.kind != "value" else {})
        entry.update({"resident": True} if x.resident else {})
        entry.update({"result": True} if x.result else {})
        entry.update({"x-name": x.name} if x.name else {})
        storages.append(entry)
    nodes = []
    for k, n in enumerate(graph.nodes):
        entry = {"id": f"n{k}", "operation": n.operation, "phase": n.phase, "time": n.time}
        entry["reads"] = [f"s{s}" for s in n.reads()]
        entry["writes"] = [f"s{s}" for s in n.writes()]
        entry.update({"workspace": n.workspace} if n.workspace else {})
        entry.update({"mutates": [f"s{s}" for s in n.mutates]} if n.mutates else {})
        entry.update({"recompute": False} if not n.recompute else {})
        entry.update({"random": True} if n.random else {})
        entry.update({"layer": n.layer} if n.layer else {})
        entry.update({"x-spread": n.spread} if n.spread else {})
        nodes.append(entry)
    top = {"format": "workbench.graph/v2", "name": graph.name, "samples": graph.samples}
    return {**top, "storages": storages, "nodes": nodes, "source": source}


def profile_graph(
    model: nn.Module,
    inputs: Any,
    loss: Optional[Callable[..., Any]] = None,
    targets: Sequence[Any] = (),
    *,
    name: str = "",
    repeats: int = 5,
    estimate: str = "",
    fake: bool = True,
    optimizer: Optional[torch.optim.Optimizer] = None,
) -> Tuple[Dict[str, Any], Graph]:
    """Profiles a network as the graph of its training step: the JSON of workbench.graph/v2, and the graph.

    inputs, loss, targets, fake, optimizer: as for :func:`~workbench_torch.graph.trace`.
    repeats: runs of each operation for its time. estimate: a device for
    :func:`~workbench_torch.measure.roofline`, which is then asked for times instead; workspaces are 0.
    """
    graph = trace(model, inputs, loss, targets, fake=fake, optimizer=optimizer)
    graph.name = name or type(model).__name__
    if estimate:
        roofline(graph, estimate)
        counted = "nothing: workspaces are left 0"
    else:
        counted = measure(graph, repeats=repeats)
    source = {
        "program": "workbench_torch",
        "torch": torch.__version__,
        **describe_device(graph.device),
        "times": f"roofline of {estimate}" if estimate else "each operation alone",
        "dtype": str(next((p.dtype for p in model.parameters()), torch.get_default_dtype())),
        "inputs": [list(e.sizes) for e in graph.example if isinstance(e, Form)],
        "memory_counted_by": counted,
        "parameters": memory.sizes(model.parameters()),
        "gradients": memory.sizes(p for p in model.parameters() if p.requires_grad),
        "buffers": memory.sizes(model.buffers()),
    }
    return document(graph, source), graph
