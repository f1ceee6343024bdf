"""wt.backend and wt.budget: plans inside torch.compile."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import workbench_torch as wt
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from workbench_torch.memory import need_meter


class Block(nn.Module):
    """A perceptron beside a residual, with dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Stack(nn.Module):
    def __init__(self, depth: int = 4, width: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for b in self.blocks:
            x = b(x)
        return x.square().mean()


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def made(**options: Any) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Stack(**options).train(), torch.randn(64, 64)


def gradients(model: nn.Module, run: Any, *given: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    run(*given).backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(map(torch.equal, a, b))


def peak(model: nn.Module, run: Any, *given: torch.Tensor) -> int:
    meter = need_meter(torch.device("cpu"))
    model.zero_grad(set_to_none=True)
    gc.collect()
    before = meter.current()
    meter.reset()
    run(*given).backward()
    return meter.peak() - before


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_backend_is_exact(dropout: float) -> None:
    """The measured peak is the planned one, gradients are those of plain training, with random operations that run again."""
    model, x = made(dropout=dropout)
    backend = wt.backend("range 35%", seconds=3, cache=False)
    compiled = torch.compile(model, backend=backend, dynamic=False)
    assert equal(gradients(model, model, x), gradients(model, compiled, x))
    (report,) = backend.reports
    assert abs(peak(model, compiled, x) / report.peak - 1) <= 0.005
    assert report.recomputed


def test_loss_outside_of_the_graph() -> None:
    model = nn.Sequential(*[Block(64, 0.1) for _ in range(3)]).train()
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    compiled = torch.compile(model, backend=wt.backend("range 40%", seconds=2, cache=False), dynamic=False)
    assert equal(gradients(model, lambda v: F.mse_loss(model(v), y), x), gradients(model, lambda v: F.mse_loss(compiled(v), y), x))


def test_batch_statistics_are_updated_once() -> None:
    model = nn.Sequential(*[m for _ in range(3) for m in (nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())]).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x, states = torch.randn(2, 4, 16, 16), []
    for run in (model, torch.compile(model, backend=wt.backend("range 30%", seconds=2, cache=False), dynamic=False)):
        model.load_state_dict(before)
        run(x).sum().backward()
        states.append({k: v.clone() for k, v in model.state_dict().items()})
    assert all(torch.equal(v, states[1][k]) for k, v in states[0].items())


class Breaks(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks[0](x)
        torch._dynamo.graph_break()  # the line
        for b in self.blocks[1:]:
            x = b(x)
        return x.square().mean()


def test_graph_breaks_are_refused_or_planned_apart() -> None:
    torch.manual_seed(0)
    model, x = Breaks().train(), torch.randn(64, 64)
    with pytest.raises(BackendCompilerFailed) as failed:
        torch.compile(model, backend=wt.backend("range 40%", seconds=2), dynamic=False)(x)
    refused: Any = failed.value.inner_exception
    assert isinstance(refused, wt.UnsupportedError) and refused.reason is wt.Reason.GRAPH_BREAK
    file, _, line = refused.where.rpartition(":")
    assert "the line" in Path(file).read_text().splitlines()[int(line) - 1]
    torch._dynamo.reset()
    backend = wt.backend("1GiB", seconds=2, cache=False, graph_breaks=True)
    assert equal(gradients(model, model, x), gradients(model, torch.compile(model, backend=backend, dynamic=False), x))
    assert len(backend.reports) == 2 and backend.reports[1].memory < backend.reports[0].memory


def test_symbolic_sizes_are_refused() -> None:
    model, x = made()
    with pytest.raises(BackendCompilerFailed, match="dynamic=False"):
        torch.compile(model, backend=wt.backend("range 40%", seconds=2), dynamic=True)(x[:48])


def tagged(policy: CheckpointPolicy) -> Any:
    def choose(ctx: Any, function: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return policy if function is torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE

    return lambda: create_selective_checkpoint_contexts(choose)


class Tagged(nn.Module):
    def __init__(self, policy: CheckpointPolicy) -> None:
        super().__init__()
        self.blocks, self.contexts = nn.ModuleList(Block(64, 0.0) for _ in range(3)), tagged(policy)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False, context_fn=self.contexts)
        return x.square().mean()


@pytest.mark.parametrize("policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE])
def test_policies_are_constraints(policy: CheckpointPolicy) -> None:
    """What must be saved runs once however little memory there is, and what must be recomputed twice however much."""
    torch.manual_seed(0)
    model, x = Tagged(policy).train(), torch.randn(64, 64)
    backend = wt.backend("range 20%" if policy is CheckpointPolicy.MUST_SAVE else "range 100%", seconds=2, cache=False)
    compiled = torch.compile(model, backend=backend, dynamic=False)
    assert equal(gradients(model, model, x), gradients(model, compiled, x))
    ((graph, plan),) = backend.plans
    products = [n["id"] for n in graph["nodes"] if n["operation"] == "aten.addmm.default"]
    ran = [o["node"] for o in plan["ops"] if o["op"] == "C"]
    if policy is CheckpointPolicy.MUST_SAVE:
        assert len(ran) > len(set(ran)) and all(ran.count(n) == 1 for n in products)
    else:
        assert any(n.endswith("_recomputed") for n in products)


def test_budget_through_inductor() -> None:
    """Less memory than inductor takes by itself, and the same gradients, with dropout: its masks are made of seeds that are kept."""
    model, x = made(depth=2, dropout=0.2)
    plain = torch.compile(model, dynamic=False)
    expected, without = gradients(model, plain, x), peak(model, plain, x)
    torch._dynamo.reset()
    with wt.budget("range 10%", seconds=3, cache=False):
        compiled = torch.compile(model, dynamic=False)
        ours = gradients(model, compiled, x)
    assert peak(model, compiled, x) < without
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(expected, ours, strict=True))


def test_budgets_of_torch_change_gradients_with_dropout() -> None:
    """Budgets of torch run random operations again without their seeds; when this fails, torch is mended."""
    found = []
    for budget in (1.0, 0.1):
        torch._dynamo.reset()
        model, x = made(depth=4, width=64, dropout=0.2)
        with torch._functorch.config.patch(activation_memory_budget=budget):
            found.append(gradients(model, torch.compile(model, backend="aot_eager_decomp_partition", dynamic=False), x))
    worst = max(float((a - b).norm() / a.norm()) for a, b in zip(*found, strict=True))
    assert worst > 0.01
