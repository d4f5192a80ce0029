"""How alike are a query and a key? Each score maps q_BHTK and k_BHSK to scores_BHTS.

    scaled dot   q·k / √d                      Eq. 1 of the paper
    additive     aᵀ tanh(q W + k U)            Bahdanau et al. 2015
    bilinear     q W kᵀ / √d                   Luong et al. 2015, "general"
    projected    (q W)·(k U) / √d              both sides mapped into one space first

All but the scaled dot product have parameters of their own in each head, and take queries and keys of
different widths. `scale="init"` leaves out the division by √d and starts with smaller weights instead.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer import extend
from glassformer.errors import ConfigError

Scale = Literal["sqrt", "init"]


class Score(nn.Module):
    """The base of all scores. To plug in your own, derive and write `forward` (docs/EXTENDING.md)."""

    def forward(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        raise NotImplementedError

    def __call__(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        return super().__call__(q_BHTK, k_BHSK)


class ScaledDot(Score):
    """q·k / √d_k. Without the division, long dot products push the softmax to where its gradient dies."""

    def __init__(self, head_width: int, scale: Scale = "sqrt") -> None:
        super().__init__()
        self.factor = 1 / math.sqrt(head_width) if scale == "sqrt" else 1.0

    def forward(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        return (q_BHTK * self.factor) @ k_BHSK.transpose(-2, -1)


class Additive(Score):
    """aᵀ tanh(q W + k U): a small feed-forward network looks at both. Costs T·S·hidden tanh's."""

    def __init__(self, heads: int, query_width: int, key_width: int, hidden: int = 0) -> None:
        super().__init__()
        hidden = hidden or query_width
        self.query_HKJ = _matrix(heads, query_width, hidden)
        self.key_HKJ = _matrix(heads, key_width, hidden)
        self.vector_HJ = nn.Parameter(torch.randn(heads, hidden) / math.sqrt(hidden))

    def forward(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        both_BHTSJ = (q_BHTK @ self.query_HKJ).unsqueeze(-2) + (k_BHSK @ self.key_HKJ).unsqueeze(-3)
        return torch.einsum("bhtsj,hj->bhts", both_BHTSJ.tanh(), self.vector_HJ)


class Bilinear(Score):
    """q W kᵀ / √d: a learned matrix between the two sides."""

    def __init__(self, heads: int, query_width: int, key_width: int, scale: Scale = "sqrt") -> None:
        super().__init__()
        root = math.sqrt(key_width)
        self.factor = 1 / root if scale == "sqrt" else 1.0
        self.between_HKJ = _matrix(heads, query_width, key_width, 1.0 if scale == "sqrt" else 1 / root)

    def forward(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        return (q_BHTK @ self.between_HKJ * self.factor) @ k_BHSK.transpose(-2, -1)


class Projected(Score):
    """(q W)·(k U) / √d: two spaces of different width meet in a third one."""

    def __init__(
        self, heads: int, query_width: int, key_width: int, hidden: int = 0, scale: Scale = "sqrt"
    ) -> None:
        super().__init__()
        hidden = hidden or query_width
        root = math.sqrt(hidden)
        self.factor = 1 / root if scale == "sqrt" else 1.0
        self.query_HKJ = _matrix(heads, query_width, hidden, 1.0 if scale == "sqrt" else 1 / root)
        self.key_HKJ = _matrix(heads, key_width, hidden)

    def forward(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        return (q_BHTK @ self.query_HKJ * self.factor) @ (k_BHSK @ self.key_HKJ).transpose(-2, -1)


def make_score(kind: str, heads: int, query_width: int, key_width: int, scale: Scale = "sqrt") -> Score:
    """A score by its name in the configuration."""
    if kind == "scaled_dot":
        if query_width != key_width:
            raise ConfigError(
                f"a dot product needs queries and keys of one width, not {query_width} and {key_width}; "
                "choose score = additive, bilinear or projected"
            )
        return ScaledDot(query_width, scale)
    if kind == "additive":
        return Additive(heads, query_width, key_width)
    if kind == "bilinear":
        return Bilinear(heads, query_width, key_width, scale)
    if kind == "projected":
        return Projected(heads, query_width, key_width, scale=scale)
    if kind in extend.SCORES:
        return extend.SCORES[kind](heads, query_width)
    raise ConfigError(f"score = {kind!r}: choose scaled_dot | additive | bilinear | projected")


def _matrix(heads: int, rows: int, columns: int, gain: float = 1.0) -> nn.Parameter:
    """One Xavier-initialised matrix for each head."""
    weight = torch.empty(heads, rows, columns)
    for head in weight:
        nn.init.xavier_uniform_(head, gain)
    return nn.Parameter(weight)
