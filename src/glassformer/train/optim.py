"""How weights move: AdamW or Muon, the learning rate's schedules, and the running mean of the weights.

A schedule is a pure function of the update's number and of how much of the run is over, so a resumed run has
nothing to restore. Limits in updates or epochs make that bit-exact. A limit in minutes does not: the clock
then says how much is over, and no two runs are equally fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.recipe import TrainConfig
from glassformer.train.muon import Muon, matrices_of

Schedule = Callable[[int, float], float]
"""(update, counted from 1; share of the run that is over, 0 to 1) → learning rate"""


def noam(width: int, warmup: int, factor: float = 1.0) -> Schedule:
    """factor · d_model^(−½) · min(step^(−½), step · warmup^(−3/2))   (Eq. 3 of the paper).

    >>> rate = noam(width=512, warmup=4000)
    >>> [f"{rate(step, 0.0):.6e}" for step in (1, 4000, 16000, 100000)]
    ['1.746928e-07', '6.987712e-04', '3.493856e-04', '1.397542e-04']
    """
    return lambda step, over: factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(peak: float, warmup: int) -> Schedule:
    """Up in a straight line, then down with 1/√step: Eq. 3 with a peak of your choice.

    >>> rate = inverse_sqrt(peak=0.1, warmup=100)
    >>> rate(50, 0.0), rate(100, 0.0), rate(400, 0.0)
    (0.05, 0.1, 0.05)
    """
    return lambda step, over: peak * min(step / warmup, math.sqrt(warmup / step))


def constant(peak: float, warmup: int) -> Schedule:
    """Up in a straight line, then level.

    >>> constant(0.1, 100)(50, 0.0), constant(0.1, 100)(5000, 0.9)
    (0.05, 0.1)
    """
    return lambda step, over: peak * min(step / warmup, 1.0)


def linear(peak: float, warmup: int, final: float = 0.0) -> Schedule:
    """Up, then down in a straight line that ends at final · peak when the run does.

    >>> rate = linear(peak=0.1, warmup=100)
    >>> [round(rate(step, step / 1100), 4) for step in (50, 100, 600, 1100)]
    [0.05, 0.1, 0.05, 0.0]
    """
    return _falling(peak, warmup, final, lambda fallen: 1 - fallen)


def cosine(peak: float, warmup: int, final: float = 0.0) -> Schedule:
    """Up, then down along half a cosine.

    >>> rate = cosine(peak=0.1, warmup=100, final=0.2)
    >>> [round(rate(step, step / 1100), 4) for step in (50, 100, 600, 1100)]
    [0.05, 0.1, 0.06, 0.02]
    """
    return _falling(peak, warmup, final, lambda fallen: 0.5 * (1 + math.cos(math.pi * fallen)))


def _falling(peak: float, warmup: int, final: float, shape: Callable[[float], float]) -> Schedule:
    def rate(step: int, over: float) -> float:
        if step <= warmup:
            return peak * step / warmup
        # What was over when the warm-up ended, if updates are equally long; exact when the limit counts them.
        at_peak = over * warmup / step
        fallen = (min(over, 1.0) - at_peak) / (1 - at_peak) if at_peak < 1 else 1.0
        return peak * (final + (1 - final) * shape(fallen))

    return rate


def build_schedule(name: str, *, peak: float, warmup: int, final: float, width: int) -> Schedule:
    """The schedule that a configuration names; for noam `peak` is the factor on Eq. 3."""
    if name == "noam":
        return noam(width, warmup, peak)
    if name in ("linear", "cosine"):
        return {"linear": linear, "cosine": cosine}[name](peak, warmup, final)
    return {"inverse_sqrt": inverse_sqrt, "constant": constant}[name](peak, warmup)


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW whose decay leaves biases and norms alone: they are vectors, and only matrices shrink.

    With `optimizer = "muon"` the matrices inside layers move by Muon and all else as before.
    """
    layers = matrices_of(model) if config.optimizer == "muon" else []
    if config.optimizer == "muon" and not layers:
        raise ConfigError(
            "train.optimizer = 'muon' moves the matrices of a Transformer's layers, and this model has none: "
            "use train.optimizer = 'adamw'"
        )
    apart = {id(layer.weight) for layer in layers}
    parameters = [p for p in model.parameters() if p.requires_grad and id(p) not in apart]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    adam: dict[str, Any] = {
        "betas": (config.beta1, config.beta2),
        "eps": config.epsilon,
        # One pass over memory instead of a dozen; devices without a fused kernel take the usual one.
        "fused": all(p.device.type in ("cpu", "cuda", "mps", "xpu") for p in parameters),
    }
    if not layers:
        return torch.optim.AdamW(groups, lr=0.0, **adam)
    return Muon(
        groups,
        layers,
        momentum=config.momentum,
        rate=config.matrix_rate,
        weight_decay=config.weight_decay,
        **adam,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """What it remembers, under the names of the parameters, such as `exp_avg.encoder.0.…`."""
    return {
        f"{key}.{name}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_tensors(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]
) -> None:
    """The inverse of `optimizer_tensors`. What another kind of optimizer remembered is left out."""
    parameters = dict(model.named_parameters())
    by_muon = {id(matrix) for matrix in optimizer.matrices} if isinstance(optimizer, Muon) else set()
    for key_and_name, value in tensors.items():
        key, _, name = key_and_name.partition(".")
        parameter = parameters[name]
        if (key == "momentum_buffer") == (id(parameter) in by_muon):
            # Adam counts its steps in a tensor that stays where its kernel wants it: beside the parameter.
            optimizer.state[parameter][key] = value.to(parameter.device)


class MovingMean:
    """A mean of the weights that reaches back over about `reach` updates; plain at first, exponential later.

    Until `reach` updates have been seen it is the plain mean of all of them, so nothing of the random start
    remains in it.
    """

    def __init__(self, parameters: Iterable[Tensor], reach: int) -> None:
        self.reach = reach
        self.count = 0
        self.parameters = list(parameters)
        self.mean = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        self.count += 1
        torch._foreach_lerp_(self.mean, self.parameters, 1 / min(self.count, self.reach))

    def restart(self, count: int) -> None:
        """Take the present weights for the mean of `count` updates."""
        self.count = count
        self.mean = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and mean: once to look at the mean, once more to go on training."""
        for parameter, mean in zip(self.parameters, self.mean, strict=True):
            kept = parameter.clone()
            parameter.copy_(mean)
            mean.copy_(kept)
