"""What Python costs in a planned step, and how long planning takes.

    make torch-tables TABLES=share

A step without recomputation is compared with the operations of the same joint graph, called one after the other on tensors that lie ready,
by processor time of one thread: what is left is AOTAutograd's runtime, the step's own checks, and variables that are freed.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
import workbench_torch as wt
from methods import NETWORKS, WIDE, language, text
from torch import fx
from workbench_torch import capture

STEPS = 20


class Interpreter(fx.Interpreter):
    """Runs a joint graph node by node and adds up the time of the calls alone."""

    seconds = 0.0

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        begin = time.process_time()
        made = target(*args, **kwargs)
        self.seconds += time.process_time() - begin
        return made


def main(*names: str) -> None:
    print("| network | operations | eager operations ms | planned step ms | Python % | plain step ms | trace s | plan s |")
    print("| --- " * 8 + "|", flush=True)
    for name in names or ("llama", "gpt2", "vit", "unet", "llama-24"):
        row(name)


def row(name: str) -> None:
    torch.manual_seed(0)
    deep = {**WIDE, "num_hidden_layers": 24, "intermediate_size": 682}
    model, loss, example = text(language("LlamaForCausalLM", "LlamaConfig", **deep), 2, 64) if name == "llama-24" else NETWORKS[name]()
    args, kwargs = ((), example) if isinstance(example, dict) else (example, {})
    begin = time.time()
    step = capture.Step(model, loss, args, kwargs)
    captured = capture.capture(step)
    traced = time.time() - begin
    captured.stack.close()
    joint = captured.joint
    with torch.no_grad():
        given = [of[key].detach() for of, key in captured.tensors(step)] + [step.leaves[k] for k in step.places]
        tangents = [torch.ones(n.meta["val"].shape, dtype=n.meta["val"].dtype) for n in joint.tangents]
        interpreter, eager = Interpreter(joint.gm), []
        for _ in range(STEPS + 1):
            interpreter.seconds = 0.0
            interpreter.run(*given, *tangents)
            eager.append(interpreter.seconds)
    del interpreter, given
    begin = time.time()
    planned = wt.plan(model, loss, example, memory="100%", seconds=10, cache=False)
    planning = time.time() - begin
    ours, plain = times(lambda: planned(*args, **kwargs)), times(lambda: planned.plain(*args, **kwargs))
    calls = statistics.median(eager[1:])
    cells = [name, len(planned.graph["nodes"]), *(f"{1e3 * t:.1f}" for t in (calls, ours)), f"{100 * (ours / calls - 1):+.1f}"]
    print("| " + " | ".join(map(str, [*cells, f"{1e3 * plain:.1f}", f"{traced:.1f}", f"{planning:.1f}"])) + " |", flush=True)


def times(run: Any) -> float:
    """The median processor time of steps, the first of which warms up."""
    taken = []
    for _ in range(STEPS + 1):
        begin = time.process_time()
        run().backward()
        taken.append(time.process_time() - begin)
    return statistics.median(taken[1:])
