"""Writes training steps of real networks as graphs: what docs/training-graphs.md compares methods on.

    python trace_networks.py FOLDER [NAME ...]

Times are those of an A100's roofline. Nothing is computed: tensors are fake, and the targets of the loss
have the shape that the network is known to give.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from networks import GPT  # noqa: E402

from workbench_torch import profile_graph  # noqa: E402

WORDS, LENGTH = 8000, 512


def gpt(layers: int, width: int) -> Callable[[], nn.Module]:
    return lambda: GPT(layers=layers, width=width, heads=width // 64, length=LENGTH, words=WORDS)


def vision(name: str) -> Callable[[], nn.Module]:
    return lambda: getattr(torchvision.models, name)(weights=None)


# The network and its batch, large enough that activations take more than gradients of weights.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet50": (vision("resnet50"), 32),
    "densenet121": (vision("densenet121"), 32),
    "efficientnet_b0": (vision("efficientnet_b0"), 32),
    "convnext_tiny": (vision("convnext_tiny"), 32),
    "swin_t": (vision("swin_t"), 32),
    "vit_b_16": (vision("vit_b_16"), 32),
    "gpt6": (gpt(6, 768), 8),
    "gpt12": (gpt(12, 768), 8),
    "gpt24": (gpt(24, 1024), 8),
    "gpt48": (gpt(48, 1024), 8),
}

# Those that are traced only if they are named: the weights take 9 GiB of memory.
DEEP = {"gpt180": (gpt(180, 1024), 8)}


def words_loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.view(-1, WORDS), targets.view(-1))


def main(folder: str, *names: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or NETWORKS:
        make, batch = {**NETWORKS, **DEEP}[name]
        torch.manual_seed(0)
        model = make().train()
        if name.startswith("gpt"):
            tokens = torch.randint(WORDS, (batch, LENGTH))
            document = profile_graph(model, words_loss, (tokens, tokens.clone()), device="a100")
        else:
            images, labels = torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))
            document = profile_graph(model, nn.functional.cross_entropy, (images, labels), device="a100")
        document["name"] = name
        Path(folder, name + ".json").write_text(json.dumps(document, indent=1))
        print(f"{name}: {len(document['nodes'])} nodes")


if __name__ == "__main__":
    main(*sys.argv[1:])
