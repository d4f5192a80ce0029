"""The Transformer without one of its parts, where no setting of the model says so.

Parts that have a name in the configuration are plugged in under one (`score = "unscaled"`, `norm_kind =
"no-norm"`), as docs/EXTENDING.md shows. The others are taken out of a finished model: modules are plain
objects, and each of these functions puts another one in their place.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer import extend
from glassformer.model.layers import PostNorm, PreNorm
from glassformer.model.scores import ScaledDot
from glassformer.model.transformer import Transformer


@extend.score("unscaled")
class Unscaled(ScaledDot):
    """q·k as it is: neither divided by √d_k, nor started smaller to make up for it."""

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__(head_width)
        self.factor = 1.0


@extend.norm("no-norm")
def no_norm(width: int) -> nn.Module:
    return nn.Identity()


class Repeated(nn.Module):
    """In place of projections: the same numbers again, once for each of queries, keys and values."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x_BTD: Tensor) -> Tensor:
        return torch.cat([x_BTD] * self.times, dim=-1)


class NoResidual(nn.Module):
    """Dropout(Sublayer(LayerNorm(x))), or LayerNorm(Dropout(Sublayer(x))): what went in is not added."""

    def __init__(self, residual: PreNorm | PostNorm) -> None:
        super().__init__()
        self.first = residual.norm if isinstance(residual, PreNorm) else nn.Identity()
        self.last = residual.norm if isinstance(residual, PostNorm) else nn.Identity()
        self.dropout = residual.dropout

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.last(self.dropout(sublayer(self.first(x_BTD))))


class Skipped(nn.Module):
    """In place of a residual: its sub-layer does not happen."""

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x_BTD


def raw(model: Transformer) -> None:
    """Q = K = V = x in self-attention, and K = V = the encoder's states; W^O stays, it mixes the heads."""
    for reader in model.encoder.layers:
        reader.attention.query_key_value = Repeated(3)  # type: ignore[assignment]
    for layer in model.decoder.layers:
        layer.attention.query_key_value = Repeated(3)  # type: ignore[assignment]
        layer.cross.query = nn.Identity()  # type: ignore[assignment]
        layer.cross.key_value = Repeated(2)  # type: ignore[assignment]


def no_residual(model: Transformer) -> None:
    _replace_residuals(model, ("attention_residual", "cross_residual", "feed_forward_residual"), NoResidual)


def no_feed_forward(model: Transformer) -> None:
    _replace_residuals(model, ("feed_forward_residual",), lambda _: Skipped())
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.feed_forward = nn.Identity()


def _replace_residuals(
    model: Transformer, names: tuple[str, ...], make: Callable[[PreNorm | PostNorm], nn.Module]
) -> None:
    for layer in (*model.encoder.layers, *model.decoder.layers):
        for name in names:
            if hasattr(layer, name):
                setattr(layer, name, make(getattr(layer, name)))


CHANGES: dict[str, Callable[[Transformer], None]] = {
    "raw": raw,
    "no-residual": no_residual,
    "no-feed-forward": no_feed_forward,
}
