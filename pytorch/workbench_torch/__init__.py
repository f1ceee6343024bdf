"""PyTorch in and out of workbench: profiles of real networks, and plans that are trained by.

>>> document, chain = profile(model, inputs, loss, targets)    # workbench.chain/v1, to plan for
>>> step = apply(chain, "plan.json")                           # a module whose training follows the plan
>>> step(inputs, *targets).backward()

>>> graph = trace(model, inputs, loss, targets)                # workbench.graph/v2, of the whole step
>>> step = compile_plan(graph, "plan.json")
>>> loss, gradients = step(inputs, *targets)
"""

from .check import check, check_graph
from .compiled import TrainStep, compile_plan, profile_graph
from .cut import cut
from .errors import Refused
from .graph import trace
from .profiler import profile
from .runner import Planned, apply

__all__ = ["Planned", "Refused", "TrainStep", "apply", "check", "check_graph", "compile_plan", "cut", "profile", "profile_graph", "trace"]
