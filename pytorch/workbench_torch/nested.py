"""Plans for chains that are nested checkpoints, run by torch.utils.checkpoint alone.

Such a step is ordinary autograd: it works under DistributedDataParallel, FSDP2 and torch.compile, and gradients of
single tensors can be asked for, all of which the runner of general plans refuses. What a plan may hold here: layers that
are kept, and stretches whose forward keeps its input only and is recomputed, as another such plan, for its backward. So
are the plans of checkpoint_sequential (``periodic``) and of rotor without discards (``persistent``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .cut import Chain
from .errors import UnsupportedError
from .planfile import Op, read_plan

Nodes = list[Any]  # layers that are kept, and lists of nodes: what is recomputed


def checkpoints(chain: Chain, plan: Any) -> Checkpoints:
    """Returns a module with the forward of a chain whose training steps follow a plan of nested checkpoints.

    Args:
        chain: a network that was cut, by ``cut`` or ``profile``.
        plan: a file, its JSON, or a Plan for it.

    Raises:
        UnsupportedError: the plan is for other layers, is no nest of checkpoints, or runs a layer again that changes buffers.
    """
    ops, n = list(read_plan(plan).ops), len(chain.layers)
    if not chain.has_loss:
        ops = [o for o in ops if o.layer <= n]  # the loss is the caller's
    nodes, at = _parse(ops, 0, 1, n)
    if at < len(ops):
        raise _unnested(ops[at])
    for number in _recomputed(nodes):
        layer = chain.layers[number - 1]
        if layer.changes or layer.attributes:
            what = ", ".join((*layer.changes, *layer.attributes))
            raise UnsupportedError(f"layer {number} ({layer.name}) changes {what} each time it runs: use apply, which puts that back")
    return Checkpoints(chain, nodes)


def _unnested(op: Op | None) -> UnsupportedError:
    return UnsupportedError(f"the plan is no nest of checkpoints (at {op or 'its end'}): use apply, or the methods periodic and persistent")


def _parse(ops: list[Op], at: int, i: int, j: int) -> tuple[Nodes, int]:
    """Returns the nodes of layers i to j, whose operations begin at a place, and the place after them."""
    if i > j:
        return [], at

    def take(place: int, name: str, layer: int) -> bool:
        return place < len(ops) and (ops[place].op, ops[place].layer) == (name, layer)

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
        elif take(at, "F_ck", k) and take(at + 1, "D", k - 1) and ops[at + 1].tensor == "a":
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

    def __init__(self, chain: Chain, nodes: Nodes):
        super().__init__()
        self.model, self.last = chain.model, chain.layers[-1]
        self.chain, self.nodes = chain, nodes

    def forward(self, value: Any, *rest: Any) -> Any:
        """Returns what the network returns, or the loss of inputs followed by targets."""
        chain = self.chain
        if not (self.training and torch.is_grad_enabled()):
            output = chain.whole(value, *rest[: len(rest) - chain.targets])
            return self.last(output, rest) if chain.has_loss else output
        return self._run(self.nodes, chain.with_side(value, rest), value)

    def _run(self, nodes: Nodes, extra: tuple[Any, ...], value: Any) -> Any:
        for node in nodes:
            if isinstance(node, list):
                value = checkpoint(partial(self._run, node, extra), value, use_reentrant=False)
            else:
                value = self.chain.layers[node - 1](value, extra)
        return value
