"""Torch's masks → ours, here and nowhere else.

In torch.nn a True, or a byte other than 0, means *keep out*, and a float is added to the score, so that -∞
keeps out. Inside Glassformer a mask says `may_attend`, True lets through, and what is added is a `bias`.
"""

from __future__ import annotations

import torch
from torch import Tensor


def may_attend_and_bias(
    attn_mask: Tensor | None, padding_BS: Tensor | None, heads: int, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """One `may_attend` and one `bias` that say what both of torch's masks say; each broadcasts to BHTS.

    >>> hidden = torch.tensor([[False, True]])
    >>> may_attend, bias = may_attend_and_bias(hidden, None, 1, torch.float32)
    >>> may_attend.tolist(), bias
    ([[[[True, False]]]], None)
    >>> may_attend, bias = may_attend_and_bias(torch.tensor([[0.5, float("-inf")]]), None, 1, torch.float32)
    >>> may_attend.tolist(), bias.tolist()
    ([[[[True, False]]]], [[[[0.5, 0.0]]]])
    """
    masks = []
    if attn_mask is not None:
        shape = (-1 if len(attn_mask) else 0, heads if attn_mask.dim() == 3 else 1, *attn_mask.shape[-2:])
        masks.append(attn_mask.reshape(shape))
    if padding_BS is not None:
        masks.append(padding_BS[:, None, None, :])
    if not masks:
        return None, None
    if not any(mask.is_floating_point() for mask in masks):
        allowed = [mask == 0 for mask in masks]
        return allowed[0] if len(allowed) == 1 else allowed[0] & allowed[1], None
    # Added up before they are read: two numbers that are very low, but finite, can make -∞ together.
    added = _added(masks[0], dtype)
    for mask in masks[1:]:
        added = added + _added(mask, dtype)
    blocked = added == float("-inf")
    return ~blocked, added.masked_fill(blocked, 0.0)


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as what is added to the scores."""
    if mask.is_floating_point():
        return mask.to(dtype)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask != 0, float("-inf"))
