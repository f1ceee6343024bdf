"""Bytes that autograd keeps of torchvision's networks, for model/zoo/testdata/saved.json: python tests/saved.py resnet18 ..."""

from __future__ import annotations

import sys

import torch
import torchvision

from workbench_torch import memory


def saved(model: torch.nn.Module, x: torch.Tensor) -> int:
    """Returns the bytes of all storages that a training step holds after its forward, with the input, without the model's own."""
    resident = {memory.key(t) for t in (*model.parameters(), *model.buffers())}
    held = {memory.key(x): x}

    def pack(t: torch.Tensor) -> torch.Tensor:
        if memory.key(t) not in resident:
            held[memory.key(t)] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.long))
    return memory.sizes(held.values())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, saved(getattr(torchvision.models, name)(weights=None).train(), torch.randn(2, 3, 224, 224)))
