"""wt.plan: networks that people train, as joint graphs, by plans."""

from __future__ import annotations

import gc
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import workbench_torch as wt
from torch import nn
from torch.cuda import _memory_viz
from torchvision import models
from torchvision.models.efficientnet import MBConvConfig as MBConv
from workbench_torch.memory import key

transformers = pytest.importorskip("transformers")
WORDS = 300


def language(model: str, config: str, **options: Any) -> Callable[[], Any]:
    """A network of Hugging Face on two texts of 32 words, which returns its loss."""

    def make() -> Any:
        torch.manual_seed(0)
        special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None if "GPT2" in model else 0}
        network = getattr(transformers, model)(getattr(transformers, config)(vocab_size=WORDS, **special, **options))
        words, labels = (torch.randint(3, WORDS, (2, 32)) for _ in range(2))
        return network.train(), lambda output: output.loss, {"input_ids": words, "labels": labels}

    return make


def vision(make_network: Callable[..., nn.Module], **options: Any) -> Callable[[], Any]:
    """A network of torchvision on two images of 64 x 64."""

    def make() -> Any:
        torch.manual_seed(0)
        network = make_network(num_classes=10, **options)
        return network.train(), F.cross_entropy, (torch.randn(2, 3, 64, 64), torch.randint(10, (2,)))

    return make


class UNet(nn.Module):
    """Two levels down and up, with group normalization and skips."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second, self.third = self.block(3, width), self.block(width, 2 * width), self.block(2 * width, 4 * width)
        self.up, self.last = self.block(6 * width, 2 * width), self.block(3 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    @staticmethod
    def block(made_of: int, width: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(made_of, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        c = F.interpolate(self.third(F.max_pool2d(b, 2)), scale_factor=2.0)
        return self.out(self.last(torch.cat([F.interpolate(self.up(torch.cat([c, b], 1)), scale_factor=2.0), a], 1)))


def unet() -> Any:
    torch.manual_seed(0)
    return UNet().train(), F.mse_loss, (torch.randn(2, 3, 32, 32), torch.randn(2, 3, 32, 32))


def vit() -> Any:
    torch.manual_seed(0)
    network = models.VisionTransformer(64, 8, 3, 4, 64, 128, dropout=0.1, num_classes=10)
    return network.train(), F.cross_entropy, (torch.randn(4, 3, 64, 64), torch.randint(10, (4,)))


HEADS: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 128}
NETWORKS: dict[str, Callable[[], Any]] = {
    "llama": language("LlamaForCausalLM", "LlamaConfig", use_cache=False, **HEADS),
    "gpt2": language("GPT2LMHeadModel", "GPT2Config", n_embd=64, n_layer=2, n_head=4, n_positions=64, use_cache=False),
    "bert": language("BertForMaskedLM", "BertConfig", **HEADS),
    "t5": language(
        "T5ForConditionalGeneration", "T5Config", d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4, use_cache=False,
        decoder_start_token_id=0,
    ),
    "mixtral": language(
        "MixtralForCausalLM", "MixtralConfig", num_key_value_heads=2, num_local_experts=4, use_cache=False, **HEADS
    ),
    "vit": vit,
    "swin": vision(
        models.SwinTransformer, patch_size=[4, 4], embed_dim=48, depths=[1, 1, 2, 1], num_heads=[2, 2, 4, 4], window_size=[4, 4]
    ),
    "convnext": vision(
        models.ConvNeXt, block_setting=[models.convnext.CNBlockConfig(n, 2 * n if n < 256 else None, k) for n, k in ((64, 1), (128, 2), (256, 1))]
    ),
    "resnet": vision(models.resnet18),
    "mobilenet": vision(models.mobilenet_v3_small),
    "efficientnet": vision(
        models.EfficientNet, inverted_residual_setting=[MBConv(*b) for b in ((1, 3, 1, 16, 8, 1), (6, 3, 2, 8, 16, 2), (6, 5, 2, 16, 24, 2))],
        dropout=0.2,
    ),
    "densenet": vision(models.DenseNet, growth_rate=16, block_config=(3, 4, 3), drop_rate=0.1),
    "unet": unet,
}  # fmt: skip
LARGE = ("swin", "convnext", "efficientnet", "densenet")


def planned(name: str, memory: str, **options: Any) -> Any:
    model, loss, example = NETWORKS[name]()
    return wt.plan(model, loss, example, memory=memory, **{"seconds": 4, "cache": False, **options})


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    """Every gradient and buffer is that of plain training, and the measured peak the planned one; dropout is on."""
    step = planned(name, "range 40%" if name in LARGE else "range 30%")
    found = wt.check(step, steps=1)
    assert found.loss_equal and found.gradients_equal and found.buffers_equal
    assert found.measured_peak is not None and abs(found.measured_peak / found.planned_peak - 1) <= 0.005, found
    assert found.measured_peak <= step.report.memory * 1.0001
    assert found.plain_peak is not None and found.measured_peak < found.plain_peak


@pytest.mark.parametrize("name", ["gpt2", "vit"])
def test_random_numbers_are_those_of_the_first_run(name: str, tmp_path: Path) -> None:
    """Masks of dropout that run again in the backward are what they were."""
    step = planned(name, "range 100%", seconds=2)
    step.save(tmp_path / "step.json")
    known = json.loads((tmp_path / "step.json").read_text())
    random = [n["id"] for n in known["graph"]["nodes"] if n.get("random") and n["operation"] != "workbench.rng_state"]
    ops = known["plan"]["ops"]
    place = next(k for k, o in enumerate(ops) if o.get("node") == "boundary")
    ops[place + 1 : place + 1] = [{"op": "C", "node": n, "start": 0, "end": 0} for n in random]
    (tmp_path / "step.json").write_text(json.dumps(known))
    model, loss, example = NETWORKS[name]()
    again = wt.load(tmp_path / "step.json", model, loss, example)  # compares gradients
    assert len(random) > 3 and sum(n for n, _ in again.report.recomputed.values()) >= len(random)
    generator = torch.get_rng_state()
    again.plain(**example) if isinstance(example, dict) else again.plain(*example)
    after = torch.get_rng_state()
    torch.set_rng_state(generator)
    run = again(**example) if isinstance(example, dict) else again(*example)
    run.backward()
    assert torch.equal(after, torch.get_rng_state())


def test_does_not_fit_says_the_minimum() -> None:
    model, loss, example = unet()
    memory = 10 * 2**10
    for said in ("at least", "no plan found"):  # the proved minimum, then the least for which a plan was found
        with pytest.raises(wt.DoesNotFitError, match=said) as refused:
            wt.plan(model, loss, example, memory=memory, seconds=2, cache=False)
        assert memory < refused.value.minimum
        assert not re.search(r"\bn\d+\b", str(refused.value)), "operations are named, not numbered"
        memory = int(1.001 * refused.value.minimum)
    assert wt.plan(model, loss, example, memory=int(1.05 * memory), seconds=4, cache=False).report.peak <= 1.05 * memory


def plainly(model: nn.Module, loss: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    return lambda x, y: loss(model(x), y)


def train(step: Any, optimizer: torch.optim.Optimizer, batches: list[Any]) -> list[float]:
    losses = []
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = step(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_goes_as_without_a_plan() -> None:
    """Several steps with an optimizer: losses, parameters and running statistics."""
    batches = [(torch.randn(2, 3, 64, 64), torch.randint(10, (2,))) for _ in range(3)]
    found = []
    for by_plan in (False, True):
        model, loss, example = NETWORKS["resnet"]()
        step: Any = plainly(model, loss)
        if by_plan:
            step = wt.plan(model, loss, example, memory="range 30%", seconds=3, cache=False)
        torch.manual_seed(1)
        losses = train(step, torch.optim.AdamW(model.parameters()), batches)
        found.append((losses, [t.clone() for t in model.state_dict().values()]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


def test_two_steps_before_their_backwards() -> None:
    """Gradients of two batches in one loss; saved states of generators belong to their step."""
    grads = []
    for by_plan in (False, True):
        model, loss, example = vit()
        step: Any = plainly(model, loss)
        if by_plan:
            step = wt.plan(model, loss, example, memory="range 30%", seconds=3, cache=False)
        torch.manual_seed(1)
        (step(*example) + 2 * step(*example)).backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(*grads, strict=True))


def test_no_loss_returns_the_output() -> None:
    model, _, (images, labels) = unet()
    step = wt.plan(model, None, (images,), memory="range 40%", seconds=2, cache=False)
    output = step(images)
    F.mse_loss(output, labels).backward()
    ours = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    F.mse_loss(model(images), labels).backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(ours, model.parameters(), strict=True) if p.grad is not None)


def test_inputs_may_need_gradients_and_have_other_strides() -> None:
    model, loss, (images, labels) = unet()
    images = images.requires_grad_()
    step = wt.plan(model, loss, (images, labels), memory="range 50%", seconds=2, cache=False)
    strided = torch.randn(2, 32, 32, 3).permute(0, 3, 1, 2).requires_grad_()
    step(strided, labels).backward()
    expected = torch.autograd.grad(loss(model(strided.contiguous()), labels), strided)[0]
    assert strided.grad is not None and torch.allclose(strided.grad, expected)


def test_eval_and_no_grad_run_the_network() -> None:
    step = planned("resnet", "range 50%")
    images, labels = torch.randn(3, 3, 64, 64), torch.randint(10, (3,))
    with torch.no_grad():
        assert torch.equal(step(images, labels), step.plain(images, labels)) or step.model.training
    step.model.eval()
    assert torch.equal(step(images, labels), F.cross_entropy(step.model(images), labels))


def test_other_shapes_are_planned_up_to_eight() -> None:
    model, loss = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)), F.cross_entropy
    step = wt.plan(model, loss, (torch.randn(2, 8), torch.randint(4, (2,))), memory="range 100%", seconds=1, cache=False)
    for batch in range(3, 10):
        step(torch.randn(batch, 8), torch.randint(4, (batch,))).backward()
    with pytest.raises(wt.ChangedError, match="8 plans"):
        step(torch.randn(10, 8), torch.randint(4, (10,)))


def test_hooks_on_parameters_are_called() -> None:
    """Their gradients pass through autograd's own accumulation, so hooks work as always."""
    model, loss, example = unet()
    step = wt.plan(model, loss, example, memory="range 50%", seconds=2, cache=False)
    seen = []
    first = next(model.parameters())
    first.register_hook(lambda g: seen.append(g.shape) or 2 * g)
    step(*example).backward()
    ours = first.grad.clone()
    model.zero_grad()
    loss(model(example[0]), example[1]).backward()
    assert len(seen) == 2 and torch.equal(ours, first.grad)


def test_save_and_load(tmp_path: Path) -> None:
    step = planned("unet", "range 40%")
    step.save(tmp_path / "step.json")
    model, loss, example = unet()
    again = wt.load(tmp_path / "step.json", model, loss, example)
    assert again.plan == step.plan and again.report.peak == step.report.peak
    with pytest.raises(wt.UnsupportedError, match="another step") as refused:
        wt.load(tmp_path / "step.json", nn.Linear(4, 4), F.mse_loss, (torch.randn(2, 4), torch.randn(2, 4)))
    assert refused.value.reason is wt.Reason.PLAN
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(wt.UnsupportedError, match=r"no\.json"):
        wt.load(tmp_path / "no.json", model, loss, example)


def test_snapshot(tmp_path: Path) -> None:
    """PyTorch's own viewer reads it, and its peak is the plan's to the byte."""
    step = planned("unet", "range 40%")
    wt.snapshot(step, tmp_path / "plan.pickle")
    found = pickle.loads((tmp_path / "plan.pickle").read_bytes())
    now = peak = 0
    for e in found["device_traces"][0]:
        now += {"alloc": e["size"], "free_completed": -e["size"]}.get(e["action"], 0)
        peak = max(peak, now)
    assert peak == step.report.peak
    assert all(f(found) for f in (_memory_viz.trace_plot, _memory_viz.segment_plot, _memory_viz.segsum, _memory_viz.trace))


def test_cached_plans_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = planned("unet", "range 40%", cache=True)
    monkeypatch.setenv("WORKBENCH", "/nowhere")
    assert planned("unet", "range 40%", cache=True).plan == first.plan
    with pytest.raises(wt.UnsupportedError) as refused:
        planned("unet", "range 41%", cache=True)
    assert refused.value.reason is wt.Reason.PROGRAM


def test_nothing_stays() -> None:
    """After a step nothing is held but gradients."""
    model, loss, example = unet()
    step = wt.plan(model, loss, example, memory="range 40%", seconds=2, cache=False)
    for _ in range(2):
        step(*example).backward()
        gc.collect()
    before = {key(o) for o in gc.get_objects() if type(o) is torch.Tensor}
    step(*example).backward()
    gc.collect()
    after = {key(o) for o in gc.get_objects() if type(o) is torch.Tensor}
    assert len(after - before) <= 1


# ---- refusals: one exception each, with the line


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        if x.sum() > 0:  # the line
            x = -x
        return x


class Selects(Branches):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        return x[x > 0]  # the line


class Draws(Branches):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import random

        return self.layer(x) * random.random()


class Fails(Branches):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, :3])  # the line


class Counts(Branches):
    """Takes another way while it is traced, as libraries do that ask for fake tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * (1.0 if type(x) is torch.Tensor else 1.1)


def hooked() -> nn.Module:
    model = Branches()
    model.forward = lambda x: model.layer(x)  # type: ignore[method-assign]
    model.layer.register_full_backward_hook(lambda m, i, o: None)  # the line
    return model


@pytest.mark.parametrize(
    "make, reason, line",
    [
        (Branches, wt.Reason.DATA_DEPENDENT, "if x.sum()"),
        (Selects, wt.Reason.DATA_DEPENDENT, "x[x > 0]"),
        (Draws, wt.Reason.RANDOM, ""),
        (Fails, wt.Reason.TRACE, "x[:, :3]"),
        (Counts, wt.Reason.DIFFERS, ""),
        (hooked, wt.Reason.HOOK, "register_full_backward_hook"),
    ],
)
def test_refusals(make: Any, reason: wt.Reason, line: str) -> None:
    """Before training, with the category and the line of the user's code."""
    with pytest.raises(wt.UnsupportedError) as refused:
        wt.plan(make().train(), torch.Tensor.sum, (torch.randn(2, 4),), memory="range 100%", seconds=1, cache=False)
    assert refused.value.reason is reason, refused.value
    if line:
        file, _, number = refused.value.where.rpartition(":")
        assert Path(file).name == Path(__file__).name and line in Path(file).read_text().splitlines()[int(number) - 1], refused.value
        assert refused.value.where in str(refused.value)


@pytest.mark.parametrize("memory", ["much", "-3GiB", "40 parsecs", 0, "nan", None])
def test_memory_that_cannot_be_read(memory: Any) -> None:
    with pytest.raises(wt.UnsupportedError, match="memory"):
        wt.plan(nn.Linear(4, 4), torch.Tensor.sum, (torch.randn(2, 4),), memory=memory)


def test_constants_may_be_asked_for_their_values() -> None:
    """What depends on no input is the same in every step: masks that a network makes and looks at, as Llama does."""

    class Looks(Branches):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            places = torch.arange(x.shape[0])
            return self.layer(x) if bool((places >= 0).all()) else x

    step = wt.plan(Looks().train(), torch.Tensor.sum, (torch.randn(2, 4),), memory="range 100%", seconds=1, cache=False)
    assert wt.check(step, steps=1).gradients_equal
