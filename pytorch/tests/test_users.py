"""What users bring: right bit by bit, or refused by name before training."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch
from planning import by_hand
from torch import nn
from torch.utils.checkpoint import checkpoint
from workbench_torch import UnsupportedError
from workbench_torch.state import same, tensors


class Square(torch.autograd.Function):
    """A backward of one's own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, delta: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return 2 * delta * ctx.saved_tensors[0]


def network(forward: Callable[..., Any], **parts: Any) -> nn.Module:
    """A module with two linear layers, what else it needs, and a forward."""

    def init(self: Any) -> None:
        nn.Module.__init__(self)
        self.pre, self.post = nn.Linear(8, 8), nn.Linear(8, 8)
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            else:
                self.register_buffer(name, part)

    return type("Net", (nn.Module,), {"__init__": init, "forward": forward})()


def stops(self: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        mean = self.pre(x).mean()
    return self.post(torch.tanh(self.pre(x) - mean))


def averages(self: Any, x: torch.Tensor) -> torch.Tensor:
    h = self.pre(x)
    with torch.no_grad():
        self.mean.mul_(0.9).add_(h.mean(0) * 0.1)
    return self.post(torch.tanh(h - self.mean))


def casts(self: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = self.pre(x)
    return self.post(torch.tanh(h.float()))


def packs(self: Any, x: torch.Tensor) -> torch.Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(self.pre(x), [5, 4, 2], batch_first=True)
    output, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
    return self.post(output)


def masked(self: Any, x: torch.Tensor, mask: Any = None) -> torch.Tensor:
    h = self.pre(x) if mask is None else self.pre(x) * mask
    return self.post(torch.tanh(h))


def checkpoints(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.post(checkpoint(self.body, self.pre(x), use_reentrant=True))


def evaluated() -> nn.Module:
    body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh())
    for k in (1, 3):
        body[k].eval()
    return body


def hooked(shared: bool) -> nn.Module:
    first = nn.Linear(8, 8)
    first.weight.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
    return nn.Sequential(first, nn.Tanh(), first if shared else nn.Linear(8, 8), nn.Sigmoid())


class Channels(nn.Module):
    """Layer normalization of images, whose strides fake tensors of torch 1.13 get wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3), nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.conv(x).flatten(2).swapaxes(1, 2)
        return self.out(torch.tanh(self.norm(h[:, None])).sum(1))


def seen(model: nn.Module) -> nn.Module:
    model[0].register_forward_hook(lambda m, i, o: None)
    return model


def own_generator(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.post(self.pre(x) + torch.randn(x.shape, generator=torch.Generator().manual_seed(1)))


class Keeps(nn.Module):
    """Keeps something in attributes: what, forward says."""

    def __init__(self, forward: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.linear, self.kept, self.count, self.held = nn.Linear(8, 8), torch.zeros(8), 0, {"n": 0}
        self.register_buffer("mean", torch.zeros(8))
        self.run = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, self.linear(x))


def counts(self: Any, y: torch.Tensor) -> torch.Tensor:
    self.count += 1
    return y * (0.1 if self.count < 1000 else 1.0)


def counts_in_a_dict(self: Any, y: torch.Tensor) -> torch.Tensor:
    self.held["n"] += 1
    return y * self.held["n"]


def carries(self: Any, y: torch.Tensor) -> torch.Tensor:
    self.kept = self.kept + y.detach().mean(0)
    return y + self.kept


def replaces(self: Any, y: torch.Tensor) -> torch.Tensor:
    self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
    return y - self.mean


def replaces_memory(self: Any, y: torch.Tensor) -> torch.Tensor:
    self.mean.data = 0.9 * self.mean.data + 0.1 * y.detach().mean(0)
    return y - self.mean


def shrinks(self: Any, y: torch.Tensor) -> torch.Tensor:
    self.linear.weight.data.mul_(0.9)
    return y @ self.linear.weight


def quantizes(self: Any, y: torch.Tensor) -> torch.Tensor:
    """Changes what a distance has saved for a backward that is never asked for."""
    nearest = (y[:, None] - self.mean).pow(2).sum(1).detach()
    self.mean.mul_(0.9).add_(nearest.mean(0))
    return y + (nearest - y).detach()


def keeping(forward: Callable[..., torch.Tensor]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), Keeps(forward), nn.Tanh(), nn.Linear(8, 8))


class Answer(dict):
    """What no one has told pytree of."""


# What it is, how it is made, and what it is called with; then what is said where it is refused.
CASES: Dict[str, Any] = {
    "several inputs": (lambda: network(lambda self, x, y: self.post(torch.tanh(self.pre(x) * y))), lambda: (torch.randn(6, 8), torch.randn(6, 8)), ""),
    "a mask that is None": (lambda: network(masked), lambda: torch.randn(6, 8), ""),
    "any number of inputs": (lambda: network(lambda self, *x: self.post(self.pre(x[0]))), lambda: torch.randn(6, 8), ""),
    "a dict": (lambda: network(lambda self, x: self.post(torch.tanh(self.pre(x["x"])))), lambda: {"x": torch.randn(6, 8)}, ""),
    "complex buffer": (
        lambda: network(lambda self, x: self.post(torch.fft.ifft(torch.fft.fft(self.pre(x)) * self.w).real), w=torch.randn(8, dtype=torch.cfloat)),
        lambda: torch.randn(6, 8), "",
    ),
    "no_grad inside": (lambda: network(stops), lambda: torch.randn(6, 8), ""),
    "a buffer changed under no_grad": (lambda: network(averages, mean=torch.zeros(8)), lambda: torch.randn(6, 8), ""),
    "autocast inside": (lambda: network(casts), lambda: torch.randn(6, 8), ""),
    "parts in eval": (evaluated, lambda: torch.randn(6, 8), ""),
    "checkpoint inside": (
        lambda: network(checkpoints, body=nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3))), lambda: torch.randn(6, 8), "checkpoint",
    ),
    "a backward of one's own": (lambda: network(lambda self, x: self.post(Square.apply(self.pre(x)))), lambda: torch.randn(6, 8), ""),
    "channels last": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).to(memory_format=torch.channels_last),
        lambda: torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last), "",
    ),
    "bfloat16": (lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).bfloat16(), lambda: torch.randn(6, 8).bfloat16(), ""),
    "packed sequences": (lambda: network(packs, rnn=nn.GRU(8, 8, batch_first=True)), lambda: torch.randn(3, 5, 8), "reads the value"),
    "sparse buffer": (
        lambda: network(lambda self, x: self.post(torch.sparse.mm(self.near, self.pre(x))), near=torch.eye(6).to_sparse()),
        lambda: torch.randn(6, 8), "near is torch.sparse_coo",
    ),
    "hook on a parameter": (lambda: hooked(False), lambda: torch.randn(6, 8), ""),
    "hook on a shared parameter": (lambda: hooked(True), lambda: torch.randn(6, 8), ""),
    "draws of Python": (
        lambda: network(lambda self, x: self.post(self.pre(x) * random.random())), lambda: torch.randn(6, 8), "Python's or NumPy's",
    ),
    "a generator of its own": (lambda: network(own_generator), lambda: torch.randn(6, 8), "generator of its own"),
    "lazy modules": (lambda: nn.Sequential(nn.LazyLinear(8), nn.Tanh()), lambda: torch.randn(6, 8), "lazy"),
    "strides of normalized images": (Channels, lambda: torch.randn(2, 3, 9, 9), ""),
    "a counter": (keeping(counts), lambda: torch.randn(6, 8), r"changes Keeps\.count"),
    "a counter in a dict": (keeping(counts_in_a_dict), lambda: torch.randn(6, 8), r"Keeps\.held\.n"),
    "a tensor carried on": (keeping(carries), lambda: torch.randn(6, 8), "register it as a buffer"),
    "a buffer replaced": (keeping(replaces), lambda: torch.randn(6, 8), "state outside of buffers"),
    "a buffer's memory replaced": (keeping(replaces_memory), lambda: torch.randn(6, 8), "state outside of buffers"),
    "weights changed": (keeping(shrinks), lambda: torch.randn(6, 8), "changes the parameter"),
    "quantization": (keeping(quantizes), lambda: torch.randn(6, 8), ""),
    "weight normalization": (
        lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(8, 8)), nn.Tanh(), nn.utils.weight_norm(nn.Linear(8, 8))), lambda: torch.randn(6, 8), "",
    ),
    "other outputs": (
        lambda: network(lambda self, x: Answer(y=self.post(self.pre(x)))), lambda: torch.randn(6, 8), "needs a gradient",
    ),
    "in DataParallel": (lambda: nn.DataParallel(nn.Sequential(nn.Linear(8, 8))), lambda: torch.randn(6, 8), r"\.module"),
    "scripted": (lambda: torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.Tanh())), lambda: torch.randn(6, 8), "ScriptModules"),
    "a hook on a forward": (lambda: seen(nn.Sequential(nn.Linear(8, 8), nn.Tanh())), lambda: torch.randn(6, 8), ""),
    "a GRU": (lambda: network(lambda self, x: self.post(self.rnn(x)[0]), rnn=nn.GRU(8, 8, num_layers=2, dropout=0.5)), lambda: torch.randn(4, 3, 8), "other values than plain training"),
    "volumes": (
        lambda: nn.Sequential(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), nn.ReLU(inplace=True), nn.Dropout3d(0.3), nn.ConvTranspose3d(4, 2, 2)),
        lambda: torch.randn(2, 2, 4, 4, 4), "",
    ),
    "an encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), lambda: torch.randn(2, 5, 8), ""),
}  # fmt: skip


def loss_of(output: Any) -> torch.Tensor:
    return sum(t.float().pow(2).mean() for t in tensors(output) if t.requires_grad)


def begin(model: nn.Module, state: Dict[str, torch.Tensor]) -> None:
    model.load_state_dict(state)
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)


def made(model: nn.Module, loss: torch.Tensor, gradients: List[Any]) -> List[torch.Tensor]:
    return [loss.detach().clone(), torch.rand(1), *(g.clone() for g in gradients if g is not None), *(b.clone() for b in model.buffers())]


def call(model: Any, inputs: Any) -> Any:
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def plain(model: nn.Module, forward: Any, inputs: Any, state: Dict[str, torch.Tensor]) -> List[torch.Tensor]:
    begin(model, state)
    loss = loss_of(call(forward, inputs))
    loss.backward()
    return made(model, loss, [p.grad for p in model.parameters()])


@pytest.mark.parametrize("name", CASES)
def test_is_right_or_refused(name: str, tmp_path: Path) -> None:
    """As a joint graph whose forward runs again in the backward; loading compares it with plain training."""
    make, inputs_of, refused = CASES[name]
    torch.manual_seed(0)
    model, inputs = make(), inputs_of()
    example = inputs if isinstance(inputs, tuple) else (inputs,)
    if refused:
        with pytest.raises(UnsupportedError, match=refused):
            by_hand(model, loss_of, example, tmp_path)
        return
    step, state = by_hand(model, loss_of, example, tmp_path), {k: v.clone() for k, v in model.state_dict().items()}
    for _ in range(2):
        begin(model, state)
        loss = step(*example)
        loss.backward()
        ours = made(model, loss, [p.grad for p in model.parameters()])
        theirs = plain(model, model, inputs, state)
        assert len(ours) == len(theirs) and all(map(same, ours, theirs))
