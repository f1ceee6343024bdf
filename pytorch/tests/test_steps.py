"""What users do with planned steps: other inputs than the example, other losses, other weights. Right, or refused by name."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest
import torch
import torch.nn.functional as F
from planning import by_hand
from test_refusals import checkpointed
from torch import nn
from workbench_torch import UnsupportedError, apply, cut
from workbench_torch.cut import same


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 8))


def square(output: torch.Tensor) -> torch.Tensor:
    return output.pow(2).mean()


def planned(model: nn.Module, inputs: Any) -> Any:
    return apply(model, checkpointed(len(cut(model, inputs).layers) + 1), inputs)


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


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: Any = None, scale: float = 1.0) -> torch.Tensor:
        h = self.first(x) if mask is None else self.first(x) * mask
        return self.second(torch.tanh(h)) * scale


@pytest.mark.parametrize(
    "example, then",
    [((), (numbers(1),)), ((numbers(1),), (None,)), ((numbers(1), 1.0), (numbers(1), 2.0)), ((numbers(1),), (numbers(1)[:1],))],
)
def test_what_a_trace_took_for_a_constant(example: Tuple[Any, ...], then: Tuple[Any, ...]) -> None:
    model, x = Masked(), numbers(0)
    with pytest.raises(UnsupportedError, match="another shape, type or value"):
        planned(model, (x, *example))(x, *then)


def test_inputs_with_gradients() -> None:
    """An encoder before the network, or the gradient of an image."""
    model, x = Masked(), numbers(0)
    step = planned(model, (x, numbers(1)))
    for refused in (lambda: step(x, nn.Linear(8, 8)(x)), lambda: planned(model, (x, nn.Linear(8, 8)(x)))):
        with pytest.raises(UnsupportedError, match="after the first needs a gradient"):
            refused()


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


def test_gradients_of_a_few() -> None:
    """Who asks for the gradient of the input would find those of all weights in .grad."""
    x = numbers(0).requires_grad_()
    model = network()
    step = planned(model, x)
    for ask in (lambda loss: torch.autograd.grad(loss, x), lambda loss: loss.backward(inputs=[x])):
        with pytest.raises(UnsupportedError, match="of a few tensors"):
            ask(square(step(x)))
        assert all(p.grad is None for p in model.parameters())
    with pytest.raises(UnsupportedError, match="second derivatives"):
        square(step(x)).backward(create_graph=True)


class Beside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        self.extra = y.pow(2).mean()
        return y


def test_losses_beside_the_output() -> None:
    """An auxiliary loss in an attribute may be read; its gradient would be lost."""
    model, x = nn.Sequential(Beside(), nn.Tanh(), nn.Linear(8, 8)), numbers(0)
    step = planned(model, x)
    loss = square(step(x))
    model(x)
    expected = float(model[0].extra)
    loss = square(step(x))
    assert float(model[0].extra) == expected
    with pytest.raises(UnsupportedError, match=r"Beside\.extra is part of the loss"):
        (loss + model[0].extra).backward()
    square(step(x)).backward()


class Drops(nn.Module):
    """Dropout by a function, which a trace holds as it was while training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.dropout(self.first(x), 0.5, self.training))


@pytest.mark.parametrize("with_loss", [False, True])
def test_evaluation_of_what_was_traced(with_loss: bool) -> None:
    model, x = Drops(), numbers(0)
    chain = cut(model, x, F.mse_loss, [x]) if with_loss else cut(model, x)
    step = apply(chain, checkpointed(len(chain.layers) + (not with_loss)))
    step.eval()
    assert same(step(x, x), F.mse_loss(model(x), x)) if with_loss else same(step(x), model(x))


@pytest.mark.parametrize("set_to_none", [False, True])
def test_training(set_to_none: bool) -> None:
    """Gradients of several batches, clipped, and an optimizer, over steps; a weight is used twice."""
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), shared, nn.Tanh(), nn.Linear(8, 8))
    other = copy.deepcopy(model)
    step = planned(other, numbers(0))
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, other)]
    for k in range(3):
        for m, forward, optimizer in ((model, model, optimizers[0]), (other, step, optimizers[1])):
            torch.manual_seed(k)
            optimizer.zero_grad(set_to_none=set_to_none)
            for batch in range(2):
                (square(forward(numbers(2 * k + batch))) / 2).backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.1)
            optimizer.step()
        assert all(map(same, [*model.parameters(), *model.buffers()], [*other.parameters(), *other.buffers()]))
