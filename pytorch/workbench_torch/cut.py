"""Cutting a network into a chain of layers.

A layer is a stretch of the network between two places where one value crosses: one tensor for
networks that are traced, whatever the callables hand over for an ``nn.Sequential`` or a list of
callables. Two neighbours become one layer where the cut would not hold: where the second changes
its input in place, or where its output shares memory with its input, so that neither can be
dropped without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from . import memory
from .errors import UnsupportedError
from .state import Modes, State, autocast, autocast_as_now, opaque, same, tensors
from .tracer import trace
from .watch import Attributes, Watch, refuse_wrapped

Description = tuple[torch.Size, torch.dtype, torch.device, bool]
Model = nn.Module | Sequence[Callable[..., Any]]


@dataclass
class Segment:
    """A stretch of a network that is computed as a whole.

    ``run(value, extra)`` computes its output from the value that crosses into it and from the
    inputs of the network that every segment may read (masks, targets).
    """

    name: str
    run: Callable[[Any, tuple[Any, ...]], Any]
    modules: list[nn.Module]


@dataclass
class Layer:
    """Layer ℓ of a chain: segments that are computed one after the other, and what a run of them showed."""

    segments: list[Segment]
    needs_grad: tuple[bool, ...] = ()  # of the tensors that it makes
    changes: list[str] = field(default_factory=list)  # names of the buffers that it changes
    attributes: list[str] = field(default_factory=list)  # what makes another run of it differ, if anything
    graphs: list[tuple[nn.Module, str]] = field(default_factory=list)  # attributes in which it leaves tensors with a graph
    random: bool = False
    gives_one: bool = False  # its output is one tensor, which needs a gradient
    with_gradients: bool = False  # without them it computes something else (recurrent layers of torch 2 on a CPU)

    @property
    def name(self) -> str:
        """The names of its first and last segment."""
        first, last = self.segments[0].name, self.segments[-1].name
        return first if first == last else f"{first}..{last}"

    def modules(self) -> list[nn.Module]:
        """Returns the modules of its segments, each once."""
        return list({id(m): m for p in self.segments for top in p.modules for m in top.modules()}.values())

    def parameters(self) -> list[nn.Parameter]:
        """Returns the parameters of its modules, each once."""
        found = {id(p): p for m in self.modules() for p in m._parameters.values() if p is not None}
        return list(found.values())

    def __call__(self, value: Any, extra: tuple[Any, ...]) -> Any:
        """Returns its output for an input and the inputs that every layer may read."""
        for segment in self.segments:
            value = segment.run(value, extra)
        return value

    def forward_no_grad(self, value: Any, needs: Sequence[bool], extra: tuple[Any, ...]) -> Any:
        """Its output alone, as a run with gradients computes it. Gradients are off; needs: which tensors of value have some."""
        if not self.with_gradients:
            return self(value, extra)
        with torch.enable_grad():
            made = self(_leaf(value, needs), extra)
        return pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, made)


@dataclass
class Chain:
    """A network as layers 1..N, the last of which is the loss if there is one."""

    model: nn.Module
    layers: list[Layer]
    has_loss: bool
    notes: list[str]  # what could not be cut, and why
    example: list[Description]
    watch: Watch
    whole: Callable[..., Any]  # the network, uncut
    targets: int  # how many
    rest: list[Any]  # of the inputs after the first and the targets: descriptions of tensors, the others as they are
    side: fx.GraphModule | None = None  # makes the side inputs from all inputs, see _traced

    def needs(self) -> tuple[bool, ...]:
        """Which tensors of the input need gradients."""
        return tuple(needs for _, _, _, needs in self.example)

    def with_side(self, value: Any, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs after the first (and targets), followed by the side inputs, which are computed here."""
        if self.side is None:
            return extra
        inputs = (value, *extra)[: sum(n.op == "placeholder" for n in self.side.graph.nodes)]
        with torch.no_grad():
            return (*extra, *self.side(*inputs))

    def check(self, value: Any, rest: Any) -> None:
        """Refuses inputs and modes of modules other than those that the network was cut for."""
        got = describe(value)
        if got != self.example:
            raise UnsupportedError(f"the plan is for inputs {show(self.example)}, got {show(got)}: profile and plan again")
        if not _agree(described(rest), self.rest):
            raise UnsupportedError(
                "an input after the first, or a target, has another shape, type or value than when the network was cut: "
                "profile and plan again"
            )
        self.watch.check_modes()


def describe(value: Any) -> list[Description]:
    """Returns shape, type, device and requires_grad of each tensor in a value."""
    return [(t.shape, t.dtype, t.device, t.requires_grad) for t in tensors(value)]


def described(rest: Any) -> list[Any]:
    """What must not change of the inputs after the first; UnsupportedError where one needs a gradient."""
    flat, spec = pytree.tree_flatten(list(rest))
    if any(isinstance(t, torch.Tensor) and t.requires_grad for t in flat):
        raise UnsupportedError(
            "an input after the first needs a gradient, which goes back through the first only: make both the first, as a "
            "tuple, or detach it"
        )
    return [str(spec), *((t.shape, t.dtype, t.device) if isinstance(t, torch.Tensor) else t for t in flat)]


def _agree(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(x is y or type(x) is type(y) and x == y for x, y in zip(a, b))


def show(description: Sequence[Description]) -> str:
    """Returns a description as text."""
    return ", ".join(
        f"{'x'.join(map(str, s)) or 'scalar'} {d} on {v}{' with gradient' * g}" for s, d, v, g in description
    ) or "none"  # fmt: skip


def cut(model: Model, inputs: Any, loss: Callable[..., Any] | None = None, targets: Sequence[Any] = ()) -> Chain:
    """Cuts a network into a chain and tries it on an example.

    inputs: what the network is called with: a tensor, or a tuple whose first member is what the chain
        starts from; the others are there for every layer.
    loss: called with the network's output and the targets; it becomes the last layer. Without it the
        network's own output is that of the last layer.

    What a traced network computes from inputs and buffers that need no gradient, and uses in several layers (rotary
    tables, masks, time steps), is a side input: computed once, before the first layer, and kept through the step.

    The network is run four times, on the example and on its numbers in another order, without keeping anything for a
    backward; buffers and generators are left as they were. Raises UnsupportedError if the segments compute other values than
    the network.
    """
    first, extra = (inputs[0], tuple(inputs[1:])) if isinstance(inputs, tuple) else (inputs, ())
    notes: list[str] = []
    _need_seen("the network is given", (first, extra, tuple(targets)))
    refuse_wrapped(model)
    rest = described((*extra, *targets))
    attributes = Attributes(model.modules() if isinstance(model, nn.Module) else ())
    try:
        return _cut(model, first, extra, loss, tuple(targets), rest, notes, True)
    except _SideError:
        return _cut(model, first, extra, loss, tuple(targets), rest, [], False)
    finally:
        attributes.restore()


class _SideError(Exception):
    """A chain with side inputs was refused; without them it may not be."""


def _cut(
    model: Model,
    first: Any,
    extra: tuple[Any, ...],
    loss: Callable[..., Any] | None,
    targets: tuple[Any, ...],
    rest: list[Any],
    notes: list[str],
    sides: bool,
) -> Chain:
    traced, side = False, None
    if isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward and not extra:
        owner: nn.Module = model
        segments = [Segment(name, _call(m), [m]) for name, m in _children(model, "")]
    elif isinstance(model, nn.Module):
        owner, traced = model, True
        segments, side = _traced(model, (first, *extra), notes, sides)
    else:
        if not isinstance(model, Iterable):
            raise UnsupportedError(f"the network is of type {type(model).__name__}, it must be an nn.Module or a list of callables")
        callables = list(model)
        segments = [_segment(k, f) for k, f in enumerate(callables)]
        owner = nn.ModuleList([m for p in segments for m in p.modules])
    if not segments:
        raise UnsupportedError("the network has no layers")
    whole = _whole(model, segments)
    if loss is not None:
        segments.append(Segment("loss", _loss(loss, len(extra), len(targets)), [loss] if isinstance(loss, nn.Module) else []))
    layers = [Layer([p]) for p in segments]
    _refuse_hooks([owner, *(m for layer in layers for m in layer.modules())])
    chain = Chain(owner, layers, loss is not None, notes, describe(first), Watch(owner), whole, len(targets), rest, side)
    try:
        _try(chain, first, extra, targets, traced)
    except UnsupportedError as e:
        if side is not None:
            raise _SideError from e
        raise
    return chain


def _refuse_hooks(modules: Sequence[nn.Module]) -> None:
    """Refuses hooks on forwards, but torch's own: they would see tensors without a graph, some of them twice, or none at all."""
    for m in {id(m): m for top in modules for m in top.modules()}.values():
        for hook in (*m._forward_hooks.values(), *m._forward_pre_hooks.values()):
            if not any((of.__module__ or "").startswith("torch.nn.") for of in (type(hook), getattr(hook, "__func__", type(hook)))):
                raise UnsupportedError(
                    f"{type(m).__name__} has hooks on its forward, which a plan runs several times: take them off, and "
                    "return what they look at"
                )


def _segment(k: int, f: Callable[..., Any]) -> Segment:
    name = type(f).__name__ if isinstance(f, nn.Module) else getattr(f, "__name__", type(f).__name__)
    return Segment(f"{k}:{name}", _call(f), _modules(f))


def _modules(f: Callable[..., Any]) -> list[nn.Module]:
    """The modules that a callable is, belongs to, or has closed over."""
    closure = [c.cell_contents for c in getattr(f, "__closure__", None) or ()]
    return [m for m in (f, getattr(f, "__self__", None), *closure) if isinstance(m, nn.Module)]


def _children(model: nn.Module, prefix: str) -> list[tuple[str, nn.Module]]:
    """The members of a Sequential, those of Sequentials in it in their place."""
    found: list[tuple[str, nn.Module]] = []
    for name, m in model._modules.items():
        if m is None:
            continue
        plain = isinstance(m, nn.Sequential) and type(m).forward is nn.Sequential.forward
        if isinstance(m, nn.Sequential) and plain and len(m) and not (m._forward_hooks or m._forward_pre_hooks):
            found += _children(m, f"{prefix}{name}.")
        else:
            found.append((prefix + name, m))
    return found


def _call(f: Callable[..., Any]) -> Callable[[Any, tuple[Any, ...]], Any]:
    return lambda value, extra: f(value)


def _loss(loss: Callable[..., Any], inputs: int, targets: int) -> Callable[[Any, tuple[Any, ...]], Any]:
    return lambda value, extra: loss(value, *extra[inputs : inputs + targets])


def _whole(model: Model, segments: Sequence[Segment]) -> Callable[..., Any]:
    if isinstance(model, nn.Module):
        return model

    def run(value: Any, *extra: Any) -> Any:
        for p in segments:
            value = p.run(value, extra)
        return value

    return run


# ---- by tracing -------------------------------------------------------------


def _traced(
    model: nn.Module, example: tuple[Any, ...], notes: list[str], sides: bool
) -> tuple[list[Segment], fx.GraphModule | None]:
    """The segments of a model between the places where one tensor crosses, and what makes the side inputs, if there are any.

    sides: whether values that need no gradient may be side inputs, which do not count as crossing.
    """
    module = trace(model, example)
    nodes = list(module.graph.nodes)
    holders = [n for n in nodes if n.op == "placeholder"]
    inputs, result = holders[: len(example)], nodes[-1]
    body = [n for n in nodes if n.op not in ("placeholder", "get_attr", "output")]
    if not body:
        raise UnsupportedError(f"{type(model).__name__} computes nothing")
    cuts, crossing = _cuts(body, holders[0], result, _without_gradient(module, inputs, example) if sides else set())
    side = _side(crossing, inputs[1:])
    shared = [*inputs[1:], *side]
    segments: list[Segment] = []
    begin, entry = 0, holders[0]
    for end, exit_ in [*cuts, (len(body), result.args[0])]:
        segments.append(_build(module, body[begin:end], entry, exit_, shared, len(side)))
        if end - begin > 20:
            notes.append(f"{segments[-1].name}: {end - begin} operations are one layer, several tensors cross everywhere in it")
        begin, entry = end, exit_
    if not side:
        return segments, None
    notes.append(f"computed once and kept through the step, as layers share them: {', '.join(n.name for n in side)}")
    graph, copy = _copier(inputs)
    graph.output(tuple(copy(n) for n in side))
    return segments, fx.GraphModule(module, graph)


def _without_gradient(module: fx.GraphModule, inputs: Sequence[fx.Node], example: tuple[Any, ...]) -> set[fx.Node]:
    """The nodes whose values depend on nothing that needs a gradient."""
    found = {n for n, value in zip(inputs, example) if not any(t.requires_grad for t in tensors(value))}
    for n in module.graph.nodes:
        if n.op == "get_attr":
            value: Any = module
            for part in str(n.target).split("."):
                value = getattr(value, part)
            free = not (isinstance(value, torch.Tensor) and value.requires_grad)
        elif n.op == "call_module":
            free = not any(p.requires_grad for p in module.get_submodule(str(n.target)).parameters())
        else:
            free = n.op in ("call_function", "call_method")
        if free and all(a in found for a in n.all_input_nodes):
            found.add(n)
    return found


def _cuts(
    body: Sequence[fx.Node], first: fx.Node, result: fx.Node, free: set[fx.Node]
) -> tuple[list[tuple[int, fx.Node]], set[fx.Node]]:
    """Places in 1..len(body)-1 before which a segment may end, with the one value that crosses; and the free values that do, too.

    O(nodes + edges) plus the values that cross each place.
    """
    place = {n: k for k, n in enumerate([*body, result])}
    opens: list[list[fx.Node]] = [[] for _ in range(len(body) + 1)]
    last: dict[fx.Node, int] = {}
    for n in [first, *body]:
        if n.users:  # it crosses the places from behind it to its last use
            opens[place.get(n, -1) + 1].append(n)
            last[n] = max(place[u] for u in n.users)
    cuts: list[tuple[int, fx.Node]] = []
    crossing: set[fx.Node] = set()
    alive: list[fx.Node] = []
    for k in range(len(body)):
        alive = [n for n in alive + opens[k] if last[n] >= k]
        carried = alive if body[k] in free else [n for n in alive if n not in free] or alive
        if k > 0 and len(carried) == 1 and carried[0].meta.get("tensor"):
            cuts.append((k, carried[0]))
            crossing.update(n for n in alive if n is not carried[0])
    return cuts, crossing


def _ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes and all that they are computed from."""
    found, stack = set(nodes), list(nodes)
    while stack:
        new = [a for a in stack.pop().all_input_nodes if a not in found]
        found.update(new)
        stack += new
    return found


def _side(crossing: set[fx.Node], extra: Sequence[fx.Node]) -> list[fx.Node]:
    """The side inputs: values that cross, and those of their ancestors that others than ancestors use. In order of computation."""
    before = _ancestors(crossing)
    used = {n for n in before if n.op.startswith("call") and any(u not in before for u in n.users)}
    graph = next((n.graph for n in crossing), None)
    return [n for n in graph.nodes if n in crossing | used and n not in extra] if graph is not None else []


def _copier(placeholders: Sequence[fx.Node]) -> tuple[fx.Graph, Callable[[fx.Node], fx.Node]]:
    """A graph with such inputs, and what copies a node and its ancestors up to them into it."""
    graph = fx.Graph()
    copies = {h: graph.placeholder(h.name) for h in placeholders}

    def copy(n: fx.Node) -> fx.Node:
        if n not in copies:
            copies[n] = graph.node_copy(n, copy)
        return copies[n]

    return graph, copy


def _build(
    module: fx.GraphModule, stretch: Sequence[fx.Node], entry: fx.Node, exit_: Any, shared: Sequence[fx.Node], side: int
) -> Segment:
    """The stretch as a module of its own, which reads the value of entry, the inputs after the first and the side inputs."""
    others = [h for h in shared if h is not entry]
    graph, copy = _copier([entry, *others])
    reads = [k for k, h in enumerate(shared) if h is not entry]
    before = _ancestors(shared[len(shared) - side :])
    for n in stretch:
        if n not in before:
            copy(n)
    graph.output(fx.node.map_arg(exit_, copy))
    built = fx.GraphModule(module, graph)
    modules = [str(n.target) for n in stretch if n.op == "call_module"]
    name = modules[0] if modules else stretch[0].name
    if modules and modules[-1] != modules[0]:
        name = f"{modules[0]}-{modules[-1]}"

    def run(value: Any, extra: tuple[Any, ...]) -> Any:
        given = [*extra[: len(shared) - side], *extra[len(extra) - side :]]
        return built(value, *(given[k] for k in reads))

    return Segment(name, run, [built])


# ---- trying -----------------------------------------------------------------


def _try(chain: Chain, first: Any, extra: tuple[Any, ...], targets: tuple[Any, ...], traced: bool) -> None:
    """Runs the layers one by one: merges those that cannot be cut, fills in what they do, compares."""
    state = State(chain.model)
    try:
        output = _run_layers(chain, first, chain.with_side(first, extra + targets))
        if any(layer.with_gradients for layer in chain.layers):
            state.restore()
            output = _without_gradients(chain, first, extra)
        now = [b.detach().clone() for b, _ in state.buffers.values()]
        state.restore()
        beginning = Attributes(chain.model.modules())
        with torch.no_grad():
            expected = chain.whole(first, *extra)
        _need_seen("the network returns", expected)
        expected, after, attributes = tensors(expected), [b for b, _ in state.buffers.values()], Attributes(chain.model.modules())
        as_expected = len(output) == len(expected) and all(map(same, output, expected)) and all(map(same, now, after))
        if not (as_expected and _same_on_others(chain, first, extra, state)):
            names = ", ".join(beginning.changed()) or "state of Python, other generators?"
            raise UnsupportedError(
                f"the layers of {type(chain.model).__name__} do not compute what it computes: its forward depends on more than "
                f"its inputs ({names}); give it as a list of callables, its state in buffers"
            )
        changed = attributes.changed(of_tensors=False)
        if traced and changed:
            raise UnsupportedError(
                f"the forward changes {', '.join(changed)}, which a trace holds as it was: keep it in a buffer, or give a "
                "list of callables"
            )
    finally:
        state.restore()


def _same_on_others(chain: Chain, first: Any, extra: tuple[Any, ...], state: State) -> bool:
    """Whether network and layers agree on other numbers, too: a trace may have taken one of the example for a constant."""
    flat, spec = pytree.tree_flatten(first)
    with torch.no_grad():
        flat = [t.flatten().roll(1).view(t.shape) if isinstance(t, torch.Tensor) else t for t in flat]
        other = pytree.tree_unflatten([t * 0.75 if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in flat], spec)
        state.restore()
        expected = tensors(chain.whole(other, *extra))
        state.restore()
        return all(map(same, _without_gradients(chain, other, extra), expected))


def _without_gradients(chain: Chain, value: Any, extra: tuple[Any, ...]) -> list[torch.Tensor]:
    """The network's output as its layers make it where gradients are off."""
    extra = chain.with_side(value, extra)
    with torch.no_grad():
        for layer in chain.layers[: len(chain.layers) - chain.has_loss]:
            value = layer(value, extra)
    return tensors(value)


def _run_layers(chain: Chain, value: Any, extra: tuple[Any, ...]) -> list[torch.Tensor]:
    """Runs the layers one after the other; merges where a cut does not hold; returns the network's output.

    The starts of the last two layers are kept, so that most merges go back by one layer only.
    """
    layers, k = chain.layers, 0
    beginning = (value, tuple(t.requires_grad for t in tensors(value)), State(chain.model))
    starts = {0: beginning}
    output: list[torch.Tensor] = []
    while k < len(layers):
        value, needs, state = starts[k]
        reason, made = _probe(layers[k], value, needs, extra, state)
        if reason:
            k = _merge(layers, k, chain.has_loss, reason)
            if k not in starts:
                k, starts = 0, {0: beginning}
            starts[k][2].restore()
            continue
        if not (chain.has_loss and k == len(layers) - 1):
            output = tensors(made)
        starts[k + 1] = (made, layers[k].needs_grad, State(chain.model))
        if k > 1:
            starts.pop(k - 1, None)
        k += 1
    return output


def _merge(layers: list[Layer], k: int, has_loss: bool, reason: str) -> int:
    """Makes layer k one with its neighbour, for a reason, and returns which layer that is now."""
    first = max(k - 1, 0)
    if k == 0 and "in place" in reason:
        raise UnsupportedError(f"layer {layers[0].name} {reason}: make its first operation not in place")
    if len(layers) == 1 or (has_loss and first + 1 == len(layers) - 1):
        raise UnsupportedError(f"layer {layers[k].name} {reason}: the last layer must make a tensor of its own")
    layers[first : first + 2] = [Layer(layers[first].segments + layers[first + 1].segments)]
    return first


def _probe(layer: Layer, value: Any, needs: tuple[bool, ...], extra: tuple[Any, ...], state: State) -> tuple[str, Any]:
    """Runs a layer without and with gradients; why it cannot stand alone, and what it makes."""
    given = tensors(value)
    versions, others = [t._version for t in given], [(t, t._version) for t in tensors(extra)]
    attributes, modes_now = Attributes(layer.modules()), autocast_as_now()
    weights = [(p, p.detach().clone()) for p in layer.parameters() if not _renormalized(layer, p)]
    with torch.no_grad(), autocast(modes_now):
        made = layer(value, extra)
    for p, before in weights:
        if not same(p.detach(), before):
            with torch.no_grad():
                p.copy_(before)
            raise UnsupportedError(
                f"layer {layer.name} changes a parameter in its forward, which a plan may run several times: change it "
                "before the step"
            )
    del weights
    replaced = attributes.replaced()
    if replaced:
        raise UnsupportedError(
            f"layer {layer.name} replaces {', '.join(replaced)} by another tensor: write into it (copy_), so that it can be "
            "put back"
        )
    if any(t._version != version for t, version in others):
        raise UnsupportedError(f"layer {layer.name} changes an input after the first in place, and may run several times: copy it first")
    if [t._version for t in given] != versions:
        return "changes its input in place", None
    shared = {memory.key(t) for t in given} & {memory.key(t) for t in tensors(made)}
    if shared:
        return "makes a view of its input", None
    _need_seen(f"layer {layer.name} hands over", made)
    layer.changes = state.changed()
    layer.random = state.generators.moved()
    changed, again = attributes.changed(), Attributes(layer.modules())
    state.restore()
    leaf = _leaf(value, needs)
    outputs = _need_unspoiled(layer, leaf, extra, modes_now)
    layer.attributes, layer.graphs = again.changed(), again.graphs()
    layer.needs_grad = tuple(t.requires_grad for t in outputs)
    layer.gives_one = isinstance(made, torch.Tensor) and layer.needs_grad[0]
    if not all(map(same, outputs, tensors(made))):
        layer.with_gradients = True
        state.restore()
        with torch.no_grad(), autocast(modes_now):
            made = layer.forward_no_grad(value, needs, extra)
        if not all(map(same, outputs, tensors(made))):
            layer.attributes = changed or ["something unseen"]
    known = {id(t) for t in (*layer.parameters(), *tensors(leaf), *tensors(extra))}
    if any(id(t) not in known for t in _leaves(outputs)):
        raise UnsupportedError(
            f"layer {layer.name} uses parameters of no module that it names: give the modules themselves as callables, "
            "or a function that has them as attributes of its module"
        )
    return "", made


def _renormalized(layer: Layer, p: nn.Parameter) -> bool:
    """Whether p is the weight of an embedding with max_norm, whose forward changes it once, however often it runs."""
    return any(getattr(m, "max_norm", None) is not None and p is m._parameters.get("weight") for m in layer.modules())


def _need_unspoiled(layer: Layer, leaf: Any, extra: tuple[Any, ...], modes_now: Modes) -> list[torch.Tensor]:
    """A layer's outputs, with gradients; UnsupportedError where its backward needs a tensor that was changed in place since.

    Hooks that keep what is saved hide that from autograd.
    """
    saved: list[tuple[torch.Tensor, int]] = []
    spoiled: list[int] = []

    def note(t: torch.Tensor) -> int:
        saved.append((t, t._version))
        return len(saved) - 1

    def back(k: int) -> torch.Tensor:
        t, version = saved[k]
        spoiled.extend([k] * (t._version != version))
        return t

    with torch.enable_grad(), autocast(modes_now), torch.autograd.graph.saved_tensors_hooks(note, back):
        outputs = tensors(layer(leaf, extra))
    if any(t._version != version for t, version in saved):
        with_graph = [t for t in outputs if t.requires_grad]
        needed = [t for t in (*tensors(leaf), *layer.parameters()) if t.requires_grad]
        torch.autograd.grad(with_graph, needed, [torch.zeros_like(t) for t in with_graph], retain_graph=True, allow_unused=True)
    if spoiled:
        raise UnsupportedError(f"layer {layer.name} changes a tensor in place that its backward needs: plain training fails, too")
    return outputs


def _need_seen(what: str, value: Any) -> None:
    """Refuses values that may hide tensors."""
    hides = opaque(value)
    if hides:
        raise UnsupportedError(f"{what} a {hides}, whose tensors are not seen: tensors, tuples, lists and dicts of them are")
    for leaf in tensors(value):
        if leaf.layout is not torch.strided:
            raise UnsupportedError(f"{what} a tensor that is {leaf.layout}: only dense tensors can be dropped and computed again")


def _leaves(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves to which a backward from outputs would accumulate gradients."""
    found, seen, stack = [], set(), [t.grad_fn for t in outputs if t.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        stack += [n for n, _ in node.next_functions if n is not None]
    return found


def _leaf(value: Any, needs: Sequence[bool]) -> Any:
    """A copy of a value whose tensors are leaves that need gradients where needs says so."""
    flat, spec = pytree.tree_flatten(value)
    flags = iter(needs)
    return pytree.tree_unflatten(
        [t.detach().requires_grad_(next(flags)) if isinstance(t, torch.Tensor) else t for t in flat], spec
    )
