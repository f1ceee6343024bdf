"""The tables of docs/pytorch.md: real networks, planned by bin/workbench and run.

    make torch-tables TABLES="graphs vit gpt"

The first word says which table: graphs, chains, hold (both, on networks of 90 MiB where they can be), partitions
(min-cut against ours), times (checkpoint_sequential against ours) or torchvision (all its classifiers, at half of the
memory). The others are networks; without them, all. Rows are Markdown. Sizes are MiB.
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

import networks  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torchvision  # noqa: E402
from planning import WORKBENCH, images, words  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint_sequential  # noqa: E402
from workbench_torch import Refused, apply, check_graph, profile  # noqa: E402
from workbench_torch.check import check  # noqa: E402
from workbench_torch.compiled import document  # noqa: E402
from workbench_torch.graph import trace  # noqa: E402
from workbench_torch.measure import measure  # noqa: E402
from workbench_torch.memory import need_meter  # noqa: E402

MIB = 2.0**20
LIMIT = "10s"  # of a solve


def vision(name: str) -> Callable[[], nn.Module]:
    return lambda: getattr(torchvision.models, name)(weights=None, num_classes=100)


NETWORKS: Dict[str, Callable[[], Any]] = {
    "resnet18": lambda: images(networks.resnet18, 16, 64),
    "resnet50": lambda: images(vision("resnet50"), 8, 64),
    "densenet121": lambda: images(networks.densenet121, 8, 64),
    "mobilenet_v3_small": lambda: images(vision("mobilenet_v3_small"), 16, 64),
    "efficientnet_b0": lambda: images(vision("efficientnet_b0"), 8, 64),
    "convnext_tiny": lambda: images(vision("convnext_tiny"), 8, 64),
    "swin_t": lambda: images(vision("swin_t"), 8, 64),
    "vit": lambda: images(networks.vit, 16, 64),
    "gpt": lambda: words(networks.gpt, 4, 128),
    "lstm": lambda: words(networks.lstm, 8, 32),
    "gpt-wide": lambda: words(lambda: networks.gpt(layers=6, width=256, heads=8, words=500), 1, 128),
    "resnet18-large": lambda: images(networks.resnet18, 16, 128),
}


def solved(folder: Path, instance: Dict[str, Any], *flags: str) -> Tuple[Path, Dict[str, Any]]:
    """A plan for an instance, and what workbench says of it; Refused where there is none."""
    file, plan = folder / "net.json", folder / "plan.json"
    file.write_text(json.dumps(instance))
    command = [str(WORKBENCH), "solve", "--problem", "remat", str(file), "--format", "json", "--quiet", "--plan", str(plan), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no plan")
    return plan, json.loads(done.stdout)


def row(*cells: Any) -> None:
    print("| " + " | ".join(f"{c:.2f}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def head(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


def ran(result: Dict[str, Any]) -> Tuple[float, float, str, str]:
    """Predicted and measured peak, how far they are apart, and whether everything is equal."""
    predicted, measured = result["predicted_peak"], result["measured_peak"]
    equal = all(result[k] for k in ("loss_equal", "gradients_equal", "buffers_equal"))
    within = "" if result["within_limit"] else ", above the limit"
    return predicted / MIB, measured / MIB, f"{100 * (measured / predicted - 1):+.3f} %", ("yes" if equal else "NO") + within


def again(said: Dict[str, Any], instance: Dict[str, Any]) -> str:
    """How much longer a step takes than computing everything once."""
    key = "nodes" if "nodes" in instance else "layers"
    once = sum(x.get("time", 0) + x.get("forward_time", 0) + x.get("backward_time", 0) for x in instance[key])
    return f"{100 * (said['makespan'] / once - 1):.1f} %"


def traced(name: str) -> Tuple[Any, Any, Dict[str, Any]]:
    """A network with its batch, its graph, and the file of it."""
    batch = NETWORKS[name]()
    graph = trace(*batch, fake=name != "lstm")
    graph.name = name
    measure(graph, repeats=3, budget=0.1)
    return batch, graph, document(graph, {})


def graphs(names: List[str], folder: Path) -> None:
    """Plans of search for whole steps."""
    head("network", "nodes", "plain", "memory", "predicted", "measured", "longer", "equal")
    for name in names:
        batch, graph, file = traced(name)
        for memory in ("range 25%", "range 50%", "range 75%"):
            plan, said = solved(folder, file, "--memory", memory, "--method", "search", "--time-limit", LIMIT)
            result = check_graph(*batch, graph, str(plan), steps=0)
            predicted, measured, _, equal = ran(result)
            row(name, len(graph.nodes), result["plain_peak"] / MIB, memory, predicted, measured, again(said, file), equal)


def chains(names: List[str], folder: Path) -> None:
    """Plans for chains: ours, rotor's and those of checkpoint_sequential."""
    head("network", "layers", "plain", "memory", "method", "planned", "measured", "longer", "equal")
    for name in names:
        model, inputs, loss, targets = NETWORKS[name]()
        file, chain = profile(model, inputs, loss, targets, name=name, repeats=3, budget=0.2)
        for memory, method in [("range 25%", "optimum"), ("range 50%", "optimum"), ("range 75%", "optimum"), ("range 50%", "persistent-slots"), ("range 50%", "periodic")]:
            try:
                plan, said = solved(folder, file, "--memory", memory, "--method", method, "--time-limit", LIMIT)
            except Refused as e:
                row(name, len(chain.layers), "", memory, method, "none", "", "", str(e).split(": ")[-1])
                continue
            result = check(chain, inputs, loss, targets, file, str(plan), steps=0)
            _, measured, _, equal = ran(result)
            planned = said["peak_memory"] / MIB
            plain = result["plain_peak"] / MIB
            row(name, len(chain.layers), plain, memory, method, planned, measured, again(said, file), equal)


# What has to hold is asked of graphs that take 90 MiB and more: batches are as large as that takes.
LARGE: Dict[str, Callable[[], Any]] = {
    "resnet18": lambda: images(networks.resnet18, 32, 64),
    "densenet121": lambda: images(networks.densenet121, 10, 64),
    "vit": lambda: images(networks.vit, 24, 64),
    "gpt": lambda: words(networks.gpt, 4, 128),
    "lstm": lambda: words(networks.lstm, 8, 32),
}


def hold(names: List[str], folder: Path) -> None:
    """What every network must keep, as a chain and as a graph: how far measured peaks are from planned ones, and equality."""
    head("network", "as", "plain", "25 %", "50 %", "75 %", "others, 50 %", "farthest from planned", "equal, within limits")
    for name in names:
        model, inputs, loss, targets = LARGE[name]()
        file, chain = profile(model, inputs, loss, targets, name=name, repeats=3, budget=0.2)
        ask = [*((m, "optimum") for m in ("range 25%", "range 50%", "range 75%")), ("range 50%", "persistent-slots"), ("range 50%", "periodic")]
        kept(name, "chain", folder, file, ask, lambda plan: check(chain, inputs, loss, targets, file, plan, steps=0))
        batch = LARGE[name]()
        graph = trace(*batch, fake=name != "lstm")
        measure(graph, repeats=3, budget=0.1)
        ask = [*((m, "search") for m in ("range 25%", "range 50%", "range 75%")), ("range 50%", "checkmate")]
        kept(name, "graph", folder, document(graph, {}), ask, lambda plan: check_graph(*batch, graph, plan, steps=0))


def kept(name: str, kind: str, folder: Path, file: Dict[str, Any], ask: List[Tuple[str, str]], run: Callable[[str], Dict[str, Any]]) -> None:
    """A row of hold: plans by methods at memories, each run."""
    cells: List[str] = []
    off: List[float] = []
    wrong: List[str] = []
    plain = 0.0
    for memory, method in ask:
        mine = method in ("optimum", "search")
        try:
            plan, said = solved(folder, file, "--memory", memory, "--method", method, "--time-limit", LIMIT)
        except Refused:
            cells.append("none" if mine else f"{method} none")
            continue
        result = run(str(plan))
        _, measured, _, equal = ran(result)
        plain = result["plain_peak"] / MIB
        off.append(100 * (measured * MIB / said["peak_memory"] - 1))
        cells.append(f"{measured:.2f}" if mine else f"{method} {measured:.2f}")
        wrong += [f"{method} at {memory}: {equal}"] if equal != "yes" else []
    row(name, kind, plain, *cells[:3], ", ".join(cells[3:]), f"{max(off, key=abs):+.4f} %", "; ".join(wrong) or "yes")


def partitions(names: List[str], folder: Path) -> None:
    """Min-cut against search in the memory that min-cut takes; medians of 20 steps in processor time."""
    head("network", "plan", "measured", "longer", "predicted ms", "ms", "equal")
    for name in names:
        batch, graph, file = traced(name)
        least = 1e3 * sum(x["time"] for x in file["nodes"])
        limit = "1TiB"
        for number, method in enumerate(("min-cut", "search", "min-cut-aggressive", "search")):
            limit = limit if method == "search" else "1TiB"
            plan, said = solved(folder, file, "--memory", limit, "--method", method, "--time-limit", LIMIT)
            limit = str(int(said["peak_memory"]))
            result = check_graph(*batch, graph, str(plan), steps=20)
            if number == 0:
                row(name, "plain", result["plain_peak"] / MIB, "", least, 1e3 * result["plain_time"], "")
            _, measured, _, equal = ran(result)
            row(name, method, measured, again(said, file), 1e3 * said["makespan"], 1e3 * result["plan_time"], equal)


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
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        run().backward()
        gc.collect()
        before = meter.current()
        meter.reset()
        run().backward()
        return meter.peak() - before

    def seconds(run: Callable[[], torch.Tensor]) -> float:
        start = time.process_time()
        run().backward()
        return time.process_time() - start

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

        file, chain = profile(model, inputs, loss, [targets], name="net", repeats=9)
        predicted = 1e3 * sum(x["forward_time"] + x["backward_time"] for x in file["layers"])
        runs: List[Tuple[str, Any, Callable[[], torch.Tensor]]] = [("plain", predicted, lambda: loss(model(inputs), targets))]
        counts = range(2, min(len(model), 20))
        fewest = min(counts, key=lambda k: peak_of(model, segments(k)))
        for k in sorted({2, 4, fewest}):
            runs.append((f"checkpoint_sequential, {k} segments", "", segments(k)))
            limit = str(peak_of(model, segments(k)))
            plan, said = solved(folder, file, "--memory", limit, "--method", "optimum", "--time-limit", "60s")
            ours = apply(chain, str(plan))
            runs.append(("ours", 1e3 * said["makespan"], lambda ours=ours: ours(inputs.clone(), targets)))
        taken = [[seconds(run) for _, _, run in runs] for _ in range(20)]  # in turn, so that other work on the machine disturbs all alike
        for (plan_name, expected, run), of in zip(runs, zip(*taken)):
            row(title, plan_name, peak_of(model, run) / MIB, expected, 1e3 * statistics.median(of))


# What takes no images of 64×64, and what it takes: arguments of the network, batch and side.
SIDES: Dict[str, Tuple[Dict[str, Any], int, int]] = {
    "inception_v3": ({"init_weights": False}, 2, 299),
    "googlenet": ({"init_weights": False}, 4, 64),
    "maxvit_t": ({"input_size": (224, 224)}, 1, 224),
    **{name: ({"image_size": 64}, 4, 64) for name in ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32")},
    "vit_h_14": ({"image_size": 56}, 4, 56),
}


def of_all_heads(output: Any, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy, with that of auxiliary classifiers where the network has some."""
    heads = output if isinstance(output, tuple) else (output,)
    return sum((F.cross_entropy(h, target) for h in heads[1:]), F.cross_entropy(heads[0], target))


def classifiers(names: List[str], folder: Path) -> None:
    """Classifiers of torchvision, as chains and as graphs, at half of their range of memory."""
    head("network", "chain: plain", "planned", "measured", "graph: plain", "planned", "measured", "equal")
    for name in names or torchvision.models.list_models(module=torchvision.models):
        options, batch, side = SIDES.get(name, ({}, 4, 64))
        torch.manual_seed(0)
        model = torchvision.models.get_model(name, weights=None, num_classes=100, **options).train()
        inputs, targets = torch.randn(batch, 3, side, side), [torch.randint(100, (batch,))]
        cells: List[Any] = []
        unequal: List[str] = []
        for kind, method in (("chain", "optimum"), ("graph", "search")):
            try:
                if kind == "chain":
                    file, chain = profile(model, inputs, of_all_heads, targets, name=name, repeats=1)
                else:
                    graph = trace(model, inputs, of_all_heads, targets)
                    measure(graph, repeats=1, budget=0.1)
                    file = document(graph, {})
                plan, said = solved(folder, file, "--memory", "range 50%", "--method", method, "--time-limit", "5s")
                if kind == "chain":
                    result = check(chain, inputs, of_all_heads, targets, file, str(plan), steps=0)
                else:
                    result = check_graph(model, inputs, of_all_heads, targets, graph, str(plan), steps=0)
            except Refused as e:
                cells += ["refused", str(e), ""]
                continue
            _, measured, _, equal = ran(result)
            cells += [result["plain_peak"] / MIB, said["peak_memory"] / MIB, measured]
            unequal += [f"{kind}: {equal}"] if equal != "yes" else []
        row(name, *cells, "; ".join(unequal) or "yes")


def main(table: str, *names: str) -> None:
    torch.set_num_threads(1)
    make = {"graphs": graphs, "chains": chains, "hold": hold, "partitions": partitions, "times": times, "torchvision": classifiers}[table]
    every = {"times": [], "torchvision": [], "hold": list(LARGE)}.get(table, list(NETWORKS))
    with tempfile.TemporaryDirectory() as folder:
        make(list(names) or every, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
