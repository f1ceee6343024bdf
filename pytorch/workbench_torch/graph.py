"""The whole training step of a network as a graph of operations (workbench.graph/v2).

The step is run once on fake tensors, which have shapes and no memory, and every operation of ATen that
is dispatched is noted, forward and backward alike. What is noted is then put into the form of the file:
views are no nodes; operations in place become part of the node that made their storage or, where
something else has read it, make a new one; every storage that is not resident is written once.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import memory
from .errors import Refused
from .optimizer import Update
from .state import OtherGenerators, State, tensors
from .watch import Attributes, Watch, refuse_wrapped, tensor_attributes

aten = torch.ops.aten
SEEDED: Any = getattr(torch, "Tag").nondeterministic_seeded  # noqa: B009 # what mypy knows of torch has no tags

# Update running statistics, which they do not read while training; the number is that of their argument `training`.
# torch 2 says in the schema that it writes them, the others take None for them.
NORMALIZATIONS = {
    "aten::native_batch_norm": 5,
    "aten::cudnn_batch_norm": 5,
    "aten::miopen_batch_norm": 5,
    "aten::_native_batch_norm_legit": 5,
}
RUNNING = (3, 4)  # their arguments for the statistics
RANDOM = frozenset(
    "bernoulli bernoulli_ native_dropout rand rand_like randn randn_like randint randint_like random_ normal normal_ uniform_ "
    "exponential_ geometric_ cauchy_ log_normal_ multinomial poisson binomial rrelu_with_noise rrelu_with_noise_ randperm "
    "_fused_dropout _standard_gamma".split()
)

WITH_GRADIENTS = frozenset(["aten::mkldnn_rnn_layer"])  # of torch 2: its workspace is empty without


@dataclass(frozen=True)
class Ref:
    """A tensor: a view of a storage. Strides and offset are in elements."""

    storage: int
    sizes: Tuple[int, ...]
    strides: Tuple[int, ...]
    offset: int
    dtype: torch.dtype
    lazy: Tuple[bool, bool] = (False, False)  # still to be conjugated, still to be negated: views of complex numbers


@dataclass
class Storage:
    """A piece of memory that is made, used and freed as a whole."""

    bytes: int
    kind: str = "value"
    resident: bool = False
    result: bool = False
    name: str = ""
    device: torch.device = torch.device("cpu")


@dataclass
class Call:
    """One operation: what it is called with, Refs in the places of tensors, and the tensors that it makes."""

    function: Any
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    results: List[Optional[Ref]]  # None: not a new storage

    def refs(self) -> List[Ref]:
        return [r for r in pytree.tree_flatten((self.args, self.kwargs))[0] if isinstance(r, Ref)]


@dataclass
class Node:
    """Calls that run together."""

    calls: List[Call]
    phase: str
    layer: str = ""
    mutates: List[int] = field(default_factory=list)
    random: bool = False
    recompute: bool = True
    time: float = 0.0
    workspace: int = 0
    spread: float = 0.0

    def writes(self) -> List[int]:
        return list(dict.fromkeys(r.storage for c in self.calls for r in c.results if r is not None))

    def reads(self) -> List[int]:
        made, hidden = set(self.writes()), {s for c in self.calls for s in statistics(c)}
        read = dict.fromkeys(r.storage for c in self.calls for r in c.refs() if r.storage not in made)
        return [s for s in read if s not in hidden]

    @property
    def operation(self) -> str:
        return "+".join("workbench.copy" if c.function is copy_storage else str(c.function) for c in self.calls)


@dataclass
class Graph:
    """A training step: what is resident comes from the network and its batch, results are returned."""

    storages: Dict[int, Storage]
    nodes: List[Node]
    fixed: Dict[int, torch.Tensor]  # parameters, buffers and constants, by storage
    given: Dict[int, int]  # which of the inputs and targets, by storage
    loss: Ref
    gradients: Dict[str, Optional[Ref]]  # by name of the parameter; None where it has none
    example: List[Any]  # inputs and targets: the Form of tensors, the others as they are
    watch: Watch
    device: torch.device
    samples: int
    name: str = ""


@dataclass(frozen=True)
class Form:
    """What a tensor that is given to a step looks like. Strides are in elements."""

    sizes: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(value: Any) -> Any:
        return Form(tuple(value.shape), value.stride(), value.dtype, value.device) if isinstance(value, torch.Tensor) else value

    def fits(self, value: Any) -> bool:
        """Whether a value is a tensor of this form but for its strides."""
        return isinstance(value, torch.Tensor) and (tuple(value.shape), value.dtype, value.device) == (self.sizes, self.dtype, self.device)

    def laid(self, t: torch.Tensor) -> torch.Tensor:
        """The tensor with the strides of this form, at the start of its storage: itself, or a copy."""
        if t.stride() == self.strides and not t.storage_offset() and lazy(t) == (False, False):
            return t
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=self.device).copy_(t)

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.sizes)) or 'scalar'} {self.dtype} on {self.device}"


class WithGradients:
    """An operation that leaves out what its backward needs where gradients are off, whatever its arguments say."""

    def __init__(self, function: Any):
        self.function, self._schema = function, function._schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(lambda a: a.detach() if isinstance(a, torch.Tensor) else a, (args, kwargs))
        with torch.enable_grad():
            return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return str(self.function)


def schema_name(function: Any) -> str:
    """The name of an operation of torch, as aten::mm; of ours nothing."""
    return function._schema.name if hasattr(function, "_schema") else ""


def draws(function: Any) -> bool:
    """Whether an operation draws random numbers; torch 2 says it of all, 1.13 of some."""
    tags: Sequence[Any] = getattr(function, "tags", ())
    return schema_name(function).rpartition("::")[2] in RANDOM or SEEDED in tags


def statistics(call: Call) -> List[int]:
    """The running statistics that a call updates beside its results."""
    training = NORMALIZATIONS.get(schema_name(call.function))
    if training is None or not call.args[training]:
        return []
    return [call.args[k].storage for k in RUNNING if isinstance(call.args[k], Ref)]


CHECKPOINTS = (
    "the step sets the state of torch's random numbers (as torch.utils.checkpoint does), which a graph does not hold: "
    "take checkpoints off, what runs again is the plan's to say"
)
READS_NUMBERS = (
    "the step reads the numbers of a tensor (.item(), or a tensor as a condition): it has no graph of its own; keep the number "
    "a tensor (torch.where, a product), or plan the network as a chain of callables"
)


# ---- noting -----------------------------------------------------------------


@dataclass
class _Event:
    function: Any
    args: Any
    kwargs: Any
    outputs: List[Optional[torch.Tensor]]
    written: List[torch.Tensor]
    phase: str
    layer: str

    def signature(self) -> str:
        """What is called, with the shapes of tensors."""
        shapes = pytree.tree_map(lambda a: (a.shape, a.dtype) if isinstance(a, torch.Tensor) else a, (self.args, self.kwargs))
        return f"{self.function} {shapes}"


class _Recorder(TorchDispatchMode):
    """Notes every operation, and keeps all tensors so that storages stay apart."""

    def __init__(self, fake: bool) -> None:
        super().__init__()
        self.fake = fake
        self.events: List[_Event] = []
        self.phase, self.layers = "forward", [""]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        name = func._schema.name
        if name == "aten::native_layer_norm" and self.fake:  # of torch 1.13 it has other strides than the real one
            made = (made[0].contiguous(), *made[1:])
        if name == "aten::_local_scalar_dense":
            raise Refused(READS_NUMBERS)
        names = [a.name for a in func._schema.arguments]
        bound = {**dict(zip(names, args)), **kwargs}
        written = [
            t for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write for t in tensors(bound.get(a.name))
        ]
        outputs = [t if isinstance(t, torch.Tensor) else None for t in pytree.tree_flatten(made)[0]]
        self.events.append(_Event(func, args, kwargs, outputs, written, self.phase, self.layers[-1]))
        return made

    def note(self, function: Any, args: List[torch.Tensor], written: List[torch.Tensor]) -> None:
        """Notes an operation that is none of ATen, and makes nothing."""
        self.events.append(_Event(function, tuple(args), {}, [], written, self.phase, self.layers[-1]))


@contextmanager
def _layers(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    """Tells the recorder in which block of the network it is: the members of lists and of Sequentials."""
    handles = []
    for path, m in model.named_modules():
        if path.rpartition(".")[2].isdigit():
            handles.append(m.register_forward_pre_hook(lambda m, i, path=path: recorder.layers.append(recorder.layers[-1] or path)))
            handles.append(m.register_forward_hook(lambda m, i, o: recorder.layers.pop() and None))
    try:
        yield
    finally:
        for h in handles:
            h.remove()


@contextmanager
def _replaced(model: nn.Module, put: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[Dict[int, torch.Tensor]]:
    """Other tensors in the places of parameters and buffers, shared where these are shared."""
    owners: List[Any] = [of for m in model.modules() for of in (m._parameters, m._buffers)]
    places: List[Tuple[Any, Any]] = [(of, k) for of in owners for k, t in of.items() if t is not None]
    places += [(of, k) for of, k, _ in tensor_attributes(model)]
    for m in model.modules():  # recurrent layers keep their parameters in a list, too
        for of in vars(m).values():
            if isinstance(of, list):
                places += [(of, k) for k, t in enumerate(of) if isinstance(t, nn.Parameter)]
    before = [of[k] for of, k in places]
    others = {id(t): put(t) for t in before}
    try:
        for (of, k), t in zip(places, before):
            of[k] = others[id(t)]
        yield others
    finally:
        for (of, k), t in zip(places, before):
            of[k] = t


def trace(
    model: nn.Module,
    inputs: Any,
    loss: Optional[Callable[..., Any]] = None,
    targets: Sequence[Any] = (),
    *,
    fake: bool = True,
    optimizer: Optional[torch.optim.Optimizer] = None,
) -> Graph:
    """The graph of one training step: forward, loss, and the gradients of all parameters that need them.

    inputs, loss, targets: as for :func:`~workbench_torch.profiler.profile`.
    fake: trace without memory, on fake tensors; else on the real ones, all of which stay alive meanwhile.
    optimizer: of the model's parameters; its step becomes part of the graph, and each gradient is
        freed when its parameter has been updated. See :mod:`~workbench_torch.optimizer`.

    Times and workspaces are 0: :func:`~workbench_torch.measure.measure` fills them in.
    """
    if not isinstance(model, nn.Module):
        raise Refused(f"the network is of type {type(model).__name__}: graphs are traced of an nn.Module")
    refuse_wrapped(model)
    given = [*(inputs if isinstance(inputs, tuple) else (inputs,)), *targets]
    _refuse_early(model, given)
    # Each in memory of its own: views of one tensor (x[:, :-1] and x[:, 1:]), or one given twice, are others in the next step.
    given = [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in given]
    count = len(given) - len(targets)
    parameters, buffers, kept_beside = list(model.named_parameters()), list(model.named_buffers()), tensor_attributes(model)
    put, modes = _fake() if fake else (_alike, [])
    recorder, state, others, attributes = _Recorder(fake), State(model), OtherGenerators(), Attributes(model.modules())
    update = None if optimizer is None else Update(optimizer, parameters)
    try:
        with _replaced(model, put) as replaced, _layers(model, recorder), _generators_stay():
            keys = {k: memory.key(t) for k, t in replaced.items()}
            batch = [put(t) if isinstance(t, torch.Tensor) else t for t in given]
            learned = {name: replaced[id(p)] for name, p in parameters if p.requires_grad}
            with ExitStack() as stack:
                for mode in (*modes, recorder):
                    stack.enter_context(mode)
                output = model(*batch[:count])
                recorder.phase = "loss"
                value = output if loss is None else loss(output, *batch[count:])
                if not isinstance(value, torch.Tensor):
                    raise Refused(
                        f"the loss is of type {type(value).__name__}, it must be a tensor: give trace a loss of what the "
                        "network returns"
                    )
                recorder.phase = "backward"
                gradients = torch.autograd.grad(value, list(learned.values()), allow_unused=True)
                if update is not None:
                    recorder.phase = "optimizer"
                    stand_ins = {name: replaced[id(p)] for name, p in parameters}
                    kept = update.run(stand_ins, dict(zip(learned, gradients)), put, recorder.note)
            _refuse_replaced(attributes, replaced, keys)
            rewritten = [t for of, k, t in kept_beside if of.get(k) is not replaced[id(t)]]
            if attributes.touched():
                _refuse_other(modes, model, batch[:count], [e for e in recorder.events if e.phase == "forward"])
    except Refused:
        raise
    except Exception as error:  # fake tensors refuse what they do not know, and the user's code may raise anything
        if "_local_scalar_dense" in str(error):  # as torch 2 says it
            raise Refused(READS_NUMBERS) from error
        if "heckpoint" in str(error):  # autograd makes a RuntimeError of ours
            raise Refused(CHECKPOINTS) from error
        how = "; try with fake=False (--trace real)" if fake else ""
        raise Refused(f"the step of {type(model).__name__} cannot be traced: {type(error).__name__}: {error}{how}") from error
    finally:
        drawn = others.moved()
        others.restore()
        attributes.restore()
        state.restore()
    if drawn:
        raise Refused(
            "the step draws from Python's or NumPy's generator of random numbers: a graph would hold one draw for ever; "
            "draw with torch"
        )
    builder = _Builder(Watch(model, optimizer))
    for name, p in parameters:
        builder.resident(replaced[id(p)], "parameter", name, p.detach())
    for name, b in buffers:
        builder.resident(replaced[id(b)], "buffer", name, b)
    for _, name, t in kept_beside:
        builder.resident(replaced[id(t)], "buffer", name, t)
    if update is not None:
        for name, (stand_in, real) in kept.items():
            builder.resident(stand_in, "optimizer", name, real)
    for k, (t, g) in enumerate(zip(batch, given)):
        if isinstance(t, torch.Tensor):
            builder.resident(t, "input", f"input {k}" if k < count else f"target {k - count}", g, k)
    for e in recorder.events:
        builder.add(e)
    builder.refuse_carried(rewritten)
    if update is None:
        return builder.finish(value, dict(zip(learned, gradients)), given)
    for gradient in gradients:
        if gradient is not None:
            builder.storages[builder.ref(gradient).storage].kind = "gradient"
    return builder.finish(value, {}, given)


def _refuse_replaced(attributes: Attributes, stand_ins: Dict[int, torch.Tensor], keys: Dict[int, int]) -> None:
    """Refuses a step that puts other tensors in the places of parameters and buffers, or other memory behind them."""
    for of, before in attributes.tables:
        for k, t in before.items():
            if t is not None and (of.get(k) is not stand_ins[id(t)] or memory.key(of[k]) != keys[id(t)]):
                raise Refused(
                    f"the step replaces {k} of a module by another tensor (self.{k} = …, .data = …): write into it "
                    f"(self.{k}.copy_(…))"
                )


def _refuse_other(modes: List[Any], model: nn.Module, inputs: List[Any], first: List["_Event"]) -> None:
    """Refuses a step that changes attributes so that the one after it is another; what is made once (a cache) is right."""
    before, recorder = Attributes(model.modules()), _Recorder(fake=bool(modes))
    with ExitStack() as stack:
        for mode in (*modes, recorder):
            stack.enter_context(mode)
        model(*inputs)
    changed = before.changed(of_tensors=False)
    if changed:
        raise Refused(
            f"the step changes {', '.join(changed)}, which a graph holds as it was: keep it in a buffer and compute with "
            "that, or plan a chain"
        )
    then, now = ([e.signature() for e in of if any(t is not None for t in e.outputs)] for of in (first, recorder.events))
    if now != then:
        raise Refused(
            "a second forward does other operations than the first, as modules keep tensors in attributes: run the network once before it "
            "is traced if they are caches; what goes from step to step must be a buffer"
        )


@contextmanager
def _generators_stay() -> Iterator[None]:
    """Refuses steps that put back the state of generators, as checkpoints do: a graph draws every number anew."""
    def refuse(*state: Any) -> Any:
        raise Refused(CHECKPOINTS)

    places = [(torch, "set_rng_state"), (torch, "manual_seed"), (torch.cuda, "set_rng_state")]
    before = [(of, name, getattr(of, name)) for of, name in places]
    for of, name in places:
        setattr(of, name, refuse)
    try:
        yield
    finally:
        for of, name, function in before:
            setattr(of, name, function)


def _refuse_early(model: nn.Module, given: Sequence[Any]) -> None:
    """Refuses what a trace would pass over in silence."""
    for path, m in model.named_modules():
        if isinstance(m, torch.jit.ScriptModule):
            raise Refused(
                f"{path or 'the network'} is a {type(m).__name__} of torch.jit, whose parameters a trace cannot follow: give "
                "the module that it was made of"
            )
    if any(tensors(v) and not isinstance(v, torch.Tensor) for v in given):
        raise Refused(
            "an input or a target has tensors inside (a dict, a list): wrap the network in a module that takes each as an "
            "argument"
        )
    if any(isinstance(v, torch.Tensor) and v.requires_grad for v in given):
        raise Refused(
            "an input needs a gradient, and a step returns those of parameters only: detach it, or make it a parameter of "
            "the network"
        )
    if any(p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None) for p in model.parameters()):
        raise Refused(
            "a parameter has a hook on its gradient, which a graph does not know: take it off, and change the gradients "
            "that the step returns"
        )


def _fake() -> Tuple[Callable[[torch.Tensor], torch.Tensor], List[Any]]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    return mode.from_tensor, [mode]


def _alike(t: torch.Tensor) -> torch.Tensor:
    """A copy, so that a traced step changes nothing."""
    copy = t.detach().clone()
    return nn.Parameter(copy, t.requires_grad) if isinstance(t, nn.Parameter) else copy


# ---- building ---------------------------------------------------------------


class _Builder:
    """Makes nodes of events. Storages of the trace have versions: what is written anew is a storage of its own."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.storages: Dict[int, Storage] = {}
        self.nodes: List[Node] = []
        self.fixed: Dict[int, torch.Tensor] = {}
        self.given: Dict[int, int] = {}
        self.now: Dict[int, int] = {}  # key of a storage of the trace: its storage in the graph
        self.maker: Dict[int, Node] = {}
        self.read: Set[int] = set()  # storages that something but their maker has read
        self.alive: List[Any] = []  # keys are good while their storages live

    def _new(self, t: torch.Tensor, **what: Any) -> int:
        _need_dense(t)
        number = len(self.storages)
        self.storages[number] = Storage(memory.storage(t).nbytes(), device=t.device, **what)
        self.now[memory.key(t)] = number
        self.alive.append(t)
        return number

    def resident(self, t: torch.Tensor, kind: str, name: str, real: torch.Tensor, given: Optional[int] = None) -> None:
        _need_dense(t)
        if memory.key(t) in self.now:
            return
        number = self._new(t, kind=kind, resident=True, name=name)
        if given is None:
            self.fixed[number] = real
        else:
            self.given[number] = given

    def ref(self, t: torch.Tensor) -> Ref:
        _need_dense(t)
        if memory.key(t) not in self.now:
            if type(t) is not torch.Tensor:
                raise Refused("the step uses a tensor that it does not make and that is no parameter, buffer or input: give it as one")
            self.fixed[self._new(t, kind="buffer", resident=True, name="constant")] = t
        return Ref(self.now[memory.key(t)], tuple(t.shape), tuple(t.stride()), t.storage_offset(), t.dtype, lazy(t))

    def add(self, e: _Event) -> None:
        """Turns an event into a node, into a part of one, or into nothing."""
        args, kwargs = (pytree.tree_map(lambda a: self.ref(a) if isinstance(a, torch.Tensor) else a, x) for x in (e.args, e.kwargs))
        for t in e.outputs:
            _need_dense(t)
        written = [self.ref(t).storage for t in e.written]
        fresh = [t is not None and memory.key(t) not in self.now for t in e.outputs]
        if not written and not any(fresh):
            return  # a view
        results: List[Optional[Ref]] = []
        for t, new in zip(e.outputs, fresh):
            if new and t is not None and memory.key(t) not in self.now:
                self._new(t)
            results.append(self.ref(t) if new and t is not None else None)
        function = WithGradients(e.function) if schema_name(e.function) in WITH_GRADIENTS else e.function
        call = Call(function, args, kwargs, results)
        if kwargs.get("generator") is not None:
            raise Refused(
                f"{schema_name(function)} draws from a generator of its own, whose state no plan puts back: use torch's "
                "default one"
            )
        node = Node([call], e.phase, e.layer, random=draws(e.function))
        node.mutates = statistics(call)
        for s in dict.fromkeys(written):
            if s in node.mutates:
                continue
            if self.storages[s].resident:
                node.mutates.append(s)
                node.recompute = not node.writes()  # it would see what it has changed
            else:
                node = self._in_place(node, s)
        self.read.update(node.reads())
        self.nodes.append(node)
        for s in node.writes():
            self.maker[s] = node

    def refuse_carried(self, rewritten: Sequence[torch.Tensor]) -> None:
        """Refuses steps that read an attribute and put another tensor in its place, for the next step to read."""
        of = {id(t): s for s, t in self.fixed.items()}
        for s in (of[id(t)] for t in rewritten if id(t) in of):
            if any(s in n.reads() for n in self.nodes):
                raise Refused(
                    f"the step reads the attribute {self.storages[s].name} and replaces it: make it a buffer and write into "
                    "it (copy_)"
                )

    def _in_place(self, node: Node, s: int) -> Node:
        """A node that changes storage s: together with the node that made s, or on a copy of s."""
        maker = self.maker[s]
        later = self.nodes[self.nodes.index(maker) + 1 :]
        touched = {m for n in later for m in n.mutates}
        alone = not self.read & set(maker.writes())
        if alone and not (maker.random and any(n.random for n in later)) and not touched & {*maker.reads(), *maker.mutates}:
            self.nodes.remove(maker)
            return Node(maker.calls + node.calls, node.phase, maker.layer or node.layer, maker.mutates + node.mutates,
                        maker.random or node.random, maker.recompute and node.recompute)  # fmt: skip
        copy = len(self.storages)
        self.storages[copy] = Storage(self.storages[s].bytes, device=self.storages[s].device)
        key = next(k for k, number in self.now.items() if number == s)
        self.now[key] = copy
        whole = next(r for c in maker.calls for r in c.results if r is not None and r.storage == s)
        first = Call(copy_storage, (whole,), {}, [Ref(copy, whole.sizes, whole.strides, whole.offset, whole.dtype)])

        def moved(a: Any) -> Any:
            return Ref(copy, *tuple(vars(a).values())[1:]) if isinstance(a, Ref) and a.storage == s else a

        last = node.calls[-1]
        args, kwargs = pytree.tree_map(moved, last.args), pytree.tree_map(moved, last.kwargs)
        node.calls[-1:] = [first, Call(last.function, args, kwargs, last.results)]
        return node

    def finish(self, loss: torch.Tensor, gradients: Dict[str, Optional[torch.Tensor]], given: Sequence[Any]) -> Graph:
        refs = {name: None if g is None else self.ref(g) for name, g in gradients.items()}
        of_loss = self.ref(loss)
        for kind, r in (*(("gradient", r) for r in refs.values() if r is not None), ("loss", of_loss)):
            if not self.storages[r.storage].resident:
                self.storages[r.storage].result, self.storages[r.storage].kind = True, kind
        self._drop_dead()
        self._update_early()
        self._layers_backward()
        used = {s for n in self.nodes for s in (*n.reads(), *n.writes(), *n.mutates)} | {
            s for s, x in self.storages.items() if x.resident or x.result
        }
        first = given[0]
        return Graph(
            {s: x for s, x in self.storages.items() if s in used}, self.nodes, self.fixed, self.given, of_loss, refs,
            [Form.of(t) for t in given], self.watch, first.device, int(first.shape[0]) if first.dim() else 0,
        )  # fmt: skip

    def _drop_dead(self) -> None:
        """Leaves out nodes whose results nobody reads and that change nothing."""
        needed = {s for s, x in self.storages.items() if x.result}
        kept = []
        for n in reversed(self.nodes):
            if n.mutates or n.random or needed & set(n.writes()):
                kept.append(n)
                needed.update(n.reads())
        self.nodes = kept[::-1]

    def _update_early(self) -> None:
        """Moves each node of the optimizer to where it can first run, so that gradients need not wait for each other."""
        updates = [n for n in self.nodes if n.phase == "optimizer"]
        self.nodes = [n for n in self.nodes if n.phase != "optimizer"]
        for n in updates:
            changed, used = set(n.mutates), {*n.reads(), *n.mutates}
            place = len(self.nodes)
            while place and not (
                used & {*self.nodes[place - 1].writes(), *self.nodes[place - 1].mutates} or changed & set(self.nodes[place - 1].reads())
            ):
                place -= 1
            self.nodes.insert(place, n)

    def _layers_backward(self) -> None:
        """Gives backward nodes the block of what they read of the forward, else of the gradient they read."""
        of: Dict[int, Tuple[int, str]] = {}
        for k, n in enumerate(self.nodes):
            if n.phase == "backward":
                sources = [of[s] for s in n.reads() if s in of]
                if not n.layer and sources:
                    n.layer = max((x for x in sources if x[1]), default=(0, ""))[1]
            of.update({s: (k if n.phase == "forward" else -k, n.layer) for s in n.writes()})


def _need_dense(t: Optional[torch.Tensor]) -> None:
    if t is not None and t.layout is not torch.strided:
        raise Refused(f"the step makes or uses a tensor that is {t.layout}: only dense tensors are planned for")


def lazy(t: torch.Tensor) -> Tuple[bool, bool]:
    """Which operations a view has left for later."""
    return t.is_conj(), t.is_neg()


def copy_storage(t: torch.Tensor) -> torch.Tensor:
    """A tensor like t on a copy of its whole storage."""
    raw = torch.empty(0, dtype=torch.uint8, device=t.device).set_(memory.storage(t)).clone()
    return torch.empty(0, dtype=t.dtype, device=t.device).set_(memory.storage(raw)).as_strided(t.shape, t.stride(), t.storage_offset())
