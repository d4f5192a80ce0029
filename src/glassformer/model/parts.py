"""The smallest parts, used everywhere: linear maps, dropout, RMSNorm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.products import affine


class Linear(nn.Linear):
    """One linear map, or several that read the same input, kept as one matrix: one large product, not many.

    Xavier-uniform weights, each block of rows as if it stood alone, and zero bias.
    """

    def __init__(
        self, width: int, outs: Sequence[int], bias: bool = True, gains: Sequence[float] | None = None
    ) -> None:
        super().__init__(width, sum(outs), bias)
        self.outs = list(outs)
        gains = gains or [1.0] * len(self.outs)
        for block, gain in zip(self.weight.detach().split(self.outs), gains, strict=True):
            nn.init.xavier_uniform_(block, gain)
        if bias:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return affine(x, self.weight, self.bias)


def linear(width: int, out: int, bias: bool = True, gain: float = 1.0) -> Linear:
    """A linear map by itself."""
    return Linear(width, [out], bias, [gain])


class Dropout(nn.Module):
    """Zero each number with probability p and scale up the rest, in training only.

    On a processor, torch draws one random number for each element in turn, which takes longer than the
    multiplications around it. Here 64 random bits decide four elements (benchmarks/dropout.py). The draws
    stay independent; p is rounded to a multiple of 1/65536, and the scale follows the rounded value.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> bool:
        return self.training and self.p > 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return _CpuDropout.apply(x, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _CpuDropout(torch.autograd.Function):
    """x · keep / (1 - p), with keep drawn sixteen bits an element."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, p: float) -> Tensor:
        out_of = 1 << 16
        dropped = round(p * out_of)
        lanes = _draw((x.numel() + 3) // 4).view(torch.int16)[: x.numel()].view(x.shape)
        # They read as signed numbers: the lowest `dropped` of them fall on zero. Ones and zeros of x's own
        # kind take more memory than truth values, but multiply with it twice as fast.
        keep = torch.ge(lanes, dropped - out_of // 2, out=torch.empty_like(lanes, dtype=x.dtype))
        ctx.save_for_backward(keep)
        ctx.scale = out_of / (out_of - dropped)  # type: ignore[attr-defined]
        return _scaled(x, keep, ctx.scale)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return _scaled(gradients[0], keep, ctx.scale), None  # type: ignore[attr-defined]


def _draw(count: int) -> Tensor:
    """So many times 64 random bits: numpy's SFC64 draws them in half of torch's time, and torch's generator,
    which a run's seed sets, draws the seed for it."""
    seed = torch.empty((), dtype=torch.int64).random_(0, None)
    return torch.from_numpy(np.random.SFC64(int(seed)).random_raw(count))


def _scaled(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    """x · keep · scale in one pass."""
    return torch.addcmul(x.new_zeros(()), x, keep, value=scale)


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε), times a learned gain (Zhang & Sennrich 2019): no mean, no bias."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.epsilon)
