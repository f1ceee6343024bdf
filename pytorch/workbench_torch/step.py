"""Training steps that follow a plan: ``wt.plan(model, loss, example, memory=…)`` makes one.

A step is traced, measured, planned by the workbench program, and compared once with plain training: loss and
gradients must agree bit by bit, or the network is refused before it trains.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from . import capture as tracing
from . import comparison, planner, timing
from .chain import Chain, free_early
from .errors import ChangedError, Reason, UnsupportedError
from .host import Host
from .joint import Joint
from .memory import meter
from .modules import write
from .state import autocasts

MOST_SHAPES = 8
FORMAT, PLAN = "workbench.step/v1", "workbench.plan/v1"


@dataclass(frozen=True)
class Report:
    """What a plan promises. Sizes are bytes beyond parameters, buffers and inputs; times are seconds of the model.

    Attributes:
        memory: the limit of the plan.
        peak: the planned peak.
        store_all_peak: the peak where nothing is recomputed.
        time: modelled time of the step.
        plain_time: the same where nothing is recomputed.
        bound: the proven lower bound of the time within the memory; 0 if unknown.
        operations: operations of the step.
        recomputed: by module, the number of operations that are recomputed and the seconds they take.
        compared: whether loss and gradients were compared with plain training and are equal.
        counted_by: what counted the workspaces of operations.
    """

    memory: int
    peak: int
    store_all_peak: int
    time: float
    plain_time: float
    bound: float
    operations: int
    recomputed: dict[str, tuple[int, float]] = field(default_factory=dict)
    compared: bool = False
    counted_by: str = ""

    def __str__(self) -> str:
        more = 100 * (self.time / self.plain_time - 1) if self.plain_time else 0.0
        lines = [
            f"peak      {self.peak / 2**20:.2f} MiB planned of {self.memory / 2**20:.2f} MiB; "
            f"{self.store_all_peak / 2**20:.2f} MiB without a plan",
            f"time      {1e3 * self.time:.2f} ms, {more:+.1f} % for recomputation"
            + (f"; at least {1e3 * self.bound:.2f} ms in this memory" if self.bound else ""),
            f"gradients {'equal to plain training, bit by bit' if self.compared else 'not compared with plain training'}",
        ]
        count = sum(n for n, _ in self.recomputed.values())
        lines.append(f"recomputes {count} of {self.operations} operations" + (", by module:" if count else ""))
        widest = sorted(self.recomputed.items(), key=lambda x: -x[1][1])[:12]
        lines += [f"  {name or 'outside of modules':32} {n:5} {1e3 * seconds:9.2f} ms" for name, (n, seconds) in widest]
        return "\n".join(lines)


def report(joint: Joint, plan: dict[str, Any], counted_by: str = "", compared: bool = False) -> Report:
    """Returns what a plan for a joint graph promises."""
    ran: set[str] = set()
    recomputed: dict[str, tuple[int, float]] = {}
    for o in plan["ops"]:
        if o["op"] == "C":
            e = joint.by_id[o["node"]]
            if e.id in ran:
                n, seconds = recomputed.get(e.layer, (0, 0.0))
                recomputed[e.layer] = n + 1, seconds + e.time
            ran.add(e.id)
    claims, once = plan["claims"], sum(e.time for e in joint.entries)
    once_all = [{"op": "C", "node": e.id} for e in joint.entries]
    return Report(
        int(plan.get("platform", {}).get("memory") or 0), int(claims["peak_memory"]), free_early(joint, once_all)[1],
        sum(n for _, n in recomputed.values()) + once, once, float(plan.get("x-bound") or 0),
        len(joint.entries), recomputed, compared, counted_by,
    )  # fmt: skip


@dataclass
class Options:
    """How a step is planned for each of its shapes."""

    memory: planner.Memory
    method: str
    seconds: float
    cache: bool
    optimizer: torch.optim.Optimizer | None = None


@dataclass
class _Planned:
    """A step for one shape of its inputs."""

    run: Callable[..., Any]
    places: list[tuple[dict[str, Any], str]]
    document: dict[str, Any]
    plan: dict[str, Any]
    report: Report
    leaves: list[Any]
    spec: Any
    host: Host

    def __call__(self, given: list[torch.Tensor]) -> Any:
        return self.run(*(of[name] for of, name in self.places), *given)


class Step(nn.Module):
    """A network whose training step follows a plan; made by :func:`plan`.

    Called as the network with its targets, it returns the loss (or the output, where no loss was given), whose
    backward follows the plan and accumulates into ``.grad``. In eval mode and without gradients the network itself
    runs. Other shapes are planned when they come first, at most eight.

    Attributes:
        model: the network, whose parameters the step trains.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., Any] | None, options: Options):
        super().__init__()
        self.model = model
        self._loss, self._options = loss, options
        self._planned: dict[Any, _Planned] = {}
        self._modules_of = list(model.modules())
        self._latest: _Planned | None = None

    @property
    def report(self) -> Report:
        """What the plan of the latest shape promises."""
        return self._last().report

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of the latest shape, workbench.plan/v1."""
        return self._last().plan

    @property
    def graph(self) -> dict[str, Any]:
        """The graph of the latest shape, workbench.graph/v2."""
        return self._last().document

    def _last(self) -> _Planned:
        if self._latest is None:
            raise ChangedError("nothing was planned yet")
        return self._latest

    @property
    def host_bytes(self) -> int:
        """Bytes of the buffers on the host for what the plan of the latest shape offloads."""
        return self._last().host.bytes

    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns arguments of the latest shape, with the values that it was planned with."""
        last = self._last()
        return pytree.tree_unflatten(last.leaves, last.spec)

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the step returns, computed as plain training does."""
        return tracing.Step(self.model, self._loss, args, kwargs).plain(*args, **kwargs)

    def save(self, path: str | Path) -> None:
        """Writes graph and plan of the latest shape to a file, for :func:`load`.

        Args:
            path: the file, which holds JSON.
        """
        last = self._last()
        Path(path).write_text(json.dumps({"format": FORMAT, "graph": last.document, "plan": last.plan}) + "\n")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step.

        Raises:
            ChangedError: of a ninth shape, or parameters of another type or device.
        """
        if not torch.is_grad_enabled() or not self.model.training:
            return self.plain(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = self._key(leaves, spec)
        planned = self._planned.get(key)
        if planned is None:
            planned = self._add(args, kwargs, key, None)
        self._latest = planned
        given = [_laid(t, like) for t, like in zip(leaves, planned.leaves, strict=True) if isinstance(t, torch.Tensor)]
        return planned(given)

    def _key(self, leaves: list[Any], spec: Any) -> Any:
        """What a plan is for: shapes, constants among the inputs, and the modes of modules, autocast and parameters."""
        forms = tuple((t.shape, t.dtype, t.device, t.requires_grad) if isinstance(t, torch.Tensor) else repr(t) for t in leaves)
        modes = tuple(m.training for m in self._modules_of)
        return forms, spec, modes, tuple(p.requires_grad for p in self.model.parameters()), tuple(autocasts())

    def _add(self, args: tuple[Any, ...], kwargs: dict[str, Any], key: Any, known: dict[str, Any] | None) -> _Planned:
        if len(self._planned) >= MOST_SHAPES:
            raise ChangedError(
                f"the step is called with a shape that it is not planned for, and it has {MOST_SHAPES} plans already: "
                "pad batches to few shapes"
            )
        made = _make(self.model, self._loss, args, kwargs, self._options, known)
        self._planned[key] = self._latest = made
        return made


def _laid(t: torch.Tensor, like: Any) -> torch.Tensor:
    """An input with the strides of the example: itself, or a copy."""
    if t.stride() == like.stride():
        return t
    return torch.empty_strided(t.shape, like.stride(), dtype=t.dtype, device=t.device).copy_(t)


def plan(
    model: nn.Module,
    loss: Callable[..., Any] | None = None,
    example: tuple[Any, ...] | dict[str, Any] = (),
    *,
    memory: planner.Memory,
    optimizer: torch.optim.Optimizer | None = None,
    method: str = "search",
    seconds: float = 10,
    cache: bool = True,
) -> Step:
    """Plans a network's training step for a memory, and returns the step.

    Args:
        model: the network, in training mode.
        loss: called with the network's output and the last entries of the example, as many as it needs;
            None: the step returns the network's output.
        example: what the step is called with, a tuple of arguments or a dict of named ones. Values do not matter, shapes do.
        memory: bytes that the step may take beyond parameters, buffers and inputs, gradients of parameters
            included: a number, a text with a unit ("40GiB"), a part of the peak of keeping everything ("50%"), or None for
            what the GPU has free now.
        optimizer: whose states, where they are not there yet, are taken off memory=None.
        method: a method of ``workbench methods remat``.
        seconds: the time limit for measuring and planning.
        cache: whether plans are kept on disk and used again for the same step.

    Returns:
        The step, an nn.Module over the parameters of the network.

    Raises:
        UnsupportedError: the step has no graph, or computes other gradients than plain training.
        DoesNotFitError: no plan fits.
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedError(f"the network is of type {type(model).__name__}, it must be an nn.Module")
    step = Step(model, loss, Options(memory, method, seconds, cache, optimizer))
    args, kwargs = _arguments(model, example)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    step._add(args, kwargs, step._key(leaves, spec), None)  # noqa: SLF001 # its only maker
    return step


def load(
    path: str | Path, model: nn.Module, loss: Callable[..., Any] | None = None, example: tuple[Any, ...] | dict[str, Any] = ()
) -> Step:
    """Returns a step that follows the plan in a file: what :meth:`Step.save` wrote, or a plan for :func:`profile` or :func:`profile_graph`.

    The graph that a plan is for is read where the plan says, or next to the plan; the workbench program checks its digest and the plan.

    Args:
        path: the file.
        model: as for :func:`plan`.
        loss: as for :func:`plan`.
        example: as for :func:`plan`.

    Raises:
        UnsupportedError: the plan is for another step or breaks the rules, or the file cannot be read.
    """
    try:
        text = Path(path).read_text()
        known = json.loads(text)
    except (OSError, ValueError) as e:
        what = str(e) if isinstance(e, OSError) else f"it is no JSON ({e})" if text.strip() else "it is empty"
        raise UnsupportedError(f"{path} cannot be read: {what}", reason=Reason.PLAN) from e
    if not isinstance(known, dict) or known.get("format") not in (FORMAT, PLAN):
        raise UnsupportedError(f"{path} has neither format {FORMAT} nor {PLAN}", reason=Reason.PLAN)
    if known["format"] == PLAN and any("node" in o for o in known.get("ops") or []):
        known = {"format": FORMAT, "graph": planner.graph_of(Path(path), known), "plan": known}
    memory = int(known.get("plan", known).get("platform", {}).get("memory") or 1)
    step = Step(model, loss, Options(memory, "search", 10, True))
    args, kwargs = _arguments(model, example)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    step._add(args, kwargs, step._key(leaves, spec), known)  # noqa: SLF001
    return step


def profile(
    model: nn.Module,
    loss: Callable[..., Any] | None = None,
    example: tuple[Any, ...] | dict[str, Any] = (),
    *,
    name: str = "",
    seconds: float = 3,
) -> dict[str, Any]:
    """Returns a network's training step as workbench.chain/v1, for ``workbench solve``; :func:`load` runs plans for it.

    Layers of an nn.Sequential do not divide its members.

    Args:
        model: as for :func:`plan`.
        loss: as for :func:`plan`; the end of the last layer.
        example: as for :func:`plan`.
        name: of the network; "": that of its class.
        seconds: the time limit for measuring.

    Raises:
        UnsupportedError: the step has no graph.
    """
    step, joint, counted_by = _profiled(model, loss, example, "", seconds)
    made = Chain(joint, children(model)).document(name or type(model).__name__, step.samples(), counted_by)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    made["source"].update(planner.describe(device))
    return made


def profile_graph(
    model: nn.Module,
    loss: Callable[..., Any] | None = None,
    example: tuple[Any, ...] | dict[str, Any] = (),
    *,
    device: str = "",
    seconds: float = 3,
) -> dict[str, Any]:
    """Returns a network's training step as workbench.graph/v2, for ``workbench solve``.

    Args:
        model: as for :func:`plan`.
        loss: as for :func:`plan`.
        example: as for :func:`plan`.
        device: v100, a100, h100, or FLOP and bytes a second as "19.5e12,1.555e12": times are estimated for it; "": measured.
        seconds: the time limit for measuring.

    Raises:
        UnsupportedError: the step has no graph.
    """
    step, joint, _ = _profiled(model, loss, example, device, seconds)
    return joint.document(type(model).__name__, step.samples())


def _arguments(model: nn.Module, example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An example as positional and named arguments; refuses one tensor, and tensors without values."""
    if not isinstance(example, (tuple, list, dict)):
        what = "a tensor" if isinstance(example, torch.Tensor) else f"of type {type(example).__name__}"
        raise UnsupportedError(f"the example is {what}, it must be a tuple of arguments or a dict of named ones", hint="write (x,)")
    args, kwargs = ((), example) if isinstance(example, dict) else (tuple(example), {})
    inputs = [(f"tensor {k} of the example", t) for k, t in enumerate(pytree.tree_leaves((args, kwargs))) if isinstance(t, torch.Tensor)]
    for name, t in [*model.named_parameters(), *model.named_buffers(), *inputs]:
        if t.is_meta or isinstance(t, FakeTensor):
            where = "a fake tensor" if isinstance(t, FakeTensor) else "on the meta device, where losses have no backward"
            raise UnsupportedError(f"{name} is {where}", hint="make the network and its example on the CPU or on the GPU")
    return args, kwargs


def _profiled(model: nn.Module, loss: Any, example: Any, device: str, seconds: float) -> tuple[tracing.Step, Joint, str]:
    """A step's joint graph with times, and what counted the workspaces."""
    step = tracing.Step(model, loss, *_arguments(model, example))
    captured = tracing.capture(step)
    with captured.stack:
        if device:
            timing.estimate(captured.joint, device)
            return step, captured.joint, ""
        return step, captured.joint, timing.measure(captured.joint, step.real(captured.joint), seconds=seconds)


def children(model: nn.Module, prefix: str = "") -> list[str]:
    """Returns the paths of the members of an nn.Sequential, those of Sequentials in it in their place; of others nothing."""
    if type(model).forward is not nn.Sequential.forward:
        return []
    found = []
    for path, m in model._modules.items():
        found += (m is not None and children(m, f"{prefix}{path}.")) or [prefix + path]
    return found


def _make(
    model: nn.Module, loss: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, known: Any
) -> _Planned:
    """Traces, measures, plans, compiles and compares a step for one example."""
    step = tracing.Step(model, loss, args, kwargs)
    captured = tracing.capture(step)
    joint = captured.joint
    with captured.stack:
        if known is not None and known["format"] == PLAN:
            counted_by = timing.measure(joint, step.real(joint), seconds=0.3 * options.seconds)
            made = Chain(joint, children(model)).schedule(known)
        else:
            made, counted_by = planned(joint, step.real(joint), options, samples=step.samples(), known=known)
        host = Host()
        run = captured.compile(*write(joint, made, host))
    document = joint.document(type(model).__name__, step.samples())
    result = _Planned(run, captured.tensors(step), document, made, report(joint, made, counted_by, True), step.leaves, step.spec, host)
    given = [step.leaves[k] for k in step.places]
    comparison.refuse_different(model, lambda: step(*given), lambda: result(given))
    return result


def planned(
    joint: Joint, given: Any, options: Options, *, samples: int = 1, known: Any = None, fused: bool = False
) -> tuple[dict[str, Any], str]:
    """Returns a plan for a joint graph whose times are measured, and what counted the workspaces.

    Args:
        joint: the graph; its entries get their times.
        given: real tensors of some of its inputs.
        options: how to plan.
        samples: the batch.
        known: a saved step in place of a new plan.
        fused: a compiler fuses operations, whose times are then estimated.

    Raises:
        UnsupportedError: the saved step is another one.
        DoesNotFitError: no plan fits.
    """
    device = next((t.device for n in joint.primals for t in [n.meta.get("val")] if isinstance(t, torch.Tensor)), torch.device("cpu"))
    document = joint.document("step", samples)
    memory = planner.memory_flag(options.memory, device)
    if options.memory is None and options.optimizer is not None:
        memory = str(int(memory) - unmade_states(options.optimizer))
    document["source"]["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, counted: {bool(meter(device))}"
    path = planner.cache_file(document, memory, options.method, options.seconds)
    kept = known or (planner.kept(path) if options.cache else None)
    if kept is not None:
        _agree(joint, kept)
        return kept["plan"], kept.get("counted_by", "")
    if fused:
        timing.estimate(joint, fused=True)
        counted_by = "nothing: times are estimated"
    else:
        counted_by = timing.measure(joint, given, seconds=0.3 * options.seconds)
    document = joint.document("step", samples)
    made = planner.solve(document, memory, method=options.method, seconds=0.7 * options.seconds)
    if options.cache:
        planner.keep(path, {"graph": document, "plan": made, "counted_by": counted_by})
    return made, counted_by


def _agree(joint: Joint, kept: dict[str, Any]) -> None:
    """Takes times and workspaces from a saved step, which must be this one."""
    theirs = {n["id"]: n for n in kept["graph"]["nodes"]}
    ours = joint.document()["nodes"]
    if [(n["id"], n["operation"], n["reads"], n["writes"]) for n in ours] != [
        (n["id"], n["operation"], n["reads"], n["writes"]) for n in theirs.values()
    ]:
        raise UnsupportedError(
            f"the file is for another step: it has {len(theirs)} operations and this step {len(ours)}, or they differ", reason=Reason.PLAN
        )
    sizes = {x["id"]: int(x["bytes"]) for x in kept["graph"]["storages"]}
    for k, x in enumerate(joint.storages):
        x.bytes = sizes.get(f"s{k}", x.bytes)
    for e in joint.entries:
        e.time, e.workspace = theirs[e.id].get("time", 0.0), theirs[e.id].get("workspace", 0)


def unmade_states(optimizer: torch.optim.Optimizer) -> int:
    """Returns the bytes of an optimizer's states that its first step will make: two tensors like each parameter of Adam, one of others."""
    each = 2 if "Adam" in type(optimizer).__name__ else 1
    parameters = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad and p not in optimizer.state]
    return sum(each * p.numel() * p.element_size() for p in parameters)
