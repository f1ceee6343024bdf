"""Plans for chains that are nested checkpoints, run by torch.utils.checkpoint alone.

Such a step is ordinary autograd: it works under DistributedDataParallel, FSDP2 and torch.compile, and gradients of
single tensors can be asked for. What a plan may hold here: layers that are kept, and stretches whose forward keeps its
input only and is recomputed, as another such plan, for its backward. So are the plans of checkpoint_sequential
(``periodic``) and of rotor without discards (``persistent``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .chain import Op
from .errors import Reason, UnsupportedError
from .step import children

Nodes = list[Any]  # layers that are kept, and lists of nodes: what is recomputed


def checkpoints(
    model: nn.Sequential, document: dict[str, Any], plan: dict[str, Any], loss: Callable[..., Any] | None = None
) -> Checkpoints:
    """Returns a module with the forward of an nn.Sequential whose training steps follow a plan of nested checkpoints.

    Args:
        model: the network.
        document: what :func:`workbench_torch.profile` returned for it.
        plan: a plan for that, workbench.plan/v1.
        loss: as for profile; then the module is called with the inputs and the targets, and returns the loss.

    Raises:
        UnsupportedError: the plan is for other layers, is no nest of checkpoints, or recomputes a layer that changes buffers.
    """
    paths = children(model)
    layers, ops = [_layer(model, paths, x.get("x-children")) for x in document["layers"]], list(plan["ops"])
    if not paths or max(int(o.get("layer", 0)) for o in ops) != len(layers):
        raise UnsupportedError("the plan is not for the layers of an nn.Sequential: plan for its profile", reason=Reason.PLAN)
    nodes, at = _parse(ops, 0, 1, len(layers))
    if at < len(ops):
        raise _unnested(ops[at])
    for number in _recomputed(nodes):
        if document["layers"][number - 1].get("x-updates"):
            name = document["layers"][number - 1]["name"]
            raise UnsupportedError(f"layer {number} ({name}) changes buffers each time it runs, and the plan recomputes it: use load")
    return Checkpoints(model, layers, nodes, loss)


def _layer(model: nn.Module, paths: list[str], span: Any) -> list[nn.Module]:
    first, last = span or (0, -1)
    return [model.get_submodule(p) for p in paths[first : last + 1]]


def _unnested(op: Op | None) -> UnsupportedError:
    where = f"{op['op']} of layer {op['layer']}" if op else "its end"
    return UnsupportedError(f"the plan is no nest of checkpoints (at {where}): use load, or the methods periodic and persistent")


def _parse(ops: list[Op], at: int, i: int, j: int) -> tuple[Nodes, int]:
    """Returns the nodes of layers i to j, whose operations begin at a place, and the place after them."""
    if i > j:
        return [], at

    def take(place: int, name: str, layer: int) -> bool:
        return place < len(ops) and (ops[place]["op"], ops[place]["layer"]) == (name, layer)

    if take(at, "F_all", i):
        rest, at = _parse(ops, at + 1, i + 1, j)
        if not take(at, "B", i):
            raise _unnested(ops[at] if at < len(ops) else None)
        return [i, *rest], at + 1
    if not take(at, "F_ck", i):
        raise _unnested(ops[at] if at < len(ops) else None)
    at, k = at + 1, i + 1
    while True:
        if take(at, "F_none", k):
            at += 1
        elif take(at, "F_ck", k) and take(at + 1, "D", k - 1) and ops[at + 1]["tensor"] == "a":
            at += 2
        else:
            break
        k += 1
    rest, at = _parse(ops, at, k, j)
    inner, at = _parse(ops, at, i, k - 1)
    return [inner, *rest], at


def _recomputed(nodes: Nodes, inside: bool = False) -> list[int]:
    """Returns the layers that run more than once."""
    found: list[int] = []
    for node in nodes:
        found += _recomputed(node, True) if isinstance(node, list) else [node] * inside
    return found


class Checkpoints(nn.Module):
    """A network whose training steps are nested checkpoints; made by :func:`checkpoints`."""

    def __init__(self, model: nn.Sequential, layers: list[list[nn.Module]], nodes: Nodes, loss: Callable[..., Any] | None):
        super().__init__()
        self.model, self.loss = model, loss
        self._layers, self._nodes = layers, nodes

    def forward(self, value: Any, *targets: Any) -> Any:
        """Returns what the network returns, or the loss of inputs followed by targets."""
        if not (self.training and torch.is_grad_enabled()):
            output = self.model(value)
            return output if self.loss is None else self.loss(output, *targets)
        return self._run(self._nodes, targets, value)

    def _run(self, nodes: Nodes, targets: tuple[Any, ...], value: Any) -> Any:
        for node in nodes:
            if isinstance(node, list):
                value = checkpoint(partial(self._run, node, targets), value, use_reentrant=False)
                continue
            for m in self._layers[node - 1]:
                value = m(value)
            if node == len(self._layers) and self.loss is not None:
                value = self.loss(value, *targets)
        return value
