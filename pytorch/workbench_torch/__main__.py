"""python -m workbench_torch profile|check|counter: see --help of each.

Exit status: 0 done, 2 wrong usage or input, 5 a plan that does not keep its limit or computes other values.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.nn.functional as F

from .comparison import check
from .errors import UnsupportedError
from .memory import build_counter, meter
from .state import State, tensors
from .step import load, profile

BAD_INPUT, BROKEN = 2, 5


def main(arguments: Sequence[str]) -> int:
    """Runs a command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except UnsupportedError as e:
        print(f"workbench_torch: {e}", file=sys.stderr)
        return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"workbench_torch: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m workbench_torch", description="Chains of PyTorch networks: profiles, and checks of plans.")
    commands = parser.add_subparsers(required=True, metavar="profile|check|counter")
    of_profile = commands.add_parser("profile", help="measure a network as a chain of layers and write it for workbench")
    _network(of_profile)
    of_profile.add_argument("-o", "--output", required=True, metavar="FILE", help="write to FILE")
    of_profile.add_argument("--seconds", type=_seconds, default=3, metavar="S", help="time limit for measuring (default: 3)")
    of_profile.set_defaults(run=_profile)
    of_check = commands.add_parser("check", help="run one step by plain training and one by a plan, and compare them")
    _network(of_check)
    of_check.add_argument("--plan", required=True, metavar="FILE", help="a plan for what profile wrote")
    of_check.add_argument("--steps", type=_positive, default=3, metavar="N", help="times are medians of N steps (default: 3)")
    of_check.add_argument("--format", choices=["text", "json"], default="text", help="of the output (default: text)")
    of_check.set_defaults(run=_check)
    counter = commands.add_parser("counter", help="build the counter of CPU memory and print its path, for LD_PRELOAD")
    counter.set_defaults(run=_counter)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError
    return number


_positive.__name__, _seconds.__name__ = "positive number", "positive number of seconds"


def _network(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for the network and its batch."""
    parser.add_argument("network", metavar="MODULE:CALLABLE", help="a function or class that makes the nn.Module")
    parser.add_argument("--args", default="{}", metavar="JSON", help="arguments of CALLABLE: an object of names or a list")
    parser.add_argument("--input", required=True, metavar="SHAPE", help="shape of the input, as 8x3x64x64")
    parser.add_argument("--dtype", default="float32", help="of the input (default: float32)")
    parser.add_argument("--high", type=int, default=0, metavar="N", help="integers are drawn below N")
    parser.add_argument("--loss", choices=["cross_entropy", "sum"], required=True, help="the last layer")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 … (default: cpu)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights, inputs and targets (default: 0)")


def _profile(options: argparse.Namespace) -> int:
    _preload_counter(options.device)
    model, example, loss = _load(options)
    document = profile(model, loss, example, name=options.network.split(":")[1], seconds=options.seconds)
    try:
        Path(options.output).write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    except OSError as e:
        raise UnsupportedError(f"{options.output}: {e.strerror}") from e
    return 0


def _check(options: argparse.Namespace) -> int:
    _preload_counter(options.device)
    model, example, loss = _load(options)
    step = load(options.plan, model, loss, example)
    found = check(step, steps=options.steps)
    limit = step.report.memory
    within = not limit or (found.measured_peak or 0) <= limit
    result = {"limit": limit, "claimed_peak": step.plan.get("x-claimed-peak", 0), **asdict(found), "within_limit": within}
    if options.format == "json":
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' '):16}  {_text(name, value)}")
    return 0 if within and found.passes else BROKEN


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if value is None:
        return "-"
    return f"{value * 1e3:.2f} ms" if name.endswith("time") else f"{value / 2**20:.2f} MiB"


def _counter(options: argparse.Namespace) -> int:
    print(build_counter())
    return 0


def _preload_counter(device: str) -> None:
    """Restarts this program with the counter of allocations, where that is needed and can be built."""
    if not device.startswith("cpu") or meter(torch.device("cpu")) or os.environ.get("WORKBENCH_COUNTER"):
        return
    try:
        library = str(build_counter())
    except UnsupportedError as e:
        print(f"workbench_torch: {e}; overheads are not measured", file=sys.stderr)
        return
    preload = " ".join([library, *filter(None, [os.environ.get("LD_PRELOAD")])])
    environment = {**os.environ, "LD_PRELOAD": preload, "WORKBENCH_COUNTER": "tried"}
    os.execve(sys.executable, [sys.executable, "-m", "workbench_torch", *sys.argv[1:]], environment)


def _load(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...], Callable[..., Any]]:
    """Returns the network, an example of its input and targets, and the loss."""
    make = _find(options.network)
    try:
        arguments = json.loads(options.args)
        shape = [int(n) for n in options.input.split("x")]
        dtype = getattr(torch, options.dtype)
        device = torch.device(options.device)
        torch.empty(0, device=device)
    except (ValueError, AttributeError, RuntimeError, AssertionError) as e:  # of a device that does not exist
        raise UnsupportedError(f"--args, --input, --dtype or --device cannot be read: {e}") from e
    if not isinstance(dtype, torch.dtype) or min(shape) < 1:
        raise UnsupportedError(f"--dtype {options.dtype} --input {options.input} is no tensor")
    torch.manual_seed(options.seed)
    try:
        model = make(**arguments) if isinstance(arguments, dict) else make(*arguments)
    except Exception as e:  # the user's code
        raise UnsupportedError(f"{options.network} failed: {type(e).__name__}: {e}") from e
    if not isinstance(model, torch.nn.Module):
        raise UnsupportedError(f"{options.network} makes a {type(model).__name__}, it must make an nn.Module")
    model.to(device).train()
    if dtype.is_floating_point:
        inputs = torch.randn(shape, dtype=dtype).to(device)
    else:
        if options.high < 1:
            raise UnsupportedError(f"--dtype {options.dtype} needs --high N: integers are drawn from 0 to N-1")
        inputs = torch.randint(options.high, shape, dtype=dtype).to(device)
    loss, targets = _loss(options.loss, model, inputs)
    return model, (inputs, *targets), loss


def _find(name: str) -> Callable[..., Any]:
    """Returns what MODULE:CALLABLE names; modules are also looked for in the current folder."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as e:
        raise UnsupportedError(f"{name} cannot be found: {e}; it must be MODULE:CALLABLE, as torchvision.models:resnet18") from e
    if not callable(found):
        raise UnsupportedError(f"{name} is no callable")
    return found


def _loss(name: str, model: Any, inputs: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Returns a loss of the network's output, and targets drawn for it. Classes are the last dimension, of images the second."""
    state = State(model)
    with torch.no_grad():
        try:
            output = model(inputs)
        except Exception as e:  # the user's code
            shape = f"{tuple(inputs.shape)} {inputs.dtype}"
            raise UnsupportedError(f"the network does not take a {shape}: {type(e).__name__}: {e}") from e
    state.restore()
    if name == "sum":
        return _sum, []
    if not isinstance(output, torch.Tensor) or output.dim() < 2:
        made = type(output).__name__
        raise UnsupportedError(f"cross_entropy needs a tensor of at least two dimensions, the network makes {made}: try --loss sum")
    classes = 1 if output.dim() > 3 else output.dim() - 1
    of_targets = [n for k, n in enumerate(output.shape) if k != classes]
    return _cross_entropy, [torch.randint(output.shape[classes], of_targets).to(output.device)]


def _sum(output: Any) -> Any:
    return sum(t.sum() for t in tensors(output) if t.is_floating_point())


def _cross_entropy(output: Any, target: Any) -> Any:
    if output.dim() > 3:
        return F.cross_entropy(output, target)
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
