"""Training steps of PyTorch within a memory limit: traced, planned by workbench, and run by the plan.

>>> step = plan(model, loss, (inputs, targets), memory="40GiB")    # a step over the same parameters
>>> step(inputs, targets).backward()                               # gradients of plain training, bit by bit
>>> print(step.report)                                             # planned peak, bound, what is recomputed

>>> compiled = torch.compile(model, backend=backend(memory="40GiB"), dynamic=False)
>>> document, chain = profile(model, inputs, loss, targets)        # workbench.chain/v1, to plan by hand
>>> step = apply(chain, "plan.json")
"""

# ruff: noqa: E402 (the logger is set before anything of torch loads)
import logging
from typing import TYPE_CHECKING, Any

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns where Triton is missing, whose kernels we do not count

from ._binary import __version__
from .chaincheck import check_chain
from .comparison import Check, check
from .cut import cut
from .errors import ChangedError, DoesNotFitError, Reason, UnsupportedError
from .profiler import profile
from .runner import PlannedModule, apply
from .step import Report, Step, load, plan, profile_graph
from .viewer import snapshot

if TYPE_CHECKING:
    from .compiler import Backend, backend, budget

__all__ = [
    "Backend", "ChangedError", "Check", "DoesNotFitError", "PlannedModule", "Reason", "Report", "Step", "UnsupportedError",
    "__version__", "apply", "backend", "budget", "check", "check_chain", "cut", "load", "plan", "profile", "profile_graph",
    "snapshot",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports what needs inductor on first use: that import takes seconds."""
    if name in ("Backend", "backend", "budget"):
        from . import compiler

        return getattr(compiler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
