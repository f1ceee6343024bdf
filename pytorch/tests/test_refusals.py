"""What cannot be done right is refused by name, before training; what is unusual is done right."""

from __future__ import annotations

import copy
from typing import Any, Dict, List

import networks
import pytest
import torch
from torch import nn
from workbench_torch import UnsupportedError, apply, cut
from workbench_torch.cut import same


def checkpointed(layers: int) -> Dict[str, Any]:
    """A plan that keeps a_0 only and computes everything again for each backward."""
    ops: List[Dict[str, Any]] = []
    for top in range(layers, 0, -1):
        for layer in range(1, top):
            ops.append({"op": "F_ck", "layer": layer})
            if layer > 1:
                ops.append({"op": "D", "tensor": "a", "layer": layer - 1})
        ops += [{"op": "F_all", "layer": top}, {"op": "B", "layer": top}]
    return {"format": "workbench.plan/v1", "problem": "remat", "platform": {}, "ops": ops}


def train(model: Any, forward: Any, inputs: torch.Tensor, seed: int = 1) -> List[torch.Tensor]:
    """Loss, gradients and buffers of one step."""
    torch.manual_seed(seed)
    loss = forward(inputs).float().pow(2).mean()
    loss.backward()
    made = [loss.detach(), torch.rand(1), *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()]
    return [t.clone() for t in made]


def agree(model: nn.Module, inputs: torch.Tensor, steps: int = 2) -> None:
    """Steps of a model and of a copy that computes everything again are equal."""
    other = copy.deepcopy(model)
    layers = cut(other, inputs).layers
    planned = apply(other, checkpointed(len(layers) + 1), inputs)
    assert len(layers) > 1
    for seed in range(steps):  # gradients add up over steps
        ours = train(other, planned, inputs, seed)
        theirs = train(model, model, inputs, seed)
        assert len(ours) == len(theirs) and all(map(same, theirs, ours))


def test_in_place_layers() -> None:
    body = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 5), nn.Tanh()]
    agree(nn.Sequential(*body), torch.randn(2, 3, 8, 8))


def test_input_in_place() -> None:
    with pytest.raises(UnsupportedError, match="changes its input in place"):
        cut(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)), torch.randn(2, 4))


class Spoils(nn.Module):
    """Doubles in place what the layer behind it needs for its backward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        y = self.second(h)
        return y + h.mul_(2)


def test_in_place_after_it_was_saved() -> None:
    """Plain training fails in its backward; hooks that keep what is saved would hide that."""
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        Spoils()(torch.randn(2, 4)).sum().backward()
    with pytest.raises(UnsupportedError, match="changes a tensor in place that its backward needs"):
        cut(Spoils(), torch.randn(2, 4))


def test_buffers_that_matter() -> None:
    """Spectral normalization computes with the buffers that it changes."""
    first, second = (nn.utils.spectral_norm(nn.Linear(6, n)) for n in (6, 3))
    agree(nn.Sequential(first, nn.ReLU(), second, nn.Dropout(0.3)), torch.randn(4, 6))


def test_shared_parameters() -> None:
    """Gradients of a layer that is used three times are added as plain training does."""
    shared = nn.Linear(8, 8)
    agree(nn.Sequential(shared, nn.ReLU(), shared, nn.Tanh(), shared, nn.Sigmoid()), torch.randn(5, 8), steps=3)


def test_frozen_layers_and_gradients_of_inputs() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())
    for p in model[0].parameters():
        p.requires_grad_(False)
    other = copy.deepcopy(model)
    inputs = [torch.ones(3, 4, requires_grad=k) for k in (False, True, True)]
    planned = apply(other, checkpointed(5), inputs[0])
    model(inputs[0]).sum().backward()
    planned(inputs[0]).sum().backward()
    assert all((p.grad is None and q.grad is None) or same(p.grad, q.grad) for p, q in zip(model.parameters(), other.parameters()))
    with pytest.raises(UnsupportedError, match="the plan is for inputs"):
        planned(inputs[1])
    model(inputs[1]).sum().backward()
    apply(other, checkpointed(5), inputs[2])(inputs[2]).sum().backward()
    assert same(inputs[1].grad, inputs[2].grad)


def test_several_outputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> Any:
            return self.a(x), self.b(x).relu(), x.sum().detach()

    class One(nn.Module):
        def forward(self, x: Any) -> torch.Tensor:
            return x[0] * x[1]

    agree(nn.Sequential(Two(), One(), nn.Linear(4, 2)), torch.randn(3, 4))


def test_autocast() -> None:
    """Layers run again in the mode of their first run; the backward is outside of it."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.Dropout(0.2), nn.Linear(32, 4))
    other, inputs = copy.deepcopy(model), torch.randn(8, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        planned = apply(other, checkpointed(6), inputs)

    def mixed(f: Any) -> Any:
        def forward(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return f(x)

        return forward

    for seed in range(2):
        assert all(map(same, train(model, mixed(model), inputs, seed), train(other, mixed(planned), inputs, seed)))


def test_evaluation_is_plain() -> None:
    model = networks.LSTM().eval()
    tokens = torch.randint(500, (2, 5))
    planned = apply(networks.LSTM().train(), checkpointed(7), tokens)
    planned.model.load_state_dict(model.state_dict())
    with torch.no_grad():
        planned.eval()
        assert same(planned(tokens), model(tokens))


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class DropsLayers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if float(torch.rand(1)) < 0.5 else x * 3


class Counts(nn.Module):
    steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return x * self.steps


class Reads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.max().item()


@pytest.mark.parametrize(
    "model, words",
    [(Decides(), "Control flow"), (Reads(), "item"), (DropsLayers(), "random numbers that steer"), (Counts(), "depends on more")],
)
def test_refused(model: nn.Module, words: str) -> None:
    """Control flow by data, by random numbers, state outside of buffers."""
    with pytest.raises(UnsupportedError, match=words):
        apply(nn.Sequential(nn.Linear(3, 3), model) if isinstance(model, Counts) else model, checkpointed(3), torch.ones(2, 3))


def test_hooks_are_refused() -> None:
    model = networks.GPT(layers=1, width=8, heads=2, length=4, words=10)
    model.blocks[0].register_forward_hook(lambda m, i, o: o)
    with pytest.raises(UnsupportedError, match="hooks"):
        cut(model, torch.randint(10, (1, 4)))


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda p: p["ops"].pop(0), "needs a_"),
        (lambda p: p["ops"].pop(), "ends before the backward"),
        (lambda p: p.update(problem="pipeline"), "are not run here"),
        (lambda p: p["ops"].append({"op": "B", "layer": 9}), "9 layers"),
        (lambda p: p["ops"][0].update(op="X"), "unknown|needs"),
        (lambda p: p["ops"][0].update(shift=1), "shift"),
        (lambda p: p.update(format="?"), "format"),
    ],
)
def test_plans_that_break_rules(change: Any, words: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    plan = checkpointed(4)
    change(plan)
    with pytest.raises(UnsupportedError, match=words):
        apply(model, plan, torch.ones(2, 3))


def test_training_that_would_go_wrong() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    planned = apply(model, checkpointed(4), torch.ones(2, 3))
    output = planned(torch.ones(2, 3))
    loss = output.sum()
    output.data.add_(1)
    with torch.no_grad():
        output.add_(1)
    with pytest.raises(UnsupportedError, match="in place before the backward"):
        loss.backward()
    loss = planned(torch.ones(2, 3)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(UnsupportedError, match="twice"):
        loss.backward()
    model[0].eval()
    with pytest.raises(UnsupportedError, match="train/eval"):
        planned(torch.ones(2, 3))


class Forms(nn.Module):
    """Calls functions of C that have several forms, of which one takes a number first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.pow(self.first(x), 3.0)
        return self.last(torch.where(x > 0, x, 0.0))


def test_functions_of_several_forms_are_traced() -> None:
    """Their parser reads a tensor where a proxy only claims to be one, and ended the process."""
    model, x = Forms(), torch.randn(2, 4)
    assert torch.equal(traced_forms(model, (x,))(x), model(x))


def traced_forms(model: nn.Module, example: Any) -> Any:
    from workbench_torch.tracer import trace as forward_of

    return forward_of(model, example)


class Misfits(Forms):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x)[:, :3])  # the line


def test_a_trace_that_fails_says_where() -> None:
    with pytest.raises(UnsupportedError) as refused:
        traced_forms(Misfits(), (torch.randn(2, 4),))
    assert "depends on data" not in str(refused.value)
    file, _, line = refused.value.where.rpartition(":")
    assert "the line" in open(file).read().splitlines()[int(line) - 1]
