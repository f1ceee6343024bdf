"""Tracing a training step into AOTAutograd's joint graph, as plain training would compute it.

AOTAutograd runs the forward on tensors without memory. Where the forward asks for the value of a tensor
(``if mask.all()``), it is first run on the real inputs, to see whether the value depends on them: if it is
made of constants alone it is the same in every step and is handed to the trace, else the step is refused
with the line that asks. Operations that have a kernel of their own are kept whole where AOTAutograd would
decompose them, so that the last bits are those of plain training.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch._functorch.aot_autograd import aot_compile_joint_with_descriptors, aot_export_joint_with_descriptors
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import memory
from .errors import LIBRARIES, Reason, UnsupportedError, user_line
from .joint import SEEDED, Joint
from .state import OtherGenerators, State, tensors
from .watch import Attributes, refuse_wrapped

# Operations with kernels and a decomposition, which rounds in another way.
WHOLE = [
    "silu_backward", "mish_backward", "_fused_rms_norm", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
]  # fmt: skip
READS = frozenset(getattr(torch.Tensor, name) for name in ("item", "__bool__", "__int__", "__float__", "__index__"))
# Cached results of operations without memory share storages as real ones do from this release on, but those of recurrent layers do not.
RELEASE = tuple(int(n) for n in torch.__version__.split(".")[:2])
DATA_HINT = "use torch.where or a product in place of the branch, or plan a network without it"


@contextmanager
def whole_operations() -> Iterator[None]:
    """Keeps operations whole while a step is traced."""
    operations = [getattr(torch.ops.aten, name).default for name in WHOLE if hasattr(torch.ops.aten, name)]
    for o in operations:
        o.decompose = lambda *args, **kwargs: NotImplemented
    try:
        yield
    finally:
        for o in operations:
            del o.decompose


class Step(nn.Module):
    """A network with its loss as one module over flat tensors.

    Args:
        model: the network.
        loss: called with the network's output and the targets; None: the output is returned.
        args, kwargs: an example, whose last entries are the targets.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]):
        super().__init__()
        self.model, self.loss = model, loss
        self.targets = 0 if loss is None else max(0, min(required_arguments(loss) - 1, len(args) - (not kwargs)))
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.places = [k for k, v in enumerate(self.leaves) if isinstance(v, torch.Tensor)]
        self.reads: _Reads | None = None

    def forward(self, *given: torch.Tensor) -> Any:
        """Runs the step on the tensors of the example, in their order."""
        leaves = list(self.leaves)
        for k, t in zip(self.places, given, strict=True):
            leaves[k] = t
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        if self.reads is not None:
            self.reads.begin()
        with _module_paths(self.model):
            return self.plain(*args, **kwargs)

    def samples(self) -> int:
        """Returns the batch size: the first dimension of the first tensor."""
        first = self.leaves[self.places[0]]
        return int(first.shape[0]) if first.dim() else 1

    def real(self, joint: Joint) -> dict[fx.Node, torch.Tensor]:
        """Returns the tensors of the example by their nodes in the step's joint graph."""
        return dict(zip(joint.primals[-len(self.places) :], (self.leaves[k] for k in self.places), strict=True))

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """The step as plain training computes it."""
        if self.loss is None:
            return self.model(*args, **kwargs)
        count = len(args) - self.targets
        return self.loss(self.model(*args[:count], **kwargs), *args[count:])


@contextmanager
def _module_paths(model: nn.Module) -> Iterator[None]:
    """Records in a trace which module an operation belongs to, and where the forward of that module is defined."""
    meta, before = fx.traceback.current_meta, []

    def enter(path: str) -> Callable[..., None]:
        def hook(m: nn.Module, args: Any) -> None:
            before.append((meta.get("nn_module_stack"), meta.get("stack_trace")))
            meta["nn_module_stack"] = {path: (path, type(m).__name__)}
            code = getattr(type(m).forward, "__code__", None)
            if code is not None and not code.co_filename.startswith(LIBRARIES):
                meta["stack_trace"] = f'  File "{code.co_filename}", line {code.co_firstlineno}, in forward'

        return hook

    def leave(m: nn.Module, args: Any, output: Any) -> None:
        for name, value in zip(("nn_module_stack", "stack_trace"), before.pop(), strict=True):
            meta.pop(name, None)
            meta.update({} if value is None else {name: value})

    handles = []
    if fx.traceback.has_preserved_node_meta():
        for path, m in model.named_modules():
            handles += [m.register_forward_pre_hook(enter(path)), m.register_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for h in handles:
            h.remove()


@contextmanager
def _tied_once(model: nn.Module) -> Iterator[None]:
    """Gives parameters that have several names one of them, so that their gradients are summed in the order of plain training."""
    first: dict[int, tuple[nn.Module, str]] = {}
    changed: list[tuple[nn.Module, type, dict[str, Any]]] = []
    for m in model.modules():
        second = {k: first[id(p)] for k, p in m._parameters.items() if p is not None and id(p) in first}
        first.update({id(p): (m, k) for k, p in m._parameters.items() if p is not None and id(p) not in first})
        if second:
            changed.append((m, type(m), dict(m._parameters)))
            read = {k: _reads_parameter(*place) for k, place in second.items()}
            m.__class__ = type(type(m).__name__, (type(m),), {"__module__": type(m).__module__, **read})
            for k in second:
                del m._parameters[k]
    try:
        yield
    finally:
        for m, kind, parameters in changed:
            m.__class__ = kind
            m._parameters.clear()
            m._parameters.update(parameters)


def _reads_parameter(of: nn.Module, name: str) -> property:
    return property(lambda self: of._parameters[name])


def required_arguments(function: Callable[..., Any]) -> int:
    """Returns how many positional arguments a function needs at least."""
    function = function.forward if isinstance(function, nn.Module) else function
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2  # a function of C: output and target
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


class _Constants(TorchDispatchMode):
    """Notes the values that a real run reads of tensors, and refuses those that depend on inputs, parameters or random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.constant: dict[int, torch.Tensor] = {}
        self.values: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tensors((args, kwargs))
        constant = SEEDED not in func.tags and all(memory.key(t) in self.constant for t in given)
        if func is torch.ops.aten._local_scalar_dense.default and not constant:
            raise UnsupportedError(
                "the step reads the value of a tensor that depends on its inputs",
                reason=Reason.DATA_DEPENDENT, where=user_line(), hint=DATA_HINT,
            )  # fmt: skip
        made = func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            self.values.append(made)
        elif constant:
            self.constant.update({memory.key(t): t for t in tensors(made)})
        elif func._schema.is_mutable:
            for t in given:
                self.constant.pop(memory.key(t), None)
        return made


class _Reads(TorchFunctionMode):
    """Answers what a traced forward reads of tensors with the constants of a real run."""

    def __init__(self, values: list[Any]):
        super().__init__()
        self.values, self.next = values, iter(values)

    def begin(self) -> None:
        """A forward begins: the first value is read next."""
        self.next = iter(self.values)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READS:
            value = next(self.next, None)
            if value is not None:
                return {"__bool__": bool, "__int__": int, "__float__": float}.get(func.__name__, lambda v: v)(value)
        return func(*args, **(kwargs or {}))


@dataclass
class Captured:
    """A traced step: ``joint`` is planned, ``compile`` makes it a function of parameters, buffers and inputs."""

    joint: Joint
    descriptors: Any
    stack: ExitStack

    def tensors(self, step: nn.Module) -> list[tuple[dict[str, Any], str]]:
        """Where the step's parameters and buffers are, in the order of its arguments: a module's table, and the name in it."""
        places: list[tuple[dict[str, Any], str]] = []
        for name in self.descriptors.params_spec:
            owner, _, key = name.rpartition(".")
            places.append((vars(step.get_submodule(owner))["_parameters"], key))
        for name in self.descriptors.buffers_spec:
            owner, _, key = name.rpartition(".")
            places.append((vars(step.get_submodule(owner))["_buffers"], key))
        return places

    def compile(self, forward: Any, backward: Any) -> Callable[..., Any]:
        """Returns the step that runs two modules, and ends the trace."""
        compiler: Any = boxed
        with self.stack:
            return aot_compile_joint_with_descriptors(
                self.descriptors, partition_fn=lambda *args, **kwargs: (forward, backward), fw_compiler=compiler, bw_compiler=compiler
            )


def boxed(gm: Any, inputs: Any) -> Callable[..., Any]:
    """Compiles a module to straight-line Python that frees its inputs as it goes."""
    gm.graph.set_codegen(torch.fx.graph._BoxedCodeGen())
    gm.recompile()
    run = gm.forward

    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def capture(step: Step) -> Captured:
    """Traces one training step: forward, loss and the gradients of everything that needs one.

    Args:
        step: the network, its loss and an example.

    Returns:
        The trace, still open: see :meth:`Captured.compile`.

    Raises:
        UnsupportedError: the step has no graph that holds for every batch.
    """
    refuse_wrapped(step)
    refuse_hooks(step)
    given = [step.leaves[k] for k in step.places]
    if not given:
        raise UnsupportedError("the example has no tensors", hint="give what the step is called with, as (inputs, targets)")
    model = step.model
    state, others, attributes = State(model), OtherGenerators(), Attributes(model.modules())
    captured: Captured | None = None
    try:
        captured = _attempts(step, given, state, attributes)
        if not captured.joint.tangents:
            captured.stack.close()
            raise UnsupportedError("nothing that the step returns needs a gradient", hint="return a loss, or a tuple of tensors")
    except Exception as e:
        raise _explained(e, model) from e
    finally:
        step.reads = None
        moved = others.moved()
        others.restore()
        attributes.restore()
    if moved:
        captured.stack.close()
        raise UnsupportedError(
            "the step draws from Python's or NumPy's generator of random numbers",
            reason=Reason.RANDOM, hint="draw with torch: a graph would hold one draw for ever",
        )  # fmt: skip
    return captured


def _attempts(step: Step, given: list[torch.Tensor], state: State, attributes: Attributes) -> Captured:
    """Traces, and where that asks for the value of a tensor, looks at a real run first."""
    try:
        return _trace(step, given)
    except Exception as e:  # of torch, or of the user's code on tensors without memory
        if not _data_dependent(e):
            raise
        failed = e
    attributes.restore()
    try:
        step.reads = _Reads(_constants(step, given))
    finally:
        state.restore()
    if not step.reads.values:
        raise failed
    return _trace(step, given)


def _trace(step: Step, given: list[torch.Tensor]) -> Captured:
    """One attempt to trace."""
    stack = ExitStack()
    with ExitStack() as guard:
        guard.callback(stack.close)
        stack.enter_context(whole_operations())
        if RELEASE < (2, 15) or any(isinstance(m, nn.RNNBase) for m in step.modules()):
            stack.enter_context(torch._dynamo.config.patch(fake_tensor_cache_enabled=False))
        if step.reads is not None:
            guard.enter_context(step.reads)
        with _tied_once(step), torch.enable_grad():
            descriptors = aot_export_joint_with_descriptors(stack, step, tuple(given))
        joint = Joint(descriptors.graph_module, descriptors._aot_state.fw_metadata.num_forward)
        captured = Captured(joint, descriptors, stack)
        guard.pop_all()
    return captured


def _constants(step: Step, given: list[torch.Tensor]) -> list[Any]:
    """What a real forward reads of tensors, all of it made of constants."""
    mode = _Constants()
    with torch.no_grad(), mode:
        step(*given)
    return mode.values


def _data_dependent(error: BaseException) -> bool:
    """Whether a trace failed at a value or a size that only real tensors have."""
    name = type(error).__name__
    return name.startswith(("DataDependent", "DynamicOutputShape", "GuardOnDataDependent")) or "_local_scalar_dense" in str(error)


def _explained(error: Exception, model: nn.Module) -> Exception:
    """A failure to trace in the package's words."""
    if isinstance(error, UnsupportedError):
        return error
    if _data_dependent(error):
        what = "its sizes or its control flow depend on the values of tensors"
        return UnsupportedError(
            f"the step of {type(model).__name__} has no graph: {what}", reason=Reason.DATA_DEPENDENT, where=user_line(error), hint=DATA_HINT
        )
    said = str(error).strip().splitlines() or [""]
    if "convert all Tensors to FakeTensors" in said[0]:
        said = ["it uses a tensor that is neither a parameter or buffer nor an input; register it as a buffer"]
    what = f"the step of {type(model).__name__} cannot be traced: {type(error).__name__}: {said[0]}"
    return UnsupportedError(what, reason=Reason.TRACE, where=user_line(error))


def refuse_hooks(step: nn.Module) -> None:
    """Refuses hooks on the backward of modules: a trace calls them once, and never in training."""
    for path, m in step.named_modules():
        for hook in (*m._backward_hooks.values(), *m._backward_pre_hooks.values()):
            code = getattr(hook, "__code__", None)
            raise UnsupportedError(
                f"{path.removeprefix('model.') or 'the network'} has a hook on its backward, which a graph does not call",
                reason=Reason.HOOK, where=f"{code.co_filename}:{code.co_firstlineno}" if code else "",
                hint="put the hook on a parameter, whose hooks are called as always",
            )  # fmt: skip
