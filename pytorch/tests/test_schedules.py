"""Steps by plans for chains of every shape: what is stored, dropped, recomputed and offloaded; plans that break rules."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any, Dict, List

import planning
import pytest
import torch
import workbench_torch as wt
from planning import by_plan, chain_plan, checkpointed
from torch import nn
from workbench_torch.capture import Step, capture
from workbench_torch.chain import Chain, free_early
from workbench_torch.memory import need_meter
from workbench_torch.modules import write
from workbench_torch.state import same
from workbench_torch.step import children

Ops = List[Dict[str, Any]]


def op(name: str, layer: int) -> Dict[str, Any]:
    return {"op": name, "layer": layer}


def shaped(draw: random.Random, i: int, j: int) -> Ops:
    """Operations from a_{i-1} and δ_j to δ_{i-1}, of a shape that is drawn.

    Layer i is kept for its backward; or it and more run without gradients up to a checkpoint; or up to a layer
    that is kept while its input is dropped and recomputed.
    """
    if i > j:
        return []
    shape = draw.choice(["keep", "keep", "checkpoint", "without input"]) if i < j else "keep"
    if shape == "keep":
        return [op("F_all", i), *shaped(draw, i + 1, j), op("B", i)]
    k = draw.randint(i + 1, j)
    up = [op("F_ck", i), *(op("F_none", m) for m in range(i + 1, k))]
    if shape == "checkpoint":
        return [*up, *shaped(draw, k, j), *shaped(draw, i, k - 1)]
    dropped = {"op": "D", "tensor": "a", "layer": k - 1}
    recomputed = [op("F_all", m) for m in range(i, k)]
    return [*up, op("F_all", k), dropped, *shaped(draw, k + 1, j), *recomputed, *(op("B", m) for m in range(k, i - 1, -1))]


def timed(document: Dict[str, Any], ops: Ops) -> Ops:
    """The operations one after the other, with the times of a profile."""
    now, made = 0.0, []
    for o in ops:
        layer = document["layers"][o["layer"] - 1]
        lasts = 0.0 if o["op"] == "D" else layer["backward_time" if o["op"] == "B" else "forward_time"]
        made.append({**o, "start": now, "end": now + lasts})
        now += lasts
    return made


def anything(seed: int, layers: int) -> Ops:
    """Operations that keep the rules and are drawn otherwise: recomputed while stored, discarded at any time, never used."""
    draw, ops = random.Random(seed), []
    a, abar, below = {0}, set(), layers  # B is due next for layer `below`

    def add(name: str, layer: int) -> None:
        ops.append(op(name, layer))
        (abar if name == "F_all" else a).add(layer)
        if name == "F_none":
            a.discard(layer - 1)

    def step() -> None:
        forwards = [(name, k) for k in range(1, layers + 1) if {k - 1} & (a | abar) for name in ("F_all", "F_all", "F_ck")]
        forwards += [("F_none", k) for k in range(2, layers + 1) if k - 1 in a]
        discards = [("a", k) for k in a if k] + [("abar", k) for k in sorted(abar)]
        if below in abar and below - 1 in a | abar and draw.random() < 0.5:
            backward()
        elif discards and draw.random() < 0.25:
            tensor, layer = draw.choice(discards)
            ops.append({"op": "D", "tensor": tensor, "layer": layer})
            (a if tensor == "a" else abar).discard(layer)
        else:  # mostly the next layer, which has not been computed
            front = max(a | abar)
            ahead = [f for f in forwards if f[1] == min(front + 1, layers)]
            add(*draw.choice(ahead if ahead and draw.random() < 0.6 else forwards))

    def backward() -> None:
        nonlocal below
        ops.append(op("B", below))
        abar.discard(below)
        if below > 1:
            a.discard(below - 1)
        below -= 1

    for _ in range(4 * layers):
        if below:
            step()
    while below:
        if below not in abar or below - 1 not in a | abar:
            for k in range(max(k for k in a | abar if k < below) + 1, below + 1):
                add("F_all", k)
        backward()
    return ops


def test_measured_is_at_most_planned(tmp_path: Path) -> None:
    """Whatever plan workbench verify accepts is run within its peak, discards after a forward included."""
    torch.manual_seed(0)
    body = [nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64), nn.Dropout(0.2), nn.GELU(), nn.Linear(64, 128)]
    model, example = nn.Sequential(*body), (torch.randn(64, 64),)
    document = wt.profile(model, planning.total, example, seconds=0.2)
    instance, file = tmp_path / "net.json", tmp_path / "plan.json"
    instance.write_text(json.dumps(document))
    discards = 0
    for seed in range(20):
        ops = anything(seed, len(document["layers"]))
        plan = {**chain_plan(timed(document, ops)), "platform": {"memory": 2**40}}
        file.write_text(json.dumps(plan))
        verified = planning.workbench("verify", str(instance), str(file), "--format", "json")["peak_memory"]
        result = wt.check(wt.load(file, model, planning.total, example), steps=1)
        assert result.measured_peak <= result.planned_peak + 4, (seed, result)
        assert result.planned_peak <= verified + document["source"]["gradients"], (seed, result, verified)
        assert result.loss_equal and result.gradients_equal, seed
        discards += sum(o["op"] == "D" and o["tensor"] == "abar" for o in ops)
    assert discards > 20


class Ignores(nn.Module):
    """Its input gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach().round() * self.weight


def network(kind: str) -> nn.Module:
    torch.manual_seed(3)
    shared = nn.Linear(8, 8)
    if kind == "shared":
        return nn.Sequential(nn.Linear(8, 8), shared, nn.BatchNorm1d(8), nn.ReLU(inplace=True), shared, nn.Dropout(0.3), nn.Linear(8, 8), nn.GELU())
    if kind == "stops":
        return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), Ignores(), nn.Dropout(0.3), nn.Linear(8, 8), nn.Sigmoid())
    if kind == "spectral":
        return nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 8)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(8, 8)), nn.Dropout(0.3))
    layers = [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 8), nn.Sigmoid(), nn.Dropout(0.2), nn.Linear(8, 8)]
    if kind == "frozen":
        for m in layers[:2]:
            m.requires_grad_(False)
    return nn.Sequential(*layers)


def train(model: nn.Module, forward: Any, seed: int) -> List[torch.Tensor]:
    """Loss, gradients, buffers and the state of the generator after one step, whose gradients are added to those before."""
    torch.manual_seed(seed)
    loss = forward()
    loss.backward()
    made = [loss.detach(), torch.rand(1), *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()]
    return [t.clone() for t in made]


@pytest.mark.parametrize("kind", ["plain", "shared", "frozen", "stops", "spectral"])
def test_plans_of_every_shape(kind: str, tmp_path: Path) -> None:
    """Loss, gradients, buffers and random numbers are those of plain training, over two steps each."""
    model, x = network(kind), torch.randn(6, 8)
    layers = len(wt.profile(model, planning.total, (x,), seconds=0.01)["layers"])
    for plan in (checkpointed(layers), *(chain_plan(shaped(random.Random(seed), 1, layers)) for seed in range(6))):
        one, other = copy.deepcopy(model), copy.deepcopy(model)
        step = by_plan(plan, other, planning.total, (x,), tmp_path)
        for k in range(2):
            theirs = train(one, lambda one=one: planning.total(one(x)), k)
            ours = train(other, lambda step=step: step(x), k)
            if kind == "shared" and k:  # plain training adds parts of a shared gradient to .grad one by one, which rounds differently
                assert all(map(torch.allclose, theirs, ours))
            else:
                assert len(ours) == len(theirs) and all(map(same, theirs, ours)), k


def test_two_steps_at_a_time(tmp_path: Path) -> None:
    """Two batches before the backward of their common loss: each has its own random numbers, buffers and memory of the host."""
    model = network("plain")
    other, inputs = copy.deepcopy(model), [torch.randn(6, 8) for _ in range(2)]
    layers = len(wt.profile(model, None, (inputs[0],), seconds=0.01)["layers"])
    ops: Ops = [*(op("F_all", k) for k in range(1, layers + 1)), *(op("B", k) for k in range(layers, 0, -1))]
    for k, o in enumerate(ops):
        o.update(start=k, end=k + 1)
    ops.insert(2, {"op": "O", "tensor": "abar", "layer": 2, "start": 2, "end": 3})
    ops.append({"op": "P", "tensor": "abar", "layer": 2, "start": layers + 1, "end": layers + 2})
    for plan in (checkpointed(layers), chain_plan(ops, "activation-offload")):
        step, made = by_plan(plan, other, None, (inputs[0],), tmp_path), []
        for m, forward in ((model, model), (other, step)):
            m.zero_grad()
            start = copy.deepcopy(m.state_dict())
            made.append(train(m, lambda forward=forward: (forward(inputs[0]) - forward(inputs[1])).pow(2).sum(), 0))
            m.load_state_dict(start)
        assert all(map(same, *made))
    assert step.host_bytes > 0


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda p: p["ops"].pop(0), "needs a_"),
        (lambda p: p["ops"].pop(), "ends before the backward"),
        (lambda p: p.update(problem="pipeline"), "are not run here"),
        (lambda p: p["ops"].append({"op": "B", "layer": 9}), "9 layers"),
        (lambda p: p["ops"][0].update(op="X"), "unknown"),
        (lambda p: p["ops"].insert(1, {"op": "D", "tensor": "abar", "layer": 2}), "needs abar_2"),
        (lambda p: p["ops"].insert(0, {"op": "P", "tensor": "a", "layer": 1, "start": 0, "end": 0}), "does not have"),
        (lambda p: p["ops"].insert(2, {"op": "B", "layer": 2}), "that of layer 4 is due"),
        (lambda p: p.update(format="?"), "format"),
    ],
)
def test_plans_that_break_rules(change: Any, words: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    plan = checkpointed(4)
    change(plan)
    with pytest.raises(wt.UnsupportedError, match=words):
        by_plan(plan, model, planning.total, (torch.ones(2, 3),), tmp_path)


def test_what_is_offloaded_may_not_be_used_before_it_is_back() -> None:
    """A transfer frees at its end, unless the next forward has yet to come (activation-offload)."""
    model, example = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)), (torch.ones(2, 3),)
    captured = capture(Step(model, planning.total, example, {}))
    with captured.stack:
        chain = Chain(captured.joint, children(model))
        ops: Ops = [op("F_all", 1), op("F_all", 2), op("F_all", 3), op("F_all", 4), *(op("B", k) for k in (4, 3, 2, 1))]
        for k, o in enumerate(ops):
            o.update(start=k, end=k + 1)
        ops.insert(1, {"op": "O", "tensor": "abar", "layer": 1, "start": 1, "end": 2})
        with pytest.raises(wt.UnsupportedError, match="B of layer 2 needs a_1 or abar_1"):
            chain.schedule(chain_plan(ops, "remat-offload"))
        ops.append({"op": "P", "tensor": "abar", "layer": 1, "start": 5, "end": 6})
        made = chain.schedule(chain_plan(ops, "remat-offload"))
        names = [o["op"] for o in made["ops"]]
        assert names.index("O") < names.index("O_end") < names.index("P") < names.index("P_end")
        forward, backward = write(captured.joint, made)
        assert "send" in forward.code and "fetched" in backward.code
        once = free_early(captured.joint, [{"op": "C", "node": e.id} for e in captured.joint.entries])
        assert made["claims"]["peak_memory"] <= once[1] and len(made["ops"]) > len(once[0])


def test_a_plan_that_drops_frees(tmp_path: Path) -> None:
    """What is dropped without its backward is freed at once: no cycle keeps it until the loss goes."""
    model, x = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(256, 256), nn.Tanh())]), torch.randn(256, 256)
    meter, peaks = need_meter(torch.device("cpu")), []
    for plan in (checkpointed(9), chain_plan([*(op("F_all", k) for k in range(1, 10)), *(op("B", k) for k in range(9, 0, -1))])):
        step = by_plan(plan, model, planning.total, (x,), tmp_path)
        for _ in range(2):
            before = meter.current()
            meter.reset()
            loss = step(x)
            peaks.append(meter.current() - before)
            loss.backward()
            model.zero_grad()
    assert peaks[1] < 2**18 + 100 < 2**20 <= peaks[3], peaks  # the input of the loss, and one tensor a block
