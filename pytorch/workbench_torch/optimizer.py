"""The step of an optimizer as part of a traced training step."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.optim.sgd import sgd  # type: ignore[attr-defined] # the stubs of 1.13 lack it

from .errors import Refused

MOMENTUM = "momentum_buffer"


class Update:
    """The step of torch.optim.SGD, with or without momentum, on stand-ins of the parameters.

    Learning rate, momentum and the like become constants of the trace. Momenta that are not there yet
    are made, full of zeros: without dampening that is the same first step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[Tuple[str, nn.Parameter]]):
        name = type(optimizer).__name__
        if type(optimizer) is not torch.optim.SGD:
            raise Refused(
                f"the step of {name} cannot be traced, only that of SGD: others compute with the number of the step, which is "
                "no tensor; trace without an optimizer, and call its step with the gradients that the planned step returns"
            )
        names = {id(p): n for n, p in parameters}
        self.groups: List[Tuple[Dict[str, Any], List[str]]] = []
        self.momenta: Dict[str, torch.Tensor] = {}
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                raise Refused("the learning rate is a tensor: give it as a number, which becomes a constant of the trace")
            if any(id(p) not in names for p in group["params"]):
                raise Refused(f"{name} updates a parameter that is none of the network")
            learned = [p for p in group["params"] if p.requires_grad]
            self.groups.append((group, [names[id(p)] for p in learned]))
            for p in learned if group["momentum"] else ():
                self.momenta[names[id(p)]] = self._momentum(optimizer, group, p)

    @staticmethod
    def _momentum(optimizer: torch.optim.Optimizer, group: Dict[str, Any], p: nn.Parameter) -> torch.Tensor:
        state = optimizer.state[p]
        if state.get(MOMENTUM) is None:
            if group["dampening"]:
                raise Refused("SGD with dampening does not dampen its first step: take a step without a plan before")
            state[MOMENTUM] = torch.zeros_like(p, memory_format=torch.preserve_format).detach()
        return state[MOMENTUM]

    def run(
        self, parameters: Dict[str, torch.Tensor], gradients: Dict[str, Optional[torch.Tensor]], put: Callable[[torch.Tensor], torch.Tensor]
    ) -> Dict[str, Tuple[torch.Tensor, torch.Tensor]]:
        """Takes the step; returns the stand-ins of momenta and the momenta, by name."""
        stand_ins = {name: put(m) for name, m in self.momenta.items()}
        with torch.no_grad():
            for group, names in self.groups:
                used = [n for n in names if gradients.get(n) is not None]
                sgd(
                    [parameters[n] for n in used], [gradients[n] for n in used], [stand_ins.get(n) for n in used],
                    has_sparse_grad=False, foreach=False,
                    **{k: group[k] for k in ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")},
                )  # fmt: skip
        return {f"momentum of {n}": (stand_ins[n], m) for n, m in self.momenta.items()}
