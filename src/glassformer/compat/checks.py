"""What torch.nn.MultiheadAttention refuses, refused in the same way: AssertionError where it asserts.

These errors alone are not of our own tree: a program that catches torch's must catch these.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def check_mask_types(**masks: Tensor | None) -> None:
    """Bool, float, and bytes, which torch took in earlier days."""
    for name, mask in masks.items():
        if mask is not None and not mask.is_floating_point() and mask.dtype not in (torch.bool, torch.uint8):
            raise AssertionError(
                f"only bool, byte and floating types of {name} are supported, not {mask.dtype}"
            )


def check_axes(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> None:
    """Three axes for a batch, two for a single sentence, and masks that go with them."""
    axes = query.dim()
    if axes not in (2, 3):
        raise AssertionError(f"query must have 3 axes (a batch) or 2 (one sentence), not {axes}")
    kind = "a batch" if axes == 3 else "one sentence"
    if key.dim() != axes or value.dim() != axes:
        raise AssertionError(
            f"query has {axes} axes ({kind}), so key and value must too, not {key.dim()} and {value.dim()}"
        )
    if padding is not None and padding.dim() != axes - 1:
        raise AssertionError(f"for {kind} key_padding_mask must have {axes - 1} axes, not {padding.dim()}")
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(f"attn_mask must have 2 or 3 axes, not {mask.dim()}")
    wanted = (heads, len(query), len(key))
    if mask is not None and axes == 2 and mask.dim() == 3 and mask.shape != wanted:
        raise AssertionError(f"attn_mask has shape {tuple(mask.shape)}, but should have {wanted}")


def check_widths(query: Tensor, key: Tensor, value: Tensor, module: nn.MultiheadAttention) -> None:
    """The query has the module's width; keys and values belong together."""
    if query.shape[-1] != module.embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {module.embed_dim}, but got {query.shape[-1]}"
        )
    one_width = module._qkv_same_embed_dim
    if key.shape[:-1] != value.shape[:-1] or (one_width and key.shape != value.shape):
        raise AssertionError(f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}")
    if not one_width and (key.shape[-1] != module.kdim or value.shape[-1] != module.vdim):
        raise AssertionError(
            f"was expecting keys of width {module.kdim} and values of width {module.vdim}, "
            f"but got {key.shape[-1]} and {value.shape[-1]}"
        )


def check_sizes(
    q_BTD: Tensor, k_BSD: Tensor, padding_BS: Tensor | None, mask: Tensor | None, heads: int
) -> None:
    """Everything speaks of the same sentences and of the same lengths."""
    batch, target, source = q_BTD.shape[0], q_BTD.shape[1], k_BSD.shape[1]
    if k_BSD.shape[0] != batch:
        raise RuntimeError(f"query has a batch of {batch}, key and value have one of {k_BSD.shape[0]}")
    if mask is not None:
        wanted = (target, source) if mask.dim() == 2 else (batch * heads, target, source)
        if mask.shape != wanted:
            raise RuntimeError(
                f"The shape of the {mask.dim()}D attn_mask is {tuple(mask.shape)}, but should be {wanted}."
            )
    if padding_BS is not None and padding_BS.shape != (batch, source):
        raise AssertionError(
            f"key_padding_mask has shape {tuple(padding_BS.shape)}, but should have {(batch, source)}"
        )
