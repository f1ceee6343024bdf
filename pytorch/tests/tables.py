"""The tables of docs/pytorch.md: real networks, planned by bin/workbench and run.

    make torch-tables TABLES="chains vit gpt"

The first word is the table: methods (wt.plan and what PyTorch has, see methods.py), share (what Python costs, see share.py), chains, or
times (checkpoint_sequential and plans for chains). The others are networks; without them, all. Rows are Markdown. Sizes are MiB.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

import methods  # noqa: E402
import networks  # noqa: E402
import share  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from planning import NETWORKS, WORKBENCH  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint_sequential  # noqa: E402
from workbench_torch import UnsupportedError, check, load, profile  # noqa: E402
from workbench_torch.memory import need_meter  # noqa: E402

MIB = 2.0**20
LIMIT = "10s"  # of a solve


def solved(folder: Path, instance: Dict[str, Any], *flags: str) -> Tuple[Path, Dict[str, Any]]:
    """A plan for an instance, and what workbench says of it; UnsupportedError where there is none."""
    file, plan = folder / "net.json", folder / "plan.json"
    file.write_text(json.dumps(instance))
    command = [str(WORKBENCH), "solve", "--problem", "remat", str(file), "--format", "json", "--quiet", "--plan", str(plan), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UnsupportedError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no plan")
    return plan, json.loads(done.stdout)


def row(*cells: Any) -> None:
    print("| " + " | ".join(f"{c:.2f}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def head(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


PLANS = (  # of a chain: memory, method, and more flags
    ("range 25%", "optimum"), ("range 75%", "optimum"), ("range 50%", "persistent-slots"), ("range 50%", "periodic"),
    ("range 40%", "search", "--problem", "remat-offload", "--bandwidth", "1GB/s"),
)  # fmt: skip


def chains(names: List[str], folder: Path) -> None:
    """Plans for chains: ours, rotor's, those of checkpoint_sequential, and with transfers."""
    head("network", "layers", "plain", "memory", "method", "chain", "planned", "measured", "host", "equal")
    for name in names:
        model, loss, example = NETWORKS[name]()
        file = profile(model, loss, example, name=name, seconds=2)
        layers = len(file["layers"])
        for memory, method, *more in PLANS:
            flags = ["--memory", memory, "--method", method, "--time-limit", LIMIT, *more]
            try:
                plan, _ = solved(folder, file, *flags)
            except UnsupportedError as e:
                row(name, layers, "", memory, method, "none", "", "", "", str(e).split(": ")[-1])
                continue
            step = load(plan, model, loss, example)
            made, claimed = check(step, steps=1), step.plan["x-claimed-peak"] / MIB
            sizes = (made.planned_peak / MIB, made.measured_peak / MIB, made.host_bytes / MIB)
            row(name, layers, made.plain_peak / MIB, memory, " ".join([method, *more[1:2]]), claimed, *sizes, "yes" if made.passes else "NO")


def blocks(count: int = 16, width: int = 32) -> nn.Sequential:
    """The network of examples/does_not_fit.py, its ReLUs not in place: checkpoint_sequential fails on one that begins a segment."""
    layers: List[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(count):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def deep(count: int = 6, width: int = 256, length: int = 128) -> nn.Sequential:
    """The blocks of a GPT, few and wide: a layer takes tens of milliseconds."""
    layers = [networks.Block(width, 8, length, 0.1) for _ in range(count)]
    return nn.Sequential(nn.Embedding(500, width), *layers, nn.LayerNorm(width), nn.Linear(width, 500))


def residual() -> nn.Sequential:
    """resnet18, its blocks in a row."""
    net = networks.resnet18()
    stages = [block for stage in (net.layer1, net.layer2, net.layer3, net.layer4) for block in stage]
    return nn.Sequential(net.conv1, net.bn1, nn.ReLU(), net.maxpool, *stages, net.avgpool, nn.Flatten(), net.fc)


def sequential() -> Iterator[Tuple[str, nn.Sequential, torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    yield "sixteen-blocks, 4×3×32×32", blocks(), torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    yield "sixteen-blocks, 8×3×48×48", blocks(), torch.randn(8, 3, 48, 48), torch.randint(10, (8,))
    yield "GPT of 6 blocks of width 256, 1×128", deep(), torch.randint(500, (1, 128)), torch.randint(500, (1, 128))
    yield "resnet18, 16×3×128×128", residual(), torch.randn(16, 3, 128, 128), torch.randint(100, (16,))


def times(names: List[str], folder: Path) -> None:
    """checkpoint_sequential with several numbers of segments against ours in the memory that it takes; medians of 20 steps in processor time."""
    meter = need_meter(torch.device("cpu"))
    head("network", "plan", "measured", "predicted ms", "ms")

    def peak_of(model: nn.Module, run: Callable[[], torch.Tensor]) -> int:
        run().backward()
        model.zero_grad()
        gc.collect()
        before = meter.current()
        meter.reset()
        run().backward()
        peak = meter.peak() - before
        model.zero_grad()
        return peak

    def seconds(run: Callable[[], torch.Tensor]) -> float:
        start = time.process_time()
        run().backward()
        taken = time.process_time() - start
        model.zero_grad()
        return taken

    for title, model, inputs, targets in sequential():
        if names and not any(n in title for n in names):
            continue

        def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(output.flatten(0, -2), target.flatten())

        def segments(k: int) -> Callable[[], torch.Tensor]:
            def run() -> torch.Tensor:
                first = inputs.clone().requires_grad_() if inputs.is_floating_point() else inputs
                begin = 0 if inputs.is_floating_point() else 1  # whole numbers have no gradients, which checkpoint needs
                value = model[:begin](first) if begin else first
                return loss(checkpoint_sequential(model[begin:], k, value), targets)

            return run

        example = inputs, targets
        file = profile(model, loss, example, name="net")
        predicted = 1e3 * sum(x["forward_time"] + x["backward_time"] for x in file["layers"])
        runs: List[Tuple[str, Any, Callable[[], torch.Tensor]]] = [("plain", predicted, lambda: loss(model(inputs), targets))]
        counts = range(2, min(len(model), 20))
        fewest = min(counts, key=lambda k: peak_of(model, segments(k)))
        for k in sorted({2, 4, fewest}):
            runs.append((f"checkpoint_sequential, {k} segments", "", segments(k)))
            limit = str(peak_of(model, segments(k)) - file["source"]["gradients"])
            plan, said = solved(folder, file, "--memory", limit, "--method", "optimum", "--time-limit", "60s")
            ours = load(plan, model, loss, example)
            runs.append(("ours", 1e3 * said["makespan"], lambda ours=ours, example=example: ours(*example)))
        taken = [[seconds(run) for _, _, run in runs] for _ in range(20)]  # in turn, so that other work on the machine disturbs all alike
        for (plan_name, expected, run), of in zip(runs, zip(*taken)):
            row(title, plan_name, peak_of(model, run) / MIB, expected, 1e3 * statistics.median(of))


def main(table: str, *names: str) -> None:
    torch.set_num_threads(1)
    if table == "methods":
        methods.main(*names)
    elif table == "share":
        share.main(*names)
    else:
        with tempfile.TemporaryDirectory() as folder:
            {"chains": chains, "times": times}[table](list(names) or ([] if table == "times" else list(NETWORKS)), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
