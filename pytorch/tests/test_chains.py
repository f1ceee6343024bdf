"""Chains of real networks, and plans of workbench for them, run."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any, Dict

import planning
import pytest
import torch
import torch.nn.functional as F
import workbench_torch as wt
from torch import nn
from workbench_torch.memory import need_meter

PROFILES: Dict[str, Any] = {}


def profiled(name: str, folder: Path) -> Any:
    """A network, its loss and batch, and its profile, which is made once."""
    if name not in PROFILES:
        batch = planning.NETWORKS[name]()
        PROFILES[name] = *batch, wt.profile(*batch, name=name, seconds=0.2)
    model, loss, example, document = PROFILES[name]
    file = folder / f"{name}.json"
    file.write_text(json.dumps(document))
    return model, loss, example, document, file


def run(name: str, folder: Path, *flags: str) -> wt.Check:
    """Checks the plan that workbench makes: the same step, bit by bit, within the limit and as predicted."""
    model, loss, example, _, file = profiled(name, folder)
    planning.solve(file, *flags)
    step = wt.load(file.with_suffix(".plan.json"), model, loss, example)
    result = wt.check(step, steps=1)
    assert result.loss_equal and result.gradients_equal and result.buffers_equal, result
    assert result.planned_peak <= result.measured_peak <= 1.0005 * result.planned_peak, result
    assert result.measured_peak <= step.plan["x-claimed-peak"] <= step.report.memory, (result, step.plan["x-claimed-peak"])
    return result


@pytest.mark.parametrize("name", planning.NETWORKS)
@pytest.mark.parametrize("memory", ["range 25%", "range 75%"])
def test_optimum(name: str, memory: str, tmp_path: Path) -> None:
    result = run(name, tmp_path, "--memory", memory, "--method", "optimum")
    assert memory != "range 25%" or result.measured_peak < result.plain_peak


@pytest.mark.parametrize("method", ["persistent-slots", "periodic", "store-all", "revolve"])
def test_plans_of_others(method: str, tmp_path: Path) -> None:
    """rotor's program, checkpoint_sequential's plan, no plan at all, and checkpoints only."""
    run("gpt", tmp_path, "--memory", {"store-all": "range 100%", "revolve": "range 0%"}.get(method, "range 40%"), "--method", method)


@pytest.mark.parametrize("problem", ["activation-offload", "remat-offload"])
@pytest.mark.parametrize("name", ["gpt", "resnet18"])
def test_offload(name: str, problem: str, tmp_path: Path) -> None:
    """Transfers to the host, whose pool does not count on the device."""
    result = run(name, tmp_path, "--problem", problem, "--memory", "range 40%", "--bandwidth", "1GB/s")
    assert 0 < result.host_bytes and result.measured_peak < result.plain_peak


def test_a_profile_replays_the_graph(tmp_path: Path) -> None:
    """Layers are the graph's operations, each once: times add up, and a plan for the chain without recomputation is the graph's order."""
    model, loss, example, document, file = profiled("resnet18", tmp_path)
    planning.solve(file, "--memory", "range 100%", "--method", "store-all")
    step = wt.load(file.with_suffix(".plan.json"), model, loss, example)
    assert [o["node"] for o in step.plan["ops"] if o["op"] == "C"] == [n["id"] for n in step.graph["nodes"]]
    assert step.report.peak == step.report.store_all_peak
    assert len(document["layers"]) > 12 and document["source"]["gradients"] == sum(4 * p.numel() for p in model.parameters())
    graph, plan = tmp_path / "graph.json", tmp_path / "graph.plan.json"
    graph.write_text(json.dumps(step.graph))
    plan.write_text(json.dumps(step.plan))
    assert planning.workbench("verify", str(graph), str(plan), "--format", "json")["peak_memory"] == step.report.peak


class Rotary(nn.Module):
    """Attention blocks that share rotary tables and a mask computed from the input, and a table that no layer needs early."""

    def __init__(self, blocks: int, width: int = 64, length: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(blocks))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.register_buffer("frequencies", 100.0 ** -torch.arange(0, width, 2).div(width).repeat(2))

    def forward(self, tokens: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        mask = (padding * (tokens != 0))[:, None, :].expand(-1, tokens.shape[1], -1) > 0
        for qkv, out in zip(self.qkv, self.out):
            q, k, v = qkv(x).chunk(3, -1)
            q, k = (t * cos + t.roll(1, -1) * sin for t in (q, k))
            x = x + out(F.scaled_dot_product_attention(q, k, v, mask))
        return x


def test_side_inputs_are_no_cuts(tmp_path: Path) -> None:
    """What needs no gradient and is read by all blocks is computed once; the blocks are layers, planned as measured."""
    torch.manual_seed(0)
    model, example = Rotary(4), (torch.randint(100, (8, 32)), torch.ones(8, 32))
    document = wt.profile(model, planning.total, example, seconds=0.2)
    assert 6 <= len(document["layers"]) <= 7, [x["name"] for x in document["layers"]]
    file = tmp_path / "rotary.json"
    file.write_text(json.dumps(document))
    for memory in ("range 25%", "range 60%"):
        planning.solve(file, "--memory", memory, "--method", "optimum")
        step = wt.load(tmp_path / "rotary.plan.json", model, planning.total, example)
        result = wt.check(step, steps=1)
        assert result.passes and result.measured_peak <= step.plan["x-claimed-peak"] <= step.report.memory, result
        assert sum(o.get("node") == "n0" for o in step.plan["ops"]) == 1
    assert result.measured_peak < 0.8 * result.plain_peak


def test_llama_is_a_chain_of_blocks() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, use_cache=False
    )
    model, tokens = transformers.LlamaForCausalLM(config).train(), torch.randint(100, (2, 16))
    document = wt.profile(model, lambda output: output.loss, {"input_ids": tokens, "labels": tokens}, seconds=0.2)
    assert len(document["layers"]) >= 6, [x["name"] for x in document["layers"]]


def test_layers_respect_the_members_of_a_sequential() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.GELU(), nn.Flatten(), nn.Sequential(nn.Linear(8, 8), nn.Tanh())), nn.Linear(8, 2))
    model.insert(1, nn.Sequential(nn.Linear(8, 8), nn.Tanh()).append(nn.Identity()))
    document = wt.profile(model, planning.total, (torch.randn(4, 8),), seconds=0.1)
    assert [x["x-children"] for x in document["layers"]] == [(0, 0), (1, 1), (2, 2), (3, 4), (5, 6), (7, 7), (8, 8), (9, 9)]


def test_nothing_is_left(tmp_path: Path) -> None:
    """Free means free: steps leave no memory behind, without the collector of cycles, offloaded tensors included."""
    model, loss, example, _, file = profiled("gpt", tmp_path)
    planning.solve(file, "--problem", "remat-offload", "--memory", "range 40%", "--bandwidth", "1GB/s")
    step, meter = wt.load(file.with_suffix(".plan.json"), model, loss, example), need_meter(torch.device("cpu"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            step(*example).backward()
        before = meter.current()
        for _ in range(3):
            step(*example).backward()
        assert meter.current() <= before
    finally:
        gc.enable()
        model.zero_grad()
