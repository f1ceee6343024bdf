"""Tracing a module into a torch.fx graph while it computes on an example.

torch.fx traces without values: it stops at ``n, c = x.shape`` and at everything else that asks for a
size. Plans are for fixed shapes, so here each proxy has the value that it stands for. What is no
tensor (sizes, dtypes, flags) is a constant of the trace. What would turn numbers of a tensor into
control flow is refused.
"""

from __future__ import annotations

import functools
import gc
import inspect
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from .errors import Reason, UnsupportedError, user_line
from .state import Generators, OtherGenerators, State, autocasts, opaque, tensors

# What may be asked of a tensor without reading its numbers.
ATTRIBUTES = frozenset("shape dtype device ndim layout is_cuda is_sparse is_quantized is_nested itemsize nbytes names".split())
METHODS = frozenset(
    "size dim ndimension numel nelement stride storage_offset element_size is_floating_point is_complex is_contiguous "
    "get_device __len__".split()
)

IN_PLACE = frozenset("iadd isub imul itruediv ifloordiv imod ipow iand ior ixor imatmul".split())  # of the module operator


class ValueProxy(fx.Proxy):
    """A proxy that knows its value."""

    value: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # for isinstance in the code that is traced
        return type(self.value) if "value" in self.__dict__ else ValueProxy

    def __getattr__(self, name: str) -> Any:
        if isinstance(self.value, torch.Tensor) and name in ATTRIBUTES:
            return getattr(self.value, name)
        if isinstance(self.value, torch.Tensor) and name in ("requires_grad", "grad_fn", "is_leaf"):
            raise fx.proxy.TraceError(f"it asks a tensor for {name}")
        if name == "_is_param":  # asked by nn.Module when it is given an attribute
            raise fx.proxy.TraceError("it keeps a tensor in an attribute of a module, which a trace does not hold: return it instead")
        return fx.proxy.Attribute(self, name)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self.value))])  # type: ignore[index] # Proxy gets its operators at run time

    def __bool__(self) -> bool:
        raise fx.proxy.TraceError("it asks whether a tensor is true. Control flow that depends on data has no chain")

    def __int__(self) -> int:
        raise fx.proxy.TraceError("it makes an int of a tensor")

    __index__ = __int__

    def __float__(self) -> float:
        raise fx.proxy.TraceError("it makes a float of a tensor")


class ValueTracer(fx.Tracer):
    """Traces a module on example inputs; ``made`` says of each node whether it makes tensors."""

    proxy_buffer_attributes = True

    def __init__(self, example: Sequence[Any]):
        super().__init__()
        self.example: list[Any] = list(example)
        self.evaluating = False
        self.modes = torch.is_grad_enabled(), autocasts()

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Returns an attribute, as a proxy while it traces."""
        if self.evaluating:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a module, by a node while it traces."""
        if self.evaluating:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Returns the proxy of a node."""
        return ValueProxy(node, self)

    def create_arg(self, a: Any) -> Any:
        """Returns what stands for a value among the arguments of a node."""
        if type(a) in (ValueProxy, fx.proxy.Attribute):
            return a.node
        return super().create_arg(a)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        """Evaluates a call and returns a proxy with its value, or the value where it has no tensors."""
        value = self._evaluate(kind, target, args, kwargs)
        hides = opaque(value)
        if hides:
            raise fx.proxy.TraceError(f"it makes a {hides}, whose tensors are not seen")
        if kind != "placeholder" and not tensors(value):
            if kind == "call_method" and target not in METHODS:
                raise fx.proxy.TraceError(f"it reads the numbers of a tensor by .{target}()")
            if kind == "call_function" and getattr(target, "__name__", "") in ("equal", "allclose", "is_nonzero"):
                raise fx.proxy.TraceError(f"it compares the numbers of tensors by {target.__name__}")
            if kind != "call_function" or value is not None:
                return value
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **more)
        if kind == "placeholder" and not tensors(value):
            return value
        proxy.__dict__["value"] = value
        proxy.node.meta["tensor"] = isinstance(value, torch.Tensor)
        grad, casts = self.modes
        if kind.startswith("call"):
            if autocasts() != casts:
                raise fx.proxy.TraceError(f"it switches autocast at {proxy.node.name}, which a trace does not hold")
            if grad and not torch.is_grad_enabled() and (kind, target) != ("call_method", "detach"):
                return self._without_gradients(proxy, value)
        return proxy

    def _without_gradients(self, proxy: Any, value: Any) -> Any:
        """What is made under no_grad: a trace knows no such contexts, but that its results have no graph."""
        target = proxy.node.target
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        in_place = proxy.node.op != "call_module" and name.endswith("_") and not name.endswith("__")
        if in_place or name.startswith("i") and name in IN_PLACE or not isinstance(value, torch.Tensor):
            raise fx.proxy.TraceError(f"it calls {name or target} with gradients switched off, which a trace does not hold")
        return self.create_proxy("call_method", "detach", (proxy,), {})

    def _evaluate(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "placeholder":
            if self.example:
                return self.example.pop(0)
            return args[0] if args else None
        if kind == "get_attr":
            return _attribute(self.root, target)
        args, kwargs = _values(args), _values(kwargs)
        generators = Generators()
        self.evaluating = True
        try:
            with torch.no_grad():
                if kind == "call_module":
                    return self.root.get_submodule(target)(*args, **kwargs)
                if kind == "call_method":
                    return getattr(args[0], target)(*args[1:], **kwargs)
                return target(*args, **kwargs)
        finally:
            self.evaluating = False
            generators.restore()


def _attribute(root: nn.Module, target: str) -> Any:
    """An attribute by its path, past what tracing puts in front of parameters and buffers."""
    value: Any = root
    for part in target.split("."):
        places = (value._parameters, value._buffers, value._modules, vars(value))
        value = next(p[part] for p in places if part in p)
    return value


def _values(args: Any) -> Any:
    """Arguments with the values of proxies in their places."""
    if type(args) is ValueProxy:
        return args.__dict__["value"]
    if type(args) is fx.proxy.Attribute:
        return getattr(_values(args.root), args.attr)
    if isinstance(args, slice):
        return slice(_values(args.start), _values(args.stop), _values(args.step))
    if type(args) in (tuple, list):
        return type(args)(_values(a) for a in args)
    if isinstance(args, tuple):
        return type(args)(*(_values(a) for a in args))
    if isinstance(args, dict):
        return {k: _values(v) for k, v in args.items()}
    return args


def trace(model: nn.Module, example: tuple[Any, ...]) -> fx.GraphModule:
    """The graph of a model's forward on an example, or UnsupportedError with the reason.

    Buffers and generators are left as they were, parameters and submodules are shared with the model.
    """
    name = type(model).__name__
    tracer = ValueTracer(pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, example))
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in inspect.signature(model.forward).parameters.values()):
        raise UnsupportedError(
            f"the forward of {name} takes *args or **kwargs, which cannot be traced: give its arguments names, or give the network "
            "as an nn.Sequential or a list of callables"
        )
    state, others, attributes = State(model), OtherGenerators(), set(vars(model))
    try:
        with _functions_as_leaves(tracer):
            graph = tracer.trace(model)
        if state.generators.moved() or others.moved():
            raise UnsupportedError(
                f"{name} draws random numbers that steer its forward (layer drop?): a trace would hold one draw for ever. "
                "Wrap the function that draws with torch.fx.wrap, or give a list of callables"
            )
        _refuse_hooks(model, tracer)
        return fx.GraphModule(model, graph)
    except UnsupportedError:
        raise
    except Exception as e:  # tracing runs the user's code on proxies, which may raise anything
        raise UnsupportedError(
            f"{name} cannot be traced: {e}", reason=Reason.TRACE, where=user_line(e),
            hint="give the network as an nn.Sequential or a list of callables, or wrap the function that fails with torch.fx.wrap",
        ) from e
    finally:
        state.restore()
        others.restore()
        for added in set(vars(model)) - attributes:
            delattr(model, added)
        gc.collect()  # proxies, their values and the tracer hold each other


@contextmanager
def _functions_as_leaves(tracer: ValueTracer) -> Iterator[None]:
    """Functions with a backward of their own are one call each: torch must not see proxies in its C++."""
    function: Any = torch.autograd.Function
    before = vars(function)["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            return before.__get__(None, cls)(*args, **kwargs)

        if not any(type(a) is ValueProxy for a in pytree.tree_flatten((args, kwargs))[0]):
            return run(*args, **kwargs)
        if cls.__name__ == "CheckpointFunction":
            raise fx.proxy.TraceError("it uses torch.utils.checkpoint, which a plan replaces: take it off")
        run.__name__ = cls.__name__
        return tracer.create_proxy("call_function", run, args, kwargs)

    function.apply = classmethod(apply)
    try:
        with _python_before_c(tracer):
            yield
    finally:
        function.apply = before


@contextmanager
def _python_before_c(tracer: ValueTracer) -> Iterator[None]:
    """Traces calls of torch's functions with proxies in Python.

    The parser of arguments in C++ takes a proxy for the tensor that it claims to be, and reads it: a segmentation fault
    where a function has several forms, as pow(t, 3.0) and where(c, t, 0.0).
    """

    def traced(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if tracer.evaluating or not any(type(a) is ValueProxy for a in pytree.tree_leaves((args, kwargs))):
                return function(*args, **kwargs)
            return tracer.create_proxy("call_function", function, args, kwargs)

        return call

    places = [torch, torch.nn.functional, torch.special, torch.linalg]
    names = [(of, n, getattr(of, n, None)) for of in places for n in dir(of) if not n.startswith("_")]
    before = [(of, n, f) for of, n, f in names if isinstance(f, types.BuiltinFunctionType)]
    for of, name, function in before:
        setattr(of, name, traced(function))
    try:
        yield
    finally:
        for of, name, function in before:
            setattr(of, name, function)


def _refuse_hooks(model: nn.Module, tracer: fx.Tracer) -> None:
    for path, m in model.named_modules():
        hooks = m._forward_hooks or m._forward_pre_hooks or m._backward_hooks
        if path and hooks and not tracer.is_leaf_module(m, path):
            raise UnsupportedError(
                f"{type(model).__name__}.{path} has hooks, which a trace passes over: take them off, or give a list of callables"
            )
