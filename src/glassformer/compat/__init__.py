"""The border to torch.nn: its attention as a drop-in, its Transformer's weights in and out."""

from __future__ import annotations

from glassformer.compat.attention import MultiheadAttention
from glassformer.compat.transformer import (
    decoder_from_torch,
    decoder_to_torch,
    encoder_from_torch,
    encoder_to_torch,
    from_torch,
    to_torch,
)

__all__ = [
    "MultiheadAttention",
    "decoder_from_torch",
    "decoder_to_torch",
    "encoder_from_torch",
    "encoder_to_torch",
    "from_torch",
    "to_torch",
]
