"""Training steps of PyTorch within a memory: traced, planned by workbench, and run by the plan.

>>> step = plan(model, loss, (inputs, targets), memory="40GiB")    # a step over the same parameters
>>> step(inputs, targets).backward()                               # gradients of plain training, bit by bit
>>> print(step.report)                                             # planned peak, bound, what runs again

>>> compiled = torch.compile(model, backend=backend(memory="40GiB"), dynamic=False)
>>> document, chain = profile(model, inputs, loss, targets)        # workbench.chain/v1, to plan for by hand
>>> step = apply(chain, "plan.json")
"""

# ruff: noqa: E402 (the logger is set before anything of torch loads)
import logging
from typing import TYPE_CHECKING, Any

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns where Triton is missing, whose kernels we do not count

from . import check as _check  # noqa: F401 # the modules check and plan, before the functions take their names
from . import plan as _plan  # noqa: F401
from ._binary import __version__
from .check import check_graph
from .comparison import Check, check
from .compiled import TrainStep, compile_plan, profile_graph
from .cut import cut
from .errors import ChangedError, DoesNotFitError, Reason, Refused, UnsupportedError
from .graph import trace
from .profiler import profile
from .runner import Planned, apply
from .step import Report, Step, load, plan
from .viewer import snapshot

if TYPE_CHECKING:
    from .compiler import Backend, backend, budget

__all__ = [
    "Backend", "ChangedError", "Check", "DoesNotFitError", "Planned", "Reason", "Refused", "Report", "Step", "TrainStep",
    "UnsupportedError", "__version__", "apply", "backend", "budget", "check", "check_graph", "compile_plan", "cut", "load",
    "plan", "profile", "profile_graph", "snapshot", "trace",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads what needs inductor when it is first used: importing that takes seconds."""
    if name in ("Backend", "backend", "budget"):
        from . import compiler

        return getattr(compiler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
