"""The table of docs/pytorch.md that compares plans with what PyTorch offers, at equal measured peaks.

    make torch-tables TABLES='methods [NETWORK[:METHOD] ...]'

Each row is a network at the peak that a method of PyTorch's takes: checkpoint per block, selective checkpointing that
saves products, or the smallest activation_memory_budget whose peak is below half of store-all's. Ours are planned for
that peak. FLOP are counted, peaks measured, times are medians of processor time over those of plain training.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torchvision  # noqa: E402
import workbench_torch as wt  # noqa: E402
from test_plan import UNet, language  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from workbench_torch.comparison import Trial  # noqa: E402

MIB, SECONDS, STEPS = 2.0**20, 10, 5
PRODUCTS = {
    getattr(torch.ops.aten, n).default
    for n in ("mm", "addmm", "bmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu", "_grouped_mm")
    if hasattr(torch.ops.aten, n)
}  # fmt: skip
WIDE: dict[str, Any] = {"num_attention_heads": 4, "hidden_size": 256, "num_hidden_layers": 4, "use_cache": False}


def text(make: Callable[[], Any], batch: int = 4, length: int = 128) -> Any:
    model, loss, example = make()
    return model, loss, {k: v.repeat(batch // 2, length // 32) for k, v in example.items()}


def images(model: nn.Module, batch: int, side: int) -> Any:
    return model.train(), F.cross_entropy, (torch.randn(batch, 3, side, side), torch.randint(10, (batch,)))


NETWORKS: dict[str, Callable[[], Any]] = {
    "llama": lambda: text(language("LlamaForCausalLM", "LlamaConfig", intermediate_size=682, **WIDE)),
    "gpt2": lambda: text(language("GPT2LMHeadModel", "GPT2Config", n_embd=256, n_layer=4, n_head=4, n_positions=128, use_cache=False)),
    "vit": lambda: images(torchvision.models.VisionTransformer(64, 8, 6, 3, 192, 768, num_classes=10), 16, 64),
    "resnet50": lambda: images(torchvision.models.resnet50(weights=None, num_classes=10), 16, 64),
    "mixtral": lambda: text(
        language("MixtralForCausalLM", "MixtralConfig", intermediate_size=512, num_key_value_heads=4, num_local_experts=4, **WIDE)
    ),
    "unet": lambda: (UNet(32).train(), F.mse_loss, (torch.randn(8, 3, 64, 64), torch.randn(8, 3, 64, 64))),
}
BLOCKS = ("LlamaDecoderLayer", "GPT2Block", "EncoderBlock", "Bottleneck", "MixtralDecoderLayer")


def blocks(model: nn.Module) -> list[nn.Module]:
    if isinstance(model, UNet):
        return [model.first, model.second, model.third, model.up, model.last]
    return [m for m in model.modules() if type(m).__name__ in BLOCKS]


def choose(ctx: Any, function: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if function in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


@contextlib.contextmanager
def checkpointed(model: nn.Module, selective: bool) -> Iterator[None]:
    """Checkpoints of all blocks of a network."""
    found = blocks(model)
    more: dict[str, Any] = {"context_fn": functools.partial(create_selective_checkpoint_contexts, choose)} if selective else {}
    for b in found:
        b.forward = functools.partial(checkpoint, b.forward, use_reentrant=False, **more)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for b in found:
            del b.forward


class Run:
    """Peak, FLOP and time of a way to run a step."""

    def __init__(self, model: nn.Module, forward: Callable[[], Any]):
        trial = Trial(model, forward, STEPS)
        self.peak, self.time = trial.peak or 0, trial.time
        with FlopCounterMode(display=False) as counter:
            made = forward()
            made.backward()
        self.flop = counter.get_total_flops()
        model.zero_grad(set_to_none=True)


def over(a: float, b: float) -> str:
    return f"{100 * (a / b - 1):+.1f}"


def budgets(model: nn.Module, forward: Callable[[Any], Any], most: float) -> Run | None:
    """The fastest of torch's budgets whose peak is at most this, without inductor."""
    fits: list[Run] = []
    for budget in (0.6, 0.4, 0.2, 0.1, 0.0):
        torch._dynamo.reset()
        with torch._functorch.config.patch(activation_memory_budget=budget):
            compiled = torch.compile(model, backend="aot_eager_decomp_partition", dynamic=False)
            run = Run(model, lambda compiled=compiled: forward(compiled))
        if run.peak <= most:
            fits.append(run)
    torch._dynamo.reset()
    return min(fits, key=lambda r: r.flop, default=None)


def table(name: str, only: str) -> None:
    torch.manual_seed(0)
    model, loss, example = NETWORKS[name]()
    named = isinstance(example, dict)

    def forward(network: Any) -> Any:
        return loss(network(**example)) if named else loss(network(*example[:-1]), example[-1])

    plain = Run(model, lambda: forward(model))
    levels: list[tuple[str, Run | None]] = []
    for label, selective in (("checkpoint", False), ("selective", True)):
        if label.startswith(only):
            with checkpointed(model, selective):
                levels.append((label, Run(model, lambda: forward(model))))
    if "budget, half".startswith(only):
        levels.append(("budget, half", budgets(model, forward, 0.5 * plain.peak)))
    for label, theirs in levels:
        if theirs is None:
            print(f"| {name} | {plain.peak / MIB:.1f} | {label} | none fits | | | | | | |", flush=True)
            theirs = Run(model, lambda: forward(model))
            theirs.peak = int(0.5 * plain.peak)
        row = [name, f"{plain.peak / MIB:.1f}", label, f"{theirs.peak / MIB:.1f}", over(theirs.flop, plain.flop), over(theirs.time, plain.time)]
        try:
            step = wt.plan(model, loss, example, memory=theirs.peak, seconds=SECONDS, cache=False)
            ours = Run(model, (lambda: step(**example)) if named else (lambda: step(*example)))
            report = step.report
            equal = "yes" if wt.check(step, steps=1).gradients_equal else "NO"
            row += [f"{ours.peak / MIB:.1f}", over(ours.flop, plain.flop), over(report.time, report.plain_time), over(ours.time, plain.time), equal]
        except wt.DoesNotFitError as e:
            row += [f"needs {e.minimum / MIB:.1f}", "", "", "", ""]
        print("| " + " | ".join(row) + " |", flush=True)


def main(*names: str) -> None:
    print("| network | store-all | at the peak of | MiB | FLOP % | time % | ours MiB | FLOP % | modelled % | time % | bit-equal |")
    print("| --- " * 11 + "|", flush=True)
    for each in names or NETWORKS:
        name, _, only = each.partition(":")
        table(name, only)
