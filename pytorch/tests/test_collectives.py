"""Steps of several processes: collectives inside of a graph are refused by name, planned steps work in DistributedDataParallel."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F
import workbench_torch as wt
from planning import by_hand
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn.parallel import DistributedDataParallel


class Normalizes(nn.Module):
    """Divides by a maximum over all processes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).tanh()
        most = collectives.all_reduce(h.detach().abs().amax(), "max", dist.group.WORLD)  # the line
        return self.second(h / most).square().sum()


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("compiled", [False, True])
def test_collectives_are_refused(compiled: bool, one_process: None) -> None:
    """Processes that recompute, or whose plans differ, would wait for each other for ever."""
    torch._dynamo.reset()
    model, x = Normalizes().train(), torch.randn(4, 8)
    if compiled:
        with pytest.raises(BackendCompilerFailed) as failed:
            torch.compile(model, backend=wt.backend("range 40%", seconds=1), dynamic=False)(x)
        refused: Any = failed.value.inner_exception
    else:
        with pytest.raises(wt.UnsupportedError) as direct:
            wt.plan(model, None, (x,), memory="range 40%", seconds=1)
        refused = direct.value
    assert isinstance(refused, wt.UnsupportedError) and refused.reason is wt.Reason.COLLECTIVE, refused
    file, _, line = refused.where.rpartition(":")
    expected = "# the line" if compiled else "def forward"  # Dynamo knows the line, a trace the forward
    assert expected in Path(file).read_text().splitlines()[int(line) - 1], refused.where


def trained(rank: int, folder: str) -> None:
    """One process of two: gradients of a planned step and of plain training, both averaged over the processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    found = []
    for planned in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 4)).train()
        torch.manual_seed(1 + rank)
        x, y = torch.randn(6, 8), torch.randn(6, 4)
        own = Path(folder) / str(rank)
        own.mkdir(exist_ok=True)
        step = by_hand(model, F.mse_loss, (x, y), own) if planned else None
        torch.manual_seed(3 + rank)
        parallel = DistributedDataParallel(step or model)
        (parallel(x, y) if planned else F.mse_loss(parallel(x), y)).backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    dist.destroy_process_group()
    torch.save(found, f"{folder}/{rank}.pt")


def test_planned_steps_in_distributed_data_parallel(tmp_path: Path) -> None:
    """Two processes with other batches: gradients are averaged by the hooks of DDP, and equal plain training's."""
    torch.multiprocessing.spawn(trained, (str(tmp_path),), nprocs=2)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for plain, ours in ranks:
        assert len(plain) == 6 and all(map(torch.equal, plain, ours))
    assert all(map(torch.equal, ranks[0][1], ranks[1][1]))
