"""Matrix products of training on a processor, by the faster of the two libraries that torch brings.

torch multiplies float32 matrices with MKL. oneDNN, which it carries for convolutions and half precision,
multiplies the shapes of a Transformer faster forwards (`benchmarks.techniques`). For gradients it depends on
who made the processor: on Intel's own MKL is faster for all of them; on others oneDNN is, back to the input
and for the weights of maps that narrow. `torch.backends.mkldnn.flags(enabled=False)` brings MKL back
everywhere.

oneDNN prepares a product for each new number of rows, which takes a millisecond and keeps a megabyte: only
large matrices are worth that, and they get round numbers of rows (`model/packing.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

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


def back(of_out: Tensor, weight_OD: Tensor) -> Tensor:
    """of_out · W: from the gradient of what came out of `times` to that of what went in."""
    return of_out @ weight_OD if _mkl_is_at_home() else times(of_out, weight_OD.T)


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
            back(of_out, weight_OD) if for_x else None,
            _of_weight(of_out_NO, x.flatten(0, -2)) if for_weight else None,
            # A product with ones is a sum, and MKL's is twice as fast as torch's.
            of_out_NO.T @ of_out_NO.new_ones(len(of_out_NO)) if for_bias else None,
        )


def _of_weight(of_out_NO: Tensor, x_ND: Tensor) -> Tensor:
    """Both matrices stand the wrong way round for this product: oneDNN minds less where few rows come out."""
    narrows = of_out_NO.shape[1] < x_ND.shape[1]
    return times(of_out_NO.T, x_ND.T) if narrows and not _mkl_is_at_home() else of_out_NO.T @ x_ND


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


@cache
def _mkl_is_at_home() -> bool:
    """Is this one of Intel's processors? Asked, not timed: a resumed run must choose as it did before."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "GenuineIntel" in cpuinfo.read_text()
