"""Exceptions of the package: what is wrong, where, and what would be right."""

from __future__ import annotations

import traceback
from enum import Enum
from pathlib import Path

import torch

LIBRARIES = tuple(str(Path(f).parent) + "/" for f in (torch.__file__, __file__))
PYTHON = str(Path(traceback.__file__).parent) + "/"


class Reason(Enum):
    """Why a network or a step is not supported."""

    DATA_DEPENDENT = "control flow depends on the values of a tensor"
    DIFFERS = "the planned step computes other values than plain training"
    DYNAMIC_SHAPES = "sizes are symbolic"
    GRAPH_BREAK = "torch.compile split the network into several graphs"
    HOOK = "a hook changes gradients outside the graph"
    COLLECTIVE = "the step communicates with other processes"
    RANDOM = "random numbers come from a generator that a plan cannot restore"
    TRACE = "the step cannot be traced"
    PROGRAM = "a program that is needed is missing or failed"
    PLAN = "the plan or file does not belong to this step"
    OTHER = "not supported"


class UnsupportedError(RuntimeError):
    """A network, plan or environment that cannot be handled correctly; raised before training starts.

    Attributes:
        reason: the category, for programs.
        where: "file:line" of the user's code; "" where no line is to blame.
        hint: what to change.
    """

    def __init__(self, message: str, *, reason: Reason = Reason.OTHER, where: str = "", hint: str = ""):
        super().__init__(message, reason, where, hint)
        self.message, self.reason, self.where, self.hint = message, reason, where, hint

    def __str__(self) -> str:
        return (f"{self.where}: " if self.where else "") + self.message + (f"; {self.hint}" if self.hint else "")



class DoesNotFitError(RuntimeError):
    """No plan fits into the memory, or none was found.

    Attributes:
        minimum: bytes that any plan for this step needs, or the smallest memory for which one was found.
        largest_batch: samples that would fit if memory grew in proportion to the batch; 0 if unknown.
    """

    def __init__(self, message: str, *, minimum: int = 0, largest_batch: int = 0):
        super().__init__(message, minimum, largest_batch)
        self.message, self.minimum, self.largest_batch = message, minimum, largest_batch

    def __str__(self) -> str:
        return self.message


class ChangedError(RuntimeError):
    """A step got inputs, parameters or modes that none of its plans are for."""


def user_line(error: BaseException | None = None) -> str:
    """Returns "file:line" of the innermost frame of the user's code.

    Args:
        error: the exception whose traceback is searched; None for the current stack.

    Returns:
        The frame outside of torch, Python and this package, or "".
    """
    frames = traceback.extract_tb(error.__traceback__) if error is not None else traceback.extract_stack()
    for f in reversed(frames):
        of_python = f.filename.startswith(PYTHON) and "site-packages" not in f.filename
        if not of_python and not f.filename.startswith((*LIBRARIES, "<")) and "/transformers/utils/" not in f.filename:
            return f"{f.filename}:{f.lineno}"
    return ""
