"""Steps of chains by plans of every shape: what is stored, dropped and computed again, and which layers share a graph."""

from __future__ import annotations

import copy
import gc
import json
import random
from pathlib import Path
from typing import Any, Dict, List

import planning
import pytest
import torch
from test_refusals import checkpointed, train
from torch import nn
from workbench_torch import UnsupportedError, apply, cut, profile
from workbench_torch import check_chain
from workbench_torch.cut import same
from workbench_torch.memory import need_meter
from workbench_torch.record import record

Ops = List[Dict[str, Any]]


def op(name: str, layer: int) -> Dict[str, Any]:
    return {"op": name, "layer": layer}


def shaped(draw: random.Random, i: int, j: int) -> Ops:
    """Operations from a_{i-1} and δ_j to δ_{i-1}, of a shape that is drawn.

    Layer i is kept for its backward; or it and more run without gradients up to a checkpoint; or up to a layer
    that is kept while its input is dropped and computed again.
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
    again = [op("F_all", m) for m in range(i, k)]
    return [*up, op("F_all", k), dropped, *shaped(draw, k + 1, j), *again, *(op("B", m) for m in range(k, i - 1, -1))]


def timed(document: Dict[str, Any], ops: Ops) -> Ops:
    """The operations one after the other, with the times of a profile."""
    now, made = 0.0, []
    for o in ops:
        layer = document["layers"][o["layer"] - 1]
        lasts = 0.0 if o["op"] == "D" else layer["backward_time" if o["op"] == "B" else "forward_time"]
        made.append({**o, "start": now, "end": now + lasts})
        now += lasts
    return made


def drawn(seed: int, layers: int) -> Dict[str, Any]:
    ops = shaped(random.Random(seed), 1, layers)
    return {"format": "workbench.plan/v1", "problem": "remat", "platform": {}, "ops": ops}


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
    layers = [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 8), nn.Sigmoid(), nn.Dropout(0.2), nn.Linear(8, 8)]
    if kind == "frozen":
        for m in layers[:2]:
            m.requires_grad_(False)
    return nn.Sequential(*layers)


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
        nonlocal below
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
    model, inputs = nn.Sequential(*body), torch.randn(64, 64)
    document, chain = profile(model, inputs, planning.total, repeats=1)
    instance, file = tmp_path / "net.json", tmp_path / "plan.json"
    instance.write_text(json.dumps(document))
    discards = 0
    for seed in range(20):
        ops = anything(seed, len(chain.layers))
        plan = {"format": "workbench.plan/v1", "problem": "remat", "platform": {"memory": 2**40}, "ops": timed(document, ops)}
        file.write_text(json.dumps(plan))
        verified = planning.workbench("verify", str(instance), str(file), "--format", "json")
        result = check_chain(chain, inputs, planning.total, [], document, plan, steps=0)
        assert result["measured_peak"] <= result["predicted_peak"] <= verified["peak_memory"], (seed, result, verified)
        assert result["loss_equal"] and result["gradients_equal"], seed
        discards += sum(o["op"] == "D" and o["tensor"] == "abar" for o in ops)
    assert discards > 20


def test_a_record_that_is_dropped_frees_what_it_saved() -> None:
    """Nothing of a layer stays when it is dropped without its backward: no cycle through autograd's hooks."""
    meter, layer = need_meter(torch.device("cpu")), cut(nn.Sequential(nn.Linear(64, 64), nn.Tanh()), torch.randn(64, 64)).layers[1]
    inputs = torch.randn(64, 64)
    gc.disable()
    try:
        for resident in (None, set()):
            before = meter.current()
            made = record(layer, inputs, (True,), (), resident)
            assert meter.current() >= before + 64 * 64 * 4
            del made
            assert meter.current() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["plain", "shared", "frozen", "stops"])
def test_plans_of_every_shape(kind: str) -> None:
    """Loss, gradients, buffers and random numbers are those of plain training, over two steps each."""
    model, inputs, followed = network(kind), torch.randn(6, 8), 0
    layers = len(cut(model, inputs).layers) + 1
    for seed in range(40):
        one, other = copy.deepcopy(model), copy.deepcopy(model)
        planned = apply(other, drawn(seed, layers), inputs)
        followed += len(planned.graphs.follows)
        for k in range(2):
            assert all(map(same, train(one, one, inputs, k), train(other, planned, inputs, k))), (seed, k)
    assert followed >= 20


def test_a_graph_of_several_layers_keeps_no_more() -> None:
    """A backward through several layers frees each as it comes out of it: no byte more than one by one."""
    torch.manual_seed(0)
    body = [m for _ in range(4) for m in (nn.Linear(512, 512, bias=False), nn.ReLU(), nn.Dropout(0.1))]
    model, inputs, meter = nn.Sequential(*body, nn.Linear(512, 1)), torch.randn(256, 512), need_meter(torch.device("cpu"))
    peaks = []
    for alone in (False, True):
        planned = apply(model, drawn(2, len(body) + 2), inputs)
        assert len(planned.graphs.follows) > 4
        if alone:
            planned.graphs = type(planned.graphs)()
        for _ in range(2):
            before = meter.current()
            meter.reset()
            planned(inputs).sum().backward()
        peaks.append(meter.peak() - before)
    assert 0 <= peaks[1] - peaks[0] < 1000, peaks


def test_two_steps_at_a_time() -> None:
    """Two batches through one network before the backward of their common loss: each has its own random numbers and buffers."""
    model = network("plain")
    other = copy.deepcopy(model)
    inputs = [torch.randn(6, 8) for _ in range(2)]
    planned = apply(other, checkpointed(9), inputs[0])
    made = []
    for m, forward in ((model, model), (other, planned)):
        torch.manual_seed(0)
        for _ in range(2):
            m.zero_grad(set_to_none=True)  # else plain training adds the parts of both first, which rounds differently
            (forward(inputs[0]) - forward(inputs[1])).pow(2).sum().backward()
        made.append([*(p.grad for p in m.parameters()), *m.buffers(), torch.rand(1)])
    assert all(map(same, *made))


def test_two_steps_at_a_time_with_one_host() -> None:
    """What one step has sent away another must not overwrite."""
    model, inputs = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.ones(2, 3)
    ops: Ops = [op("F_all", 1), op("F_all", 2), op("F_all", 3), op("B", 3), op("B", 2), op("B", 1)]
    for k, o in enumerate(ops):
        o.update(start=k, end=k + 1)
    ops.insert(1, {"op": "O", "tensor": "abar", "layer": 1, "start": 1, "end": 2})
    ops.append({"op": "P", "tensor": "abar", "layer": 1, "start": 3, "end": 4})
    plan = {"format": "workbench.plan/v1", "problem": "activation-offload", "platform": {"bandwidth": 1e9}, "ops": ops}
    planned = apply(model, plan, inputs)
    loss = planned(inputs).sum()
    with pytest.raises(UnsupportedError, match="before the backward of another"):
        planned(inputs)
    loss.backward()
    planned(inputs).sum().backward()
    planned(inputs)  # and drops its loss
    planned(inputs).sum().backward()
