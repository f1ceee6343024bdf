#!/usr/bin/env python3
"""Peak memory and step time of a Llama-like decoder on one device: workbench's plans and what torch offers.

    python gpu_check.py                     # on a GPU, about four minutes on an H100
    LD_PRELOAD=$(python -m workbench_torch counter) python gpu_check.py --device cpu    # tiny, a smoke test

Rows: store-all, checkpoint of every block, selective checkpointing, torch.compile with memory budgets, and workbench's plan,
backend and budget at the peaks that the former took. Each row has the peak of the allocator beyond weights, the median time
of a step, and whether loss and gradients are those of its reference bit by bit, else the largest relative error. The last
rows repeat some with dropout. The exit status is 1 if a plan took more than 1 % above what it claims, or computed other gradients.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._functorch.config
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, apply_activation_checkpointing, checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

import workbench_torch as wt
from workbench_torch.memory import need_meter

SIZES = {  # on a GPU, on a CPU
    "layers": (16, 2), "width": (2048, 64), "length": (2048, 64), "batch": (4, 2), "steps": (10, 3), "words": (32000, 500),
    "dtype": ("bfloat16", "float32"), "backends": ("aot_eager,inductor", "aot_eager"),
}  # fmt: skip
TOLERANCE = 1.01


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options; sizes that are not given are those for the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    for name, (large, small) in SIZES.items():
        parser.add_argument(f"--{name}", type=type(large), help=f"default: {large} on a GPU, {small} on a CPU")
    parser.add_argument("--budgets", default="1,0.5,0.3,0.1", help="of torch.compile (default: %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the last rows; 0: there are none (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=280, help="no row is begun after this long (default: %(default)s)")
    parser.add_argument("--json", default="gpu_check.json", metavar="FILE", help="where rows are written (default: %(default)s)")
    options = parser.parse_args(arguments)
    for name, of in SIZES.items():
        if getattr(options, name) is None:
            setattr(options, name, of[not options.device.startswith("cuda")])
    return options


class Norm(nn.Module):
    """Root mean square normalization."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns x over its root mean square."""
        return F.rms_norm(x, (x.shape[-1],), self.weight)


class Block(nn.Module):
    """Attention with rotary positions and grouped keys, and a gated feed-forward layer."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.groups, self.size = heads, heads // 2, width // heads
        hidden = -(-8 * width // 3 // 64) * 64
        self.norms = nn.ModuleList([Norm(width), Norm(width)])
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, self.groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down, self.dropout = nn.Linear(hidden, width, bias=False), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Returns the block's output for x, batch × length × width."""
        batch, length, width = x.shape

        def split(y: torch.Tensor, heads: int) -> torch.Tensor:
            return y.view(batch, length, heads, self.size).transpose(1, 2)

        def turn(y: torch.Tensor) -> torch.Tensor:
            half = self.size // 2
            return y * cos + torch.cat((-y[..., half:], y[..., :half]), -1) * sin

        y = self.norms[0](x)
        q, k, v = turn(split(self.q(y), self.heads)), turn(split(self.k(y), self.groups)), split(self.v(y), self.groups)
        k, v = (z.repeat_interleave(2, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.o(y))
        y = self.norms[1](x)
        return x + self.dropout(self.down(F.silu(self.gate(y)) * self.up(y)))


class Decoder(nn.Module):
    """A decoder as Llama's, without downloads."""

    def __init__(self, options: argparse.Namespace, dropout: float = 0.0):
        super().__init__()
        width, heads = options.width, max(2, options.width // 64)
        self.embedding = nn.Embedding(options.words, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(options.layers))
        self.norm, self.head = Norm(width), nn.Linear(width, options.words, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(options.length), 1e4 ** -torch.arange(0, size, 2).div(size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy, in float32."""
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())


class Whole(nn.Module):
    """A network and its loss, as one graph for torch.compile."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the loss."""
        return loss_of(self.model(tokens), targets)


@dataclass
class Result:
    """What a step made: its loss and gradients on the host, and its peak."""

    loss: torch.Tensor
    gradients: list[torch.Tensor | None]
    peak: int

    def error(self, other: Result) -> float:
        """Returns 0 if the other's loss and gradients are equal bit by bit, else the largest relative error, at least 1e-30."""
        pairs = [(self.loss, other.loss), *zip(self.gradients, other.gradients, strict=True)]
        if all((a is None) == (b is None) and (a is None or b is None or torch.equal(a, b)) for a, b in pairs):
            return 0.0
        errors = (float((a.float() - b.float()).norm() / (a.float().norm() + 1e-30)) for a, b in pairs if a is not None and b is not None)
        return max(1e-30, *errors)


Made = tuple[nn.Module, Callable[[], torch.Tensor], int]  # a network, a step that returns its loss, the peak claimed or 0


@dataclass
class Bench:
    """Measures rows on a device and keeps them."""

    options: argparse.Namespace
    device: torch.device
    rows: list[dict[str, Any]] = field(default_factory=list)
    begun: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.meter = need_meter(self.device)

    def build(self, dropout: float = 0.0) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
        """Returns the network with fresh weights, tokens and targets: the same each time."""
        o = self.options
        torch.manual_seed(0)
        model = Decoder(o, dropout).to(self.device, getattr(torch, o.dtype)).train()
        tokens, targets = torch.randint(o.words, (2, o.batch, o.length), generator=torch.Generator().manual_seed(1)).to(self.device)
        return model, tokens, targets

    def row(self, label: str, make: Callable[[], Made], like: Result | None = None) -> Result | None:
        """Measures one row, writes all rows and prints it; None if there is no time, no memory or no plan for it.

        Args:
            label: names the row.
            make: makes the network and its step.
            like: what the step must make.
        """
        row: dict[str, Any] = {"row": label}
        self.rows.append(row)
        result = None
        if time.time() - self.begun > self.options.seconds:
            row["skipped"] = "no time left"
        else:
            try:
                result = self._measure(row, make(), like)
            except (torch.OutOfMemoryError, wt.DoesNotFitError) as e:
                row["skipped"] = f"{type(e).__name__}: {e}"[:160]
        gc.collect()
        print(text(row), flush=True)
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        with open(self.options.json, "w") as file:
            json.dump({"options": vars(self.options), "torch": torch.__version__, "device": name, "rows": self.rows}, file, indent=1)
        return result

    def _measure(self, row: dict[str, Any], made_by: Made, like: Result | None) -> Result:
        model, step, claimed = made_by
        begun = time.time()
        self._step(model, step)
        row["first_s"] = round(time.time() - begun, 1)
        gc.collect()
        base = self.meter.current()
        self.meter.reset()
        loss, _ = self._step(model, step, keep=True)
        made = Result(loss.cpu(), [None if p.grad is None else p.grad.cpu() for p in model.parameters()], self.meter.peak() - base)
        model.zero_grad(set_to_none=True)
        times = sorted(self._step(model, step)[1] for _ in range(self.options.steps))
        row.update(peak_bytes=made.peak, ms=1e3 * statistics.median(times), ms_least=1e3 * times[0], ms_most=1e3 * times[-1])
        if claimed:
            row["claimed_bytes"] = claimed
        if like is not None:
            row["relative_error"] = like.error(made)
        return made

    def _step(self, model: nn.Module, step: Callable[[], torch.Tensor], keep: bool = False) -> tuple[torch.Tensor, float]:
        torch.manual_seed(7)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter if self.device.type == "cuda" else time.process_time
        begun = now()
        loss = step()
        loss.backward()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        seconds = now() - begun
        if not keep:
            model.zero_grad(set_to_none=True)
        return loss.detach(), seconds


def text(row: dict[str, Any]) -> str:
    """Returns a row as a line."""
    if "skipped" in row:
        return f"{row['row']:48} {row['skipped']}"
    error = row.get("relative_error")
    equal = "" if error is None else "equal" if error == 0 else f"differs by {error:.1e}"
    claimed = f"  claimed {row['claimed_bytes'] / 2**20:.1f}" if "claimed_bytes" in row else ""
    return f"{row['row']:48} {row['peak_bytes'] / 2**20:9.1f} MiB {row['ms']:9.2f} ms  {equal}{claimed}"


def checkpointed(bench: Bench, context: Callable[[], Any] | None, dropout: float = 0.0) -> Made:
    """A network whose blocks are checkpoints, as Bench.row takes it."""
    model, tokens, targets = bench.build(dropout)
    more = {"context_fn": context} if context else {}
    wrap = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT, **more)
    apply_activation_checkpointing(model, checkpoint_wrapper_fn=wrap, check_fn=lambda m: isinstance(m, Block))
    return model, lambda: loss_of(model(tokens), targets), 0


def selective(every: int) -> Callable[[], Any]:
    """Selective checkpointing as torchtitan's: attention and every n-th product of matrices are saved."""
    aten = torch.ops.aten
    names = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
    attention = {getattr(aten, f"_scaled_dot_product_{name}").default for name in names}

    def contexts() -> Any:
        count = {False: 0, True: 0}

        def policy(context: Any, operation: Any, *arguments: Any, **more: Any) -> CheckpointPolicy:
            save = operation in attention
            if operation is aten.mm.default:
                count[context.is_recompute] += 1
                save = count[context.is_recompute] % every == 0
            return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts


def planned(bench: Bench, memory: int | str, dropout: float = 0.0) -> Made:
    """A step of wt.plan, as Bench.row takes it."""
    model, tokens, targets = bench.build(dropout)
    step = wt.plan(model, loss_of, (tokens, targets), memory=memory)
    return model, lambda: step(tokens, targets), step.report.peak


def compiled(bench: Bench, backend: Any, settings: dict[str, Any], memory: int | str | None = None, dropout: float = 0.0) -> Made:
    """A step through torch.compile with settings of functorch, and with wt.budget if there is a memory."""
    torch._dynamo.reset()
    model, tokens, targets = bench.build(dropout)
    whole = torch.compile(Whole(model), fullgraph=True, dynamic=False, backend=backend)

    def step() -> torch.Tensor:
        with torch._functorch.config.patch(**settings):
            if memory is None:
                return whole(tokens, targets)
            with wt.budget(memory):
                return whole(tokens, targets)

    if not isinstance(backend, wt.Backend):
        return model, step, 0
    step().backward()
    model.zero_grad(set_to_none=True)
    return model, step, max(r.peak for r in backend.reports)


def run(bench: Bench) -> None:
    """Measures all rows."""
    options = bench.options

    def plain(dropout: float = 0.0) -> Made:
        model, tokens, targets = bench.build(dropout)
        return model, lambda: loss_of(model(tokens), targets), 0

    eager = bench.row("store-all", plain)
    usual = {"checkpoint of every block": None, "selective, all products": selective(1), "selective, every second product": selective(2)}
    peaks: dict[str, int] = {}
    for label, context in usual.items():
        made = bench.row(label, lambda context=context: checkpointed(bench, context), eager)
        if made is not None:
            peaks[label] = made.peak
    for label, peak in peaks.items():
        bench.row(f"wt.plan at the peak of {label.split(',')[-1].strip()}", lambda peak=peak: planned(bench, peak), eager)
    bench.row("wt.plan at 25%", lambda: planned(bench, "range 25%"), eager)
    budgets = [float(b) for b in options.budgets.split(",")]
    for backend in options.backends.split(","):
        own = None
        for budget in budgets:
            settings = {"activation_memory_budget": budget}
            made = bench.row(f"{backend}, budget {budget:g}", lambda s=settings, b=backend: compiled(bench, b, s), own)
            own = own or made
        for memory in ("range 25%", "range 50%"):
            if backend == "inductor":
                bench.row(f"wt.budget at {memory}", lambda m=memory: compiled(bench, "inductor", {}, m), own)
            else:
                bench.row(f"wt.backend at {memory}", lambda m=memory: compiled(bench, wt.backend(m), {}), own)
    if options.dropout:
        p = options.dropout
        eager = bench.row(f"dropout {p:g}: store-all", lambda: plain(p))
        bench.row(f"dropout {p:g}: wt.plan at 25%", lambda: planned(bench, "range 25%", p), eager)
        whole = None
        for budget in (1.0, 0.3):
            settings = {"activation_memory_budget": budget}
            label = f"dropout {p:g}: aot_eager, budget {budget:g}"
            made = bench.row(label, lambda s=settings: compiled(bench, "aot_eager", s, None, p), whole)
            whole = whole or made


def faults(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns what plans did not hold: rows above their claim, and rows with other gradients than their reference."""
    found = []
    for row in rows:
        if row.get("claimed_bytes", 0) * TOLERANCE < row.get("peak_bytes", 0) and "claimed_bytes" in row:
            found.append(f"{row['row']}: {row['peak_bytes']} bytes, claimed {row['claimed_bytes']}")
        if "claimed_bytes" in row and row.get("relative_error"):
            found.append(f"{row['row']}: gradients differ by {row['relative_error']:.1e}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script and returns its exit status."""
    options = parse(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("gpu_check: torch sees no GPU here; --device cpu runs a small network", file=sys.stderr)
        return 2
    if device.type == "cpu":
        torch.set_num_threads(1)
    bench = Bench(options, device)
    run(bench)
    print(f"{time.time() - bench.begun:.0f} s; rows are in {options.json}")
    found = faults(bench.rows)
    for fault in found:
        print(f"gpu_check: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
