"""Training steps of PyTorch within a memory limit: traced, planned by workbench, and run by the plan.

>>> step = plan(model, loss, (inputs, targets), memory="40GiB")    # a step over the same parameters
>>> step(inputs, targets).backward()                               # gradients of plain training, bit by bit
>>> print(step.report)                                             # planned peak, bound, what is recomputed

>>> compiled = torch.compile(model, backend=backend(memory="40GiB"), dynamic=False)
>>> document = profile(model, loss, (inputs, targets))             # workbench.chain/v1, to plan by hand
>>> step = load("plan.json", model, loss, (inputs, targets))
"""

# ruff: noqa: E402 (the logger is set before anything of torch loads)
import logging
from typing import TYPE_CHECKING, Any

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns where Triton is missing, whose kernels we do not count

from ._binary import __version__
from .comparison import Check, check
from .errors import ChangedError, DoesNotFitError, Reason, UnsupportedError
from .nested import checkpoints
from .step import Report, Step, load, plan, profile, profile_graph
from .viewer import snapshot

if TYPE_CHECKING:
    from .compiler import Backend, backend, budget

__all__ = [
    "Backend", "ChangedError", "Check", "DoesNotFitError", "Reason", "Report", "Step", "UnsupportedError",
    "__version__", "backend", "budget", "check", "checkpoints", "load", "plan", "profile", "profile_graph", "snapshot",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports what needs inductor on first use: that import takes seconds."""
    if name in ("Backend", "backend", "budget"):
        from . import compiler

        return getattr(compiler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
