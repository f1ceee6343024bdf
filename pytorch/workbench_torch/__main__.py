"""python -m workbench_torch profile|check|counter: see --help of each.

Exit status: 0 done, 2 what was given cannot be used, 5 a plan that does not hold what it promises.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

BAD_INPUT, BROKEN = 2, 5


def main(arguments: Sequence[str]) -> int:
    """Runs a command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    from .errors import Refused

    try:
        return options.run(options)
    except Refused as e:
        print(f"workbench_torch: {e}", file=sys.stderr)
        return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"workbench_torch: {message}; {self.prog} --help says more\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m workbench_torch", description="Networks of PyTorch in and out of workbench.")
    commands = parser.add_subparsers(required=True, metavar="profile|check|counter")
    profile = commands.add_parser("profile", help="measure a network and write it as a file for workbench")
    _network(profile)
    profile.add_argument("-o", "--output", required=True, metavar="FILE", help="write to FILE")
    profile.add_argument("--repeats", type=_positive, default=9, metavar="N", help="time everything N times (default: 9)")
    profile.add_argument("--graph", action="store_true", help="the whole training step as a graph of operations")
    profile.add_argument("--roofline", default="", metavar="DEVICE", help="of a graph: estimate times for v100, a100, h100 or FLOPS,BYTES")
    profile.set_defaults(run=_profile)
    check = commands.add_parser("check", help="train one step plainly and one by a plan, and compare them")
    _network(check)
    check.add_argument("--instance", required=True, metavar="FILE", help="what profile wrote")
    check.add_argument("--plan", required=True, metavar="FILE", help="a plan for it")
    arena = "addresses for what is kept, by workbench place PLAN --align 64 --csv FILE"
    check.add_argument("--arena", default="", metavar="FILE", help=arena)
    check.add_argument("--steps", type=_positive, default=3, metavar="N", help="times are medians of N steps (default: 3)")
    check.add_argument("--format", choices=["text", "json"], default="text", help="of the output (default: text)")
    check.set_defaults(run=_check)
    counter = commands.add_parser("counter", help="build the counter of CPU memory, and print where it is, for LD_PRELOAD")
    counter.set_defaults(run=_counter)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_positive.__name__ = "positive number"


def _network(parser: argparse.ArgumentParser) -> None:
    """The flags that say which network, and on what."""
    parser.add_argument("network", metavar="MODULE:CALLABLE", help="a function or class that makes the nn.Module")
    parser.add_argument("--args", default="{}", metavar="JSON", help="arguments of CALLABLE: an object of names or a list")
    parser.add_argument("--input", required=True, metavar="SHAPE", help="shape of the input, as 8x3x64x64")
    parser.add_argument("--dtype", default="float32", help="of the input (default: float32)")
    parser.add_argument("--high", type=int, default=0, metavar="N", help="whole numbers are drawn below N")
    parser.add_argument("--loss", choices=["cross_entropy", "sum"], required=True, help="the last layer")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 … (default: cpu)")
    parser.add_argument("--trace", choices=["fake", "real"], default="fake", help="graphs: on tensors without memory, or real ones")
    optimizer = "graphs: the step of sgd, adam or adamw belongs to the training step"
    parser.add_argument("--optimizer", default="", metavar="adam:lr=0.001", help=optimizer)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights, inputs and targets (default: 0)")


def _profile(options: argparse.Namespace) -> int:
    _count(options.device)
    from .compiled import profile_graph
    from .errors import Refused
    from .profiler import profile

    if options.roofline and not options.graph:
        raise Refused("--roofline is for graphs: give --graph, too")
    if options.optimizer and not options.graph:
        raise Refused("--optimizer is for graphs: give --graph, too; of chains its step comes after the plan")
    network = _load(options)
    name = options.network.split(":")[1]
    if options.graph:
        fake = options.trace == "fake"
        optimizer = _optimizer(options, network[0])
        document, _ = profile_graph(
            *network, name=name, repeats=options.repeats, estimate=options.roofline, fake=fake, optimizer=optimizer
        )
    else:
        document, _ = profile(*network, name=name, repeats=options.repeats)
    _write(options.output, document)
    for note in document["source"].get("notes", []):
        print(f"workbench_torch: {note}", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    _count(options.device)
    from .arena import Arena
    from .check import agree_graph, check, check_graph, passes
    from .errors import Refused
    from .graph import trace
    from .plan import read_json

    network = _load(options)
    instance = read_json(options.instance)
    if instance.get("format") == "workbench.graph/v2":
        if options.arena:
            raise Refused("--arena is for plans of chains")
        optimizer = _optimizer(options, network[0])
        graph = trace(*network, fake=options.trace == "fake", optimizer=optimizer)
        agree_graph(graph, instance)
        result = check_graph(*network, graph, options.plan, steps=options.steps, optimizer=optimizer)
    else:
        arena = Arena(options.arena) if options.arena else None
        result = check(*network, instance, options.plan, steps=options.steps, arena=arena)
    if options.format == "json":
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' '):16}  {_text(name, value)}")
    return 0 if passes(result) else BROKEN


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if value is None:
        return "-"
    return f"{value * 1e3:.2f} ms" if name.endswith("_time") else f"{value / 2**20:.2f} MiB"


def _counter(options: argparse.Namespace) -> int:
    from .memory import build_counter

    print(build_counter())
    return 0


def _count(device: str) -> None:
    """Starts this program again with the counter of allocations, where that is needed and can be had."""
    import torch

    from .errors import Refused
    from .memory import build_counter, meter

    if not device.startswith("cpu") or meter(torch.device("cpu")) or os.environ.get("WORKBENCH_COUNTER"):
        return
    try:
        library = str(build_counter())
    except Refused as e:
        print(f"workbench_torch: {e}; overheads are not measured", file=sys.stderr)
        return
    preload = " ".join([library, *filter(None, [os.environ.get("LD_PRELOAD")])])
    environment = {**os.environ, "LD_PRELOAD": preload, "WORKBENCH_COUNTER": "tried"}
    os.execve(sys.executable, [sys.executable, "-m", "workbench_torch", *sys.argv[1:]], environment)


def _load(options: argparse.Namespace) -> tuple[Any, Any, Callable[..., Any], list[Any]]:
    """The network, an input, the loss and its targets."""
    import torch

    from .errors import Refused

    make = _find(options.network)
    try:
        arguments = json.loads(options.args)
        shape = [int(n) for n in options.input.split("x")]
        dtype = getattr(torch, options.dtype)
        device = torch.device(options.device)
        torch.empty(0, device=device)
    except (ValueError, AttributeError, RuntimeError, AssertionError) as e:  # of a device that is not there
        raise Refused(f"--args, --input, --dtype or --device cannot be read: {e}") from e
    if not isinstance(dtype, torch.dtype) or min(shape) < 1:
        raise Refused(f"--dtype {options.dtype} --input {options.input} is no tensor")
    torch.manual_seed(options.seed)
    try:
        model = make(**arguments) if isinstance(arguments, dict) else make(*arguments)
    except Exception as e:  # the user's code
        raise Refused(f"{options.network} failed: {type(e).__name__}: {e}") from e
    if isinstance(model, torch.nn.Module):
        model.to(device).train()
    if dtype.is_floating_point:
        inputs = torch.randn(shape, dtype=dtype).to(device)
    else:
        if options.high < 1:
            raise Refused(f"--dtype {options.dtype} needs --high N: whole numbers are drawn from 0 to N-1")
        inputs = torch.randint(options.high, shape, dtype=dtype).to(device)
    loss, targets = _loss(options.loss, model, inputs)
    return model, inputs, loss, targets


def _optimizer(options: argparse.Namespace, model: Any) -> Any:
    """The optimizer that --optimizer names, as sgd:lr=0.1,momentum=0.9; None where there is none."""
    from .errors import Refused
    from .optimizer import OPTIMIZERS

    if not options.optimizer:
        return None
    name, _, rest = options.optimizer.partition(":")
    makers = {o.__name__.lower(): o for o in OPTIMIZERS}
    if name not in makers:
        raise Refused(f"--optimizer {options.optimizer}: only the steps of {', '.join(makers)} can be part of a graph, as adam:lr=0.001")
    try:
        values: dict[str, Any] = {k: float(v) for k, _, v in (entry.partition("=") for entry in rest.split(",") if entry)}
        values.setdefault("lr", 0.1 if name == "sgd" else 0.001)
        values.update({k: bool(values[k]) for k in ("nesterov", "amsgrad", "maximize") if k in values})
        if "beta1" in values or "beta2" in values:
            values["betas"] = (values.pop("beta1", 0.9), values.pop("beta2", 0.999))
        return makers[name](model.parameters(), **values)
    except (ValueError, TypeError) as e:
        example = "sgd:lr=0.1,momentum=0.9,weight_decay=1e-4 or adam:lr=0.001,beta1=0.9,beta2=0.999"
        raise Refused(f"--optimizer {options.optimizer}: {e}; it must be as {example}") from e


def _find(name: str) -> Callable[..., Any]:
    """What MODULE:CALLABLE names; modules are looked for in the current folder, too."""
    from .errors import Refused

    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as e:
        raise Refused(f"{name} cannot be found: {e}; it must be MODULE:CALLABLE, as torchvision.models:resnet18") from e
    if not callable(found):
        raise Refused(f"{name} is no callable")
    return found


def _loss(name: str, model: Any, inputs: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A loss of the network's output, and targets drawn for it. Classes are the last dimension, of images the second."""
    import torch

    from .errors import Refused
    from .state import State

    state = State(model) if isinstance(model, torch.nn.Module) else None
    output = inputs
    with torch.no_grad():
        for f in [model] if callable(model) else model if isinstance(model, Iterable) else []:
            try:
                output = f(output)
            except Exception as e:  # the user's code
                raise Refused(f"the network does not take a {tuple(inputs.shape)} {inputs.dtype}: {type(e).__name__}: {e}") from e
    if state:
        state.restore()
    if name == "sum":
        return _sum, []
    if not isinstance(output, torch.Tensor) or output.dim() < 2:
        raise Refused(f"cross_entropy needs a tensor of at least two dimensions, the network makes {type(output).__name__}: try --loss sum")
    classes = 1 if output.dim() > 3 else output.dim() - 1
    shape = [n for k, n in enumerate(output.shape) if k != classes]
    return _cross_entropy, [torch.randint(output.shape[classes], shape).to(output.device)]


def _sum(output: Any) -> Any:
    from .state import tensors

    return sum(t.sum() for t in tensors(output) if t.is_floating_point())


def _cross_entropy(output: Any, target: Any) -> Any:
    import torch.nn.functional as F

    if output.dim() > 3:
        return F.cross_entropy(output, target)
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def _write(path: str, document: Any) -> None:
    from .errors import Refused

    try:
        Path(path).write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    except OSError as e:
        raise Refused(f"{path}: {e.strerror}") from e


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
