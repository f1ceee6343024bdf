"""What users do with planned steps: other inputs than the example, other losses, other weights. Right, or refused by name."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest
import torch
import torch.nn.functional as F
import workbench_torch as wt
from planning import by_hand
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from workbench_torch.planner import program
from workbench_torch.state import same


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 8))


def square(output: torch.Tensor) -> torch.Tensor:
    return output.pow(2).mean()


def by_plan(model: nn.Module, step: Any, given: Tuple[Any, ...]) -> List[torch.Tensor]:
    torch.manual_seed(1)
    model.zero_grad()
    value = step(*given)
    value.backward()
    return [value.detach(), *(p.grad for p in model.parameters())]


def plainly(model: nn.Module, loss: Callable[..., torch.Tensor], given: Tuple[Any, ...]) -> List[torch.Tensor]:
    torch.manual_seed(1)
    model.zero_grad()
    value = loss(model(given[0]), *given[1:])
    value.backward()
    return [value.detach(), *(p.grad for p in model.parameters())]


def numbers(seed: int = 0, *shape: int) -> torch.Tensor:
    return torch.randn(shape or (6, 8), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "example, then",
    [
        (numbers(0), numbers(1, 64, 8)[12:18]),
        (numbers(0, 64, 8)[6:12], numbers(1, 64, 8)[12:18]),
        (numbers(0, 64, 8)[6:12], numbers(1)),
        (numbers(0), numbers(1, 8, 6).t()),
        (numbers(0), numbers(1, 6, 16)[:, ::2]),
        (numbers(0), numbers(1, 1, 8).expand(6, 8)),
    ],
)
def test_graphs_take_any_view(example: torch.Tensor, then: torch.Tensor, tmp_path: Path) -> None:
    """A batch is a slice of the data: its numbers are where it says, not where the example's were."""
    model = network()
    step = by_hand(model, square, (example,), tmp_path)
    assert all(map(same, by_plan(model, step, (then,)), plainly(model, square, (then,))))


def test_inputs_that_share_memory(tmp_path: Path) -> None:
    """One tensor given twice, and views of one tensor, are two tensors in the next step."""
    model, x, others = network(), numbers(0), (numbers(1), numbers(2))
    step = by_hand(model, F.mse_loss, (x, x), tmp_path)
    assert all(map(same, by_plan(model, step, others), plainly(model, F.mse_loss, others)))
    text = numbers(3, 6, 9)
    step = by_hand(model, F.mse_loss, (text[:, :-1], text[:, 1:]), tmp_path)
    for given in ((text[:, 1:], text[:, :-1]), others):
        assert all(map(same, by_plan(model, step, given), plainly(model, F.mse_loss, given)))


def test_gradients_of_inputs_and_of_a_few(tmp_path: Path) -> None:
    """A planned step is one function of autograd: gradients of an input, and of single tensors, are those of plain training."""
    model, x = network(), numbers(0).requires_grad_()
    step = by_hand(model, square, (x,), tmp_path)
    torch.manual_seed(1)
    expected = torch.autograd.grad(square(model(x)), [x, model[0].weight])
    torch.manual_seed(1)
    assert all(map(same, torch.autograd.grad(step(x), [x, model[0].weight]), expected))
    assert all(p.grad is None for p in model.parameters())
    loss = step(x)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_autocast(tmp_path: Path) -> None:
    """Recomputed operations have the types of their first run; the backward is outside of the mode."""
    model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.Dropout(0.2), nn.Linear(8, 4)), numbers(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step = by_hand(model, square, (x,), tmp_path)
    for seed in range(2):
        found = []
        for forward in (step, lambda t: square(model(t))):
            torch.manual_seed(seed)
            model.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = forward(x)
            loss.backward()
            found.append([loss.detach(), *(p.grad for p in model.parameters())])
        assert all(map(same, *found))


def test_weights_that_are_others(tmp_path: Path) -> None:
    """A planned step reads the weights that the network has when it runs."""
    for change in (
        lambda m: setattr(m[0].weight, "data", numbers(1, 8, 8)),
        lambda m: setattr(m[0], "weight", nn.Parameter(numbers(1, 8, 8))),
        lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}),
    ):
        model = network()
        step = by_hand(model, square, (numbers(0),), tmp_path)
        change(model)
        assert all(map(same, by_plan(model, step, (numbers(0),)), plainly(model, square, (numbers(0),))))


class Drops(nn.Module):
    """Dropout by a function, which a trace holds as it was while training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.dropout(self.first(x), 0.5, self.training))


def test_evaluation_of_what_was_traced(tmp_path: Path) -> None:
    model, x = Drops(), numbers(0)
    step = by_hand(model, F.mse_loss, (x, x), tmp_path)
    step.eval()
    assert same(step(x, x), F.mse_loss(model(x), x))


@pytest.mark.parametrize("set_to_none", [False, True])
def test_training(set_to_none: bool, tmp_path: Path) -> None:
    """Gradients of several batches, clipped, and an optimizer, over steps; a weight is used twice."""
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), shared, nn.Tanh(), nn.Linear(8, 8))
    other = copy.deepcopy(model)
    step = by_hand(other, square, (numbers(0),), tmp_path)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, other)]
    for k in range(3):
        for m, forward, optimizer in ((model, model, optimizers[0]), (other, step, optimizers[1])):
            torch.manual_seed(k)
            optimizer.zero_grad(set_to_none=set_to_none)
            for batch in range(2):
                value = forward(numbers(2 * k + batch))
                ((value if forward is step else square(value)) / 2).backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.1)
            optimizer.step()
        assert all(map(same, [*model.parameters(), *model.buffers()], [*other.parameters(), *other.buffers()]))


def test_inputs_without_values_are_refused(tmp_path: Path) -> None:
    """Losses have no backward on the meta device: the graph of a step there would lack it, and its memory be too small."""
    with torch.device("meta"):
        meta, x = network(), torch.zeros(6, 8)
    for model, example, message in [
        (meta, (x,), "0.weight is on the meta device"),
        (network(), (x,), "tensor 0 of the example is on the meta device"),
        (network(), numbers(0), "the example is a tensor, it must be a tuple"),
    ]:
        with pytest.raises(wt.UnsupportedError, match=message):
            wt.profile_graph(model, square, example, device="a100")  # type: ignore[arg-type]
        with pytest.raises(wt.UnsupportedError, match=message):
            wt.plan(model, square, example, memory="50%")  # type: ignore[arg-type]
    with FakeTensorMode():
        fake = network()
    with pytest.raises(wt.UnsupportedError, match=r"0\.weight is a fake tensor"):
        wt.profile_graph(fake, square, (numbers(0),))
    with pytest.raises(wt.UnsupportedError, match="'rtx4090' is unknown: v100, a100, h100, or"):
        wt.profile_graph(network(), square, (numbers(0),), device="rtx4090")
    (tmp_path / "empty.json").touch()
    with pytest.raises(wt.UnsupportedError, match="it is empty"):
        wt.load(tmp_path / "empty.json", network(), square, (numbers(0),))


def test_a_plan_of_the_command_line_runs(tmp_path: Path) -> None:
    """A plan of problem remat for the graph of profile_graph runs as a saved step does, and one for another graph is refused."""
    model, example = network(), (numbers(0),)
    (tmp_path / "graph.json").write_text(json.dumps(wt.profile_graph(model, square, example)))
    plan = tmp_path / "plan.json"
    run = [program(), "solve", str(tmp_path / "graph.json"), "--problem", "remat", "--memory", "100%", "--quiet", "--plan", str(plan)]
    subprocess.run(run, check=True, capture_output=True)
    step = wt.load(plan, model, square, example)
    assert all(map(same, by_plan(model, step, example), plainly(model, square, example)))
    with pytest.raises(wt.UnsupportedError, match="another step"):
        wt.load(plan, nn.Sequential(nn.Linear(8, 8), nn.Tanh()), square, example)
    changed = json.loads(plan.read_text())
    changed["ops"] = changed["ops"][1:]
    plan.write_text(json.dumps(changed))
    with pytest.raises(wt.UnsupportedError, match="INVALID"):
        wt.load(plan, model, square, example)
    (tmp_path / "graph.json").unlink()
    with pytest.raises(wt.UnsupportedError, match="put it next to the plan"):
        wt.load(plan, model, square, example)
