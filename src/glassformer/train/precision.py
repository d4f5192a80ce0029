"""In which numbers a model computes while it learns: bfloat16 for matrix products where that is faster.

Weights, residual sums and the loss stay float32 whatever is chosen.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Literal

import torch

WIDE = 512
"""width of a model from which on a processor's bfloat16 saves much more than the conversions cost"""


def precision(
    wanted: Literal["auto", "float32", "bfloat16"], device: torch.device, width: int
) -> contextlib.AbstractContextManager[object]:
    """What to compute the losses of a model of this width under, as `train.precision` wants it."""
    if wanted == "bfloat16" or (wanted == "auto" and pays(device, width)):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def pays(device: torch.device, width: int) -> bool:
    """Is a model of this width trained faster in bfloat16 there?"""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and width >= WIDE and multiplies_bfloat16()


@cache
def multiplies_bfloat16() -> bool:
    """This processor has instructions for it; others have to emulate them, which is slower than float32."""
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
