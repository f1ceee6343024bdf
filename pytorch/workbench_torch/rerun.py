"""Recomputed layers: they see the state of their first run in a step, and leave no change of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .cut import Chain, Layer
from .state import Generators


class RerunGuard:
    """Generators and buffers before a layer's first run in a step, for its recomputations.

    A context, of the first run or of one after it. Its memory is taken once and serves all steps. Runs after the
    first get buffers of their own, which hold after each run what they held after the others, so that graphs may
    go on reading them.
    """

    def __init__(self, chain: Chain, layer: Layer):
        buffers = dict(chain.model.named_buffers())
        modules = {id(m): m for m in (*chain.model.modules(), *layer.modules())}.values()
        self.generators = Generators() if layer.random else None
        self.current = Generators() if layer.random else None
        every = {name: [(m, k) for m in modules for k, b in m._buffers.items() if b is buffers[name]] for name in layer.changes}
        self.unread = [owners for owners in every.values() if all(_only_written(m) for m, _ in owners)]
        self.owners = [owners for owners in every.values() if owners not in self.unread]
        self.before = [buffers[name].detach().clone() for name, owners in every.items() if owners not in self.unread]
        self.spare = [b.clone() for b in self.before]
        self.now: Sequence[torch.Tensor | None] = []
        self.again = False

    def run(self, again: bool) -> RerunGuard:
        """For the first run, or for one after it."""
        self.again = again
        return self

    def __enter__(self) -> None:
        if not self.again:
            if self.generators:
                self.generators.take()
            self.now = ()
            for owners, before in zip(self.owners, self.before):
                module, name = owners[0]
                before.copy_(module._buffers[name])  # type: ignore[arg-type]
            return
        if self.generators and self.current:
            self.current.take()
            self.generators.restore()
        self.now = [owners[0][0]._buffers[owners[0][1]] for owners in (*self.owners, *self.unread)]
        for owners, before, spare in zip(self.owners, self.before, self.spare):
            _put(owners, spare.copy_(before))
        for owners in self.unread:
            _put(owners, None)

    def __exit__(self, *error: Any) -> None:
        for owners, buffer in zip((*self.owners, *self.unread), self.now):
            _put(owners, buffer)
        if self.again and self.current:
            self.current.restore()


def _only_written(m: nn.Module) -> bool:
    """Whether m is a batch normalization of torch in training, which computes the same without its buffers."""
    return type(m).forward is nn.modules.batchnorm._BatchNorm.forward and m.training


def _put(owners: Sequence[tuple[nn.Module, str]], buffer: torch.Tensor | None) -> None:
    for module, name in owners:
        module._buffers[name] = buffer
