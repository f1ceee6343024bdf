"""Plans inside torch.compile: as a backend that follows them exactly, and as inductor's partitioner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from . import memory as storages
from . import planner
from .capture import boxed, whole_operations
from .errors import Reason, UnsupportedError
from .joint import Joint
from .modules import write
from .state import tensors
from .step import Options, Report, planned, report

Modules = tuple[fx.GraphModule, fx.GraphModule]


class Backend:
    """A backend of torch.compile that runs every operation where the plan has it; made by :func:`backend`.

    Attributes:
        reports: what the plans promise, one a graph, in the order in which they were compiled.
        plans: the graphs (workbench.graph/v2) and their plans (workbench.plan/v1).
    """

    def __init__(self, options: Options, graph_breaks: bool):
        self.__name__ = "workbench"
        self.reports: list[Report] = []
        self.plans: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._options, self._graph_breaks, self._kept = options, graph_breaks, 0

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """Compiles a graph of Dynamo's.

        Raises:
            UnsupportedError: Dynamo broke the network into several graphs; inside torch's BackendCompilerFailed.
            DoesNotFitError: no plan fits; inside the same.
        """
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and getattr(reason, "graph_break", False) and not self._graph_breaks:
            raise UnsupportedError(
                f"the network is broken into several graphs: {str(reason.reason).strip().splitlines()[0]}",
                reason=Reason.GRAPH_BREAK,
                where=_where(reason.user_stack),
                hint="remove the break, or plan each graph by itself with wt.backend(..., graph_breaks=True)",
            )
        compiler = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=boxed, partition_fn=self._partition)
        with whole_operations():
            return compiler(gm, example_inputs)

    def _partition(self, gm: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **_: Any) -> Modules:
        joint = Joint(gm, num_fwd_outputs)
        options = self._options
        if self._kept:  # by the graphs before this one, until their backwards
            device = next((t.device for t in tensors(joint_inputs)), torch.device("cpu"))
            left = planner.memory_flag(options.memory, device)
            memory = left if left.endswith("%") else str(max(1, int(left) - self._kept))
            options = Options(memory, options.method, options.seconds, options.cache)
        plan, counted_by = planned(joint, {}, options)
        self.reports.append(report(joint, plan, counted_by))
        self.plans.append((joint.document(), plan))
        forward, backward = write(joint, plan)
        if self._graph_breaks:
            self._kept += _saved_bytes(joint, forward, num_fwd_outputs)
        return forward, backward


def _saved_bytes(joint: Joint, forward: fx.GraphModule, outputs: int) -> int:
    """Bytes of what a forward leaves for its backward, without its inputs."""
    (output,) = forward.graph.find_nodes(op="output")
    kept = {}
    for n in output.args[0][outputs:]:
        if n.op != "placeholder":
            kept.update({t.untyped_storage()._cdata: storages.size(t) for t in tensors(n.meta.get("val"))})
    return sum(kept.values())


def _where(stack: Any) -> str:
    frames = list(stack or ())
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def backend(
    memory: planner.Memory, *, method: str = "search", seconds: float = 10, cache: bool = True, graph_breaks: bool = False
) -> Backend:
    """Returns a backend for torch.compile whose training steps follow a plan, operation by operation.

    Its peak is proved for the graph: ``torch.compile(model, backend=wt.backend(memory="40GiB"), dynamic=False)``.
    What comes after the graph (a loss outside of it) is not counted.

    Args:
        memory: as for :func:`workbench_torch.plan`.
        method: a method of ``workbench methods remat``.
        seconds: the time limit for measuring and planning a graph.
        cache: whether plans are kept on disk.
        graph_breaks: whether networks that Dynamo breaks are planned graph by graph, each for what the forwards before
            it leave of the memory; else they are refused. The gradients of later graphs are not counted for earlier ones.
    """
    return Backend(Options(memory, method, seconds, cache), graph_breaks)


class Partitioner(CustomPartitionerFn):
    """Inductor's partition by a plan: what crosses from forward to backward, and what is recomputed where.

    Inductor fuses and reorders what it is given, so its peak is near the plan's and not proved. It copies this object.
    """

    def __init__(self, options: Options):
        self.options = options

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> Modules:
        """Partitions a joint graph of inductor's."""
        joint = Joint(gm, kwargs["num_fwd_outputs"], replay=False)
        plan, _ = planned(joint, {}, self.options, fused=True)
        return write(joint, plan)

    def uuid(self) -> Any:
        """Returns the key of this partition in inductor's caches."""
        o = self.options
        return ("workbench", str(o.memory), o.method, o.seconds, torch.__version__)


@contextmanager
def budget(memory: planner.Memory, *, method: str = "search", seconds: float = 10, cache: bool = True) -> Iterator[None]:
    """Plans what torch.compile with inductor compiles inside of the context: ``with wt.budget("40GiB"): compiled(x)``.

    The first call of a compiled network compiles it, so that call belongs inside.

    Args:
        memory: as for :func:`backend`; the peak is measured, not proved.
        method: as for :func:`backend`.
        seconds: as for :func:`backend`.
        cache: as for :func:`backend`.
    """
    with config.patch(custom_partitioner_fn=Partitioner(Options(memory, method, seconds, cache))):
        yield
