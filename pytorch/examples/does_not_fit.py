"""A network that does not fit, in ten minutes: profile it, plan, train by the plan.

    LD_PRELOAD=$(python -m workbench_torch counter) python examples/does_not_fit.py [WORKBENCH]

WORKBENCH is the path of the program, unless it is installed. On a CPU the preloaded library counts memory.
"""

from __future__ import annotations

import json
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn
from workbench_torch import check, load, profile


def network(blocks: int = 16, width: int = 64) -> nn.Module:
    """A plain convolutional network: blocks of convolution, normalization and dropout."""
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(blocks):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def main(workbench: str = "workbench") -> None:
    torch.manual_seed(0)
    model, images, labels = network().train(), torch.randn(8, 3, 32, 32), torch.randint(10, (8,))

    document = profile(model, F.cross_entropy, (images, labels), name="sixteen-blocks")
    with open("net.json", "w") as file:
        json.dump(document, file)

    flags = ["--memory", "range 25%", "--method", "optimum", "--plan", "plan.json", "--quiet"]
    solve = [workbench, "solve", "--problem", "remat", "net.json", *flags]
    print(subprocess.run(solve, check=True, capture_output=True, text=True).stdout)

    step = load("plan.json", model, F.cross_entropy, (images, labels))
    print(step.report)
    print(check(step))

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for k in range(3):
        optimizer.zero_grad()
        loss = step(images, labels)
        loss.backward()
        optimizer.step()
        print(f"step {k}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
