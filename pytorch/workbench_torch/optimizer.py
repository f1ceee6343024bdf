"""The step of an optimizer as part of a traced training step."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .errors import Refused

# They update each parameter by itself, from states that are zeros before the first step.
OPTIMIZERS = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


class ParameterStep:
    """The step of an optimizer for one parameter: one operation, which changes the parameter and its states.

    It is the optimizer's own code, with its hyperparameters of the time, so that a schedule of them is followed.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, group: dict[str, Any], states: dict[str, Any]):
        self.optimizer, self.group = copy.copy(optimizer), group
        self.names = [k for k, v in states.items() if isinstance(v, torch.Tensor)]
        self.others = {k: v for k, v in states.items() if k not in self.names}

    def __call__(self, parameter: torch.Tensor, gradient: torch.Tensor, *states: torch.Tensor) -> None:
        """Steps one parameter with its gradient and states."""
        self.optimizer.param_groups = [{**self.group, "params": [parameter]}]
        self.optimizer.state = defaultdict(dict, {parameter: {**self.others, **dict(zip(self.names, states))}})
        parameter.grad = gradient
        try:
            self.optimizer.step()
        finally:
            parameter.grad, self.optimizer.param_groups = None, []
            self.optimizer.state.clear()

    def __repr__(self) -> str:
        return f"torch.optim.{type(self.optimizer).__name__}"


class Update:
    """The step of an optimizer, parameter by parameter, on stand-ins.

    States that are not there yet are made, full of zeros: that is the same first step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[tuple[str, nn.Parameter]]):
        name = type(optimizer).__name__
        if type(optimizer) not in OPTIMIZERS:
            raise Refused(
                f"the step of {name} cannot be traced, only those of {', '.join(o.__name__ for o in OPTIMIZERS)}; trace without "
                "an optimizer, and call its step with the gradients that the planned step returns"
            )
        hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")  # of torch 2
        if any(getattr(optimizer, h, None) for h in hooks):
            raise Refused(f"{name} has hooks on its step, which belong to no parameter: take them off, or trace without an optimizer")
        names = {id(p): n for n, p in parameters}
        self.steps: dict[str, tuple[ParameterStep, dict[str, torch.Tensor]]] = {}
        for group in optimizer.param_groups:
            if any(id(p) not in names for p in group["params"]):
                raise Refused(f"{name} updates a parameter that is none of the network")
            for p in group["params"]:
                if p.requires_grad:
                    states = self._states(optimizer, group, p)
                    tensors = {k: v for k, v in states.items() if isinstance(v, torch.Tensor)}
                    self.steps[names[id(p)]] = ParameterStep(optimizer, group, states), tensors

    @staticmethod
    def _states(optimizer: torch.optim.Optimizer, group: dict[str, Any], p: nn.Parameter) -> dict[str, Any]:
        """The states of a parameter; what is missing is what a step without a gradient makes, set to 0."""
        there = optimizer.state.get(p)
        if not there or any(v is None for v in there.values()) and group.get("momentum"):
            if group.get("dampening"):
                raise Refused("SGD with dampening does not dampen its first step: take a step without a plan before")
            other = copy.copy(optimizer)
            like = torch.zeros_like(p, memory_format=torch.preserve_format).detach()
            like.grad = torch.zeros_like(like, memory_format=torch.preserve_format)
            other.param_groups, other.state = [{**group, "params": [like]}], defaultdict(dict)
            other.step()
            optimizer.state[p] = other.state[like]
            for v in optimizer.state[p].values():
                if isinstance(v, torch.Tensor):
                    v.zero_()
        return optimizer.state[p]

    def run(
        self,
        parameters: dict[str, torch.Tensor],
        gradients: dict[str, torch.Tensor | None],
        put: Callable[[torch.Tensor], torch.Tensor],
        note: Callable[[ParameterStep, list[torch.Tensor], list[torch.Tensor]], None],
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Notes the step of each parameter with what it takes and what it changes; the stand-ins of states and the states, by name."""
        kept: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for name, (step, states) in self.steps.items():
            gradient = gradients.get(name)
            stand_ins = [put(v) for v in states.values()]
            kept.update({f"{k} of {name}": (s, v) for s, (k, v) in zip(stand_ins, states.items())})
            if gradient is not None:
                note(step, [parameters[name], gradient, *stand_ins], [parameters[name], *stand_ins])
        return kept
