"""Matrix products of training on a processor, by the faster of the two libraries that torch brings.

torch multiplies float32 matrices with MKL. oneDNN, which it carries for convolutions and half precision,
multiplies the shapes of a Transformer faster, forwards and back to the input (`benchmarks.techniques`); most
gradients of weights stay with MKL, which is faster there. `torch.backends.mkldnn.flags(enabled=False)`
brings MKL back everywhere.

oneDNN prepares a product for each new number of rows, which takes a millisecond and keeps a megabyte: only
large matrices are worth that, and they get round numbers of rows (`model/packing.py`).
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

LARGE = 512 * 512
"""numbers in a matrix from which on oneDNN gains more than preparing costs"""


def affine(x: Tensor, weight_OD: Tensor, bias_O: Tensor | None) -> Tensor:
    """x · Wᵀ + b, whatever axes x has before its last: `F.linear`, and that itself where nobody learns."""
    large = weight_OD.numel() >= LARGE
    if large and torch.is_grad_enabled() and _suits(x) and not torch.is_autocast_enabled("cpu"):
        out: Tensor = _Affine.apply(x, weight_OD, bias_O)
        return out
    return F.linear(x, weight_OD, bias_O)


def times(x: Tensor, weight_OD: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x · Wᵀ + b without a gradient."""
    if _suits(x):
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight_OD, bias_O, "none", [], "")
        return out
    return F.linear(x, weight_OD, bias_O)


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight_OD: Tensor, bias_O: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x, weight_OD)
        return times(x, weight_OD, bias_O)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight_OD = ctx.saved_tensors  # type: ignore[attr-defined]
        (of_out,) = gradients
        for_x, for_weight, for_bias = ctx.needs_input_grad  # type: ignore[attr-defined]
        of_out_NO = of_out.flatten(0, -2)
        return (
            times(of_out, weight_OD.T) if for_x else None,
            _of_weight(of_out_NO, x.flatten(0, -2)) if for_weight else None,
            of_out_NO.sum(0) if for_bias else None,
        )


def _of_weight(of_out_NO: Tensor, x_ND: Tensor) -> Tensor:
    """Both matrices stand the wrong way round for this product: oneDNN minds less where few rows come out."""
    narrows = of_out_NO.shape[1] < x_ND.shape[1]
    return times(of_out_NO.T, x_ND.T) if narrows else of_out_NO.T @ x_ND


def _suits(x: Tensor) -> bool:
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.dim() > 1
        and x.numel() > 0
        and bool(torch.backends.mkldnn.enabled)
        and _has_onednn()
    )


@cache
def _has_onednn() -> bool:
    """Builds of torch for other processors come without it, or without this entrance."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
