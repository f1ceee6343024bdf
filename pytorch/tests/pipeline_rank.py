"""One rank of a pipeline on CPU, run by test_pipeline.py: loads a schedule, runs one step, and writes gradients and saved bytes."""

from __future__ import annotations

import json
import sys
import time
import weakref
from pathlib import Path

import torch
from torch import nn

WIDTH, LAYERS, ROWS = 64, 8, 4


class Block(nn.Module):
    """A layer that saves its input and not its output. It sleeps first, if it is given seconds to sleep."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, hidden), nn.GELU(), nn.Linear(hidden, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def network() -> list[Block]:
    """Return the layers, the same in every process."""
    torch.manual_seed(7)
    return [Block(64 + 32 * (i % 3)) for i in range(LAYERS)]


def batch(micro_batches: int) -> torch.Tensor:
    """Return the input of a step."""
    torch.manual_seed(11)
    return torch.randn(micro_batches * ROWS, WIDTH)


def loss_of(output: torch.Tensor, _target: torch.Tensor) -> torch.Tensor:
    """Return a loss that saves nothing."""
    return output.sum()


class Saved:
    """Counts the bytes of the storages that autograd or the pipeline holds, each once, and their peak."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self.ignored = {p.untyped_storage().data_ptr() for p in parameters}
        self.holders: dict[int, int] = {}
        self.bytes: dict[int, int] = {}
        self.peak = 0

    def hold(self, holder: object, tensor: torch.Tensor) -> None:
        """Count the storage of a tensor until the holder is gone."""
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key in self.ignored:
            return
        self.holders[key] = self.holders.get(key, 0) + 1
        self.bytes[key] = storage.nbytes()
        self.peak = max(self.peak, sum(self.bytes.values()))
        weakref.finalize(holder, self.drop, key)

    def drop(self, key: int) -> None:
        """Forget one holder of a storage."""
        self.holders[key] -= 1
        if self.holders[key] == 0:
            del self.holders[key], self.bytes[key]

    def pack(self, tensor: torch.Tensor) -> Packed:
        """Return what autograd keeps in place of a saved tensor."""
        packed = Packed(tensor)
        self.hold(packed, tensor)
        return packed


class Packed:
    """A saved tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


def run(task: dict, rank: int, out: Path) -> None:
    """Run the stages of a rank and write what they did."""
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out / 'store'}", rank=rank, world_size=task["ranks"])
    layers, starts = network(), [0]
    for n in task["cuts"]:
        starts.append(starts[-1] + n)
    own = [i for i, r in enumerate(task["placement"]) if r == rank]
    modules = {i: nn.Sequential(*layers[starts[i] : starts[i + 1]]) for i in own}
    saved = Saved([p for m in modules.values() for p in m.parameters()])
    last = len(task["cuts"]) - 1
    device = torch.device("cpu")
    stages = [PipelineStage(modules[i], i, last + 1, device) for i in own]
    schedule = _PipelineScheduleRuntime(stages, task["micro_batches"], loss_fn=loss_of, scale_grads=False)
    schedule._load_csv(task["schedule"])
    x = batch(task["micro_batches"])
    pieces = [piece.clone() for piece in x.chunk(task["micro_batches"])]  # each a storage of its own
    inputs = {"arg_mbs": [(piece,) for piece in pieces] if 0 in own else None, "target_mbs": pieces if last in own else None}
    schedule.step(**inputs, return_outputs=False)  # finds the shapes
    for module in modules.values():
        module.zero_grad()
    for i in own:
        if i != last:
            modules[i].register_forward_hook(lambda _m, _i, output: saved.hold(output, output))
    dist.barrier()
    started = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda packed: packed.tensor):
        schedule.step(**inputs, return_outputs=False)
    elapsed = time.perf_counter() - started
    gradients = {starts[i] + k: [p.grad for p in layers[starts[i] + k].parameters()] for i in own for k in range(task["cuts"][i])}
    torch.save(gradients, out / f"gradients-{rank}.pt")
    (out / f"rank-{rank}.json").write_text(json.dumps({"peak": saved.peak, "left": sum(saved.bytes.values()), "elapsed": elapsed}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    run(json.loads((folder / "task.json").read_text()), int(sys.argv[1]), folder)
