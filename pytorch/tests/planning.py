"""The planner, and the networks of the tests with a batch each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import networks
import torch
import torch.nn.functional as F
import workbench_torch as wt

WORKBENCH = Path(__file__).resolve().parents[2] / "bin" / "workbench"


def solve(instance: Path, *flags: str) -> Dict[str, Any]:
    """The plan of bin/workbench for an instance."""
    plan = instance.with_suffix(".plan.json")
    command = [str(WORKBENCH), "solve", "--problem", "remat", str(instance), "--time-limit", "5s", "--quiet", "--plan", str(plan), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return json.loads(plan.read_text())


def workbench(*command: str) -> Dict[str, Any]:
    """What bin/workbench prints as JSON; it must end with status 0."""
    done = subprocess.run([str(WORKBENCH), *command], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def total(output: torch.Tensor) -> torch.Tensor:
    return output.pow(2).sum()


def cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def images(model: Callable[[], Any], batch: int, side: int) -> Tuple[Any, Callable[..., Any], Tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return model().train(), cross_entropy, (torch.randn(batch, 3, side, side), torch.randint(100, (batch,)))


def words(model: Callable[[], Any], batch: int, length: int) -> Tuple[Any, Callable[..., Any], Tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    tokens, following = (torch.randint(500, (batch, length)) for _ in range(2))
    return model().train(), cross_entropy, (tokens, following)


NETWORKS = {
    "resnet18": lambda: images(networks.resnet18, 4, 64),
    "densenet": lambda: images(networks.densenet, 4, 32),
    "vit": lambda: images(lambda: networks.vit(32), 8, 32),
    "gpt": lambda: words(lambda: networks.gpt(layers=6, width=64, length=32, words=500), 4, 32),
    "convolutions": lambda: images(networks.convolutions, 16, 64),
}


def chain_plan(ops: List[Dict[str, Any]], problem: str = "remat") -> Dict[str, Any]:
    """A plan for a chain, of operations that come one after the other."""
    return {"format": "workbench.plan/v1", "problem": problem, "platform": {}, "ops": ops}


def checkpointed(layers: int) -> Dict[str, Any]:
    """A plan that keeps a_0 only and computes everything again for each backward."""
    ops: List[Dict[str, Any]] = []
    for top in range(layers, 0, -1):
        for layer in range(1, top):
            ops.append({"op": "F_ck", "layer": layer})
            if layer > 1:
                ops.append({"op": "D", "tensor": "a", "layer": layer - 1})
        ops += [{"op": "F_all", "layer": top}, {"op": "B", "layer": top}]
    return chain_plan(ops)


def by_plan(plan: Dict[str, Any], model: Any, loss: Any, example: Sequence[Any], folder: Path) -> wt.Step:
    """A step that follows a plan for the network's chain, compared with plain training when it is loaded."""
    file = folder / "chain.plan.json"
    file.write_text(json.dumps(plan))
    return wt.load(file, model, loss, tuple(example))


def recomputing(graph: Dict[str, Any]) -> Dict[str, Any]:
    """A plan for workbench.graph/v2 that runs the forward again from its inputs wherever the backward reads a result of it."""
    nodes = {n["id"]: n for n in graph["nodes"]}
    free = {s["id"] for s in graph["storages"] if not s.get("resident") and not s.get("result")}
    forward = {s: n["id"] for n in graph["nodes"] if n["phase"] == "forward" and n.get("recompute", True) for s in n["writes"]}
    order: List[str] = []
    for k, n in enumerate(graph["nodes"]):
        if n["phase"] == "backward" and k % 5 == 0:
            needed, stack = set(), [s for s in n["reads"] if s in forward]
            while stack:
                maker = forward[stack.pop()]
                if maker not in needed:
                    needed.add(maker)
                    stack += [s for s in nodes[maker]["reads"] if s in forward]
            order += [m for m in nodes if m in needed]
        order.append(n["id"])
    ops: List[Dict[str, Any]] = []
    live: set[str] = set()  # what is read before it is written again, from the end
    for m in reversed(order):
        n = nodes[m]
        ops += [{"op": "D", "storage": s} for s in dict.fromkeys([*n["reads"], *n["writes"]]) if s in free and s not in live]
        ops.append({"op": "C", "node": m})
        live = live - set(n["writes"]) | set(n["reads"])
    claims = {"peak_memory": 1, "makespan": 1}
    return {"format": "workbench.plan/v1", "problem": "remat", "platform": {"memory": 2**40}, "claims": claims, "ops": ops[::-1]}


def by_hand(model: Any, loss: Any, example: Sequence[Any], folder: Path) -> wt.Step:
    """A step that follows :func:`recomputing`, compared with plain training when it is loaded."""
    graph = wt.profile_graph(model, loss, tuple(example), device="a100")
    file = folder / "step.json"
    file.write_text(json.dumps({"format": "workbench.step/v1", "graph": graph, "plan": recomputing(graph)}))
    return wt.load(file, model, loss, tuple(example))
