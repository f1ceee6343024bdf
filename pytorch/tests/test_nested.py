"""Plans that are nested checkpoints, run by torch.utils.checkpoint: the same step, within the plan, and composable."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import networks
import planning
import pytest
import torch
import workbench_torch as wt
from torch import nn
from workbench_torch.memory import need_meter
from workbench_torch.state import same


def gradients(model: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("method", ["periodic", "persistent"])
def test_is_the_step_within_the_plan(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    blocks = [networks.Block(64, 4, 32, 0.1) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(500, 64), *blocks, nn.LayerNorm(64), nn.Linear(64, 500)).train()
    tokens, following = torch.randint(500, (4, 32)), torch.randint(500, (4, 32))
    document = wt.profile(model, planning.cross_entropy, (tokens, following), seconds=0.2)
    file = tmp_path / "net.json"
    file.write_text(json.dumps(document))
    plan = planning.solve(file, "--memory", "range 40%", "--method", method)
    step, meter = wt.checkpoints(model, document, plan, planning.cross_entropy), need_meter(torch.device("cpu"))
    for k in range(2):
        torch.manual_seed(k)
        expected = gradients(model, planning.cross_entropy(model(tokens), following))
        torch.manual_seed(k)
        model.zero_grad()
        before = meter.current()
        meter.reset()
        made = step(tokens, following)
        made.backward()
        peak = meter.peak() - before
        assert same(made.detach(), expected[0])
        assert all(map(same, (p.grad for p in model.parameters()), expected[1:]))
    assert peak <= 1.02 * (plan["claims"]["peak_memory"] + document["source"]["gradients"]), (peak, plan["claims"])


def nested(layers: int) -> dict[str, Any]:
    """Layers 1 to n-1 as a checkpoint whose first half is one again."""
    half, last = layers // 2, layers - 1
    ops = [("F_ck", 1), *(("F_none", k) for k in range(2, last + 1)), ("F_all", layers), ("B", layers)]
    ops += [("F_ck", 1), *(("F_none", k) for k in range(2, half + 1)), *(("F_all", k) for k in range(half + 1, last + 1))]
    ops += [("B", k) for k in range(last, half, -1)]
    ops += [*(("F_all", k) for k in range(1, half + 1)), *(("B", k) for k in range(half, 0, -1))]
    return planning.chain_plan([{"op": o, "layer": k} for o, k in ops])


def network(second: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), second, nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))


@pytest.mark.parametrize("how", ["compiled", "ddp", "grad"])
def test_composes(how: str, tmp_path: Path) -> None:
    """Under torch.compile (whose backend "eager" does not replay dropout), in DistributedDataParallel, and for single gradients."""
    model, inputs = network(nn.Dropout(0.3)), torch.randn(4, 8)
    step = wt.checkpoints(model, wt.profile(model, None, (inputs,), seconds=0.01), nested(6))
    other = copy.deepcopy(model)
    torch.manual_seed(1)
    expected = gradients(other, other(inputs).pow(2).sum())
    torch.manual_seed(1)
    if how == "grad":
        made = step(inputs).pow(2).sum()
        assert all(map(same, torch.autograd.grad(made, list(model.parameters())), expected[1:]))
        return
    if how == "compiled":
        assert all(map(same, gradients(model, torch.compile(step, backend="aot_eager")(inputs).pow(2).sum()), expected))
        return
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        parallel = nn.parallel.DistributedDataParallel(step)
        assert all(map(same, gradients(model, parallel(inputs).pow(2).sum()), expected))
    finally:
        torch.distributed.destroy_process_group()


def test_refusals() -> None:
    model, inputs = network(nn.Dropout(0.3)), torch.randn(4, 8)
    document, plan = wt.profile(model, None, (inputs,), seconds=0.01), nested(6)
    ops = plan["ops"]
    for broken in (ops[1:], ops[:-1], [*ops, {"op": "F_all", "layer": 1}], ops[:7]):
        with pytest.raises(wt.UnsupportedError, match="no nest of checkpoints"):
            wt.checkpoints(model, document, {**plan, "ops": broken})
    with pytest.raises(wt.UnsupportedError, match="plan for its profile"):
        wt.checkpoints(model, document, nested(7))
    normalized = network(nn.BatchNorm1d(8))
    with pytest.raises(wt.UnsupportedError, match=r"layer 2 \(1\) changes buffers"):
        wt.checkpoints(normalized, wt.profile(normalized, None, (inputs,), seconds=0.01), nested(6))
