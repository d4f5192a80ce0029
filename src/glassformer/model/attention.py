"""Attention: Eq. 1 of the paper, explicit and fused, and the heads around it (section 3.2).

Shapes: q_BHTK queries, k_BGSK keys, v_BGSU values (G = H unless heads share keys and values),
weights_BHTS. Masks say `may_attend`: True lets through; they broadcast to BHTS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.model.packing import Packing
from glassformer.model.parts import Dropout, Linear, RMSNorm, linear
from glassformer.model.positions import Positions
from glassformer.model.record import tell, watching
from glassformer.model.scores import Scale, ScaledDot, Score, make_score
from glassformer.model.silence import loudness
from glassformer.model.state import CrossCache, SelfCache


def attend(
    q_BHTK: Tensor,
    k_BHSK: Tensor,
    v_BHSU: Tensor,
    may_attend: Tensor | None = None,
    *,
    score: Score | None = None,
    bias: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ/√d_k)·V (Vaswani et al. 2017, Eq. 1). Returns output_BHTU and weights_BHTS.

    Departs: a row that may attend nothing returns 0, not NaN, and sends no gradient. Dropout acts on what
    is summed, not on the weights that are returned.

    >>> q = torch.tensor([[0.0, 0.0, 10.0]])
    >>> k = torch.tensor([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])
    >>> v = torch.tensor([[1.0, 0], [10, 0], [100, 5], [1000, 6]])
    >>> attend(q, k, v)[0].tolist()
    [[550.0, 5.5]]
    """
    scores_BHTS = (score or ScaledDot(q_BHTK.shape[-1]))(q_BHTK, k_BHSK)
    if bias is not None:
        scores_BHTS = scores_BHTS + bias
    weights_BHTS = softmax_where(scores_BHTS, may_attend)
    kept_BHTS = weights_BHTS if dropout is None else dropout(weights_BHTS)
    return kept_BHTS @ v_BHSU, weights_BHTS


def softmax_where(scores_BHTS: Tensor, may_attend: Tensor | None) -> Tensor:
    """Softmax over the places that may be attended; 0 at the others, and everywhere if there are none.

    >>> softmax_where(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if may_attend is None:
        return scores_BHTS.softmax(-1)
    # A row of nothing but -∞ would be NaN, and so would its gradient: such a row gets zeros, whose softmax is
    # flat, and the second filling makes that 0.
    none_BHT1 = ~may_attend.any(-1, keepdim=True)
    filling = torch.zeros_like(none_BHT1, dtype=scores_BHTS.dtype).masked_fill(~none_BHT1, float("-inf"))
    return torch.where(may_attend, scores_BHTS, filling).softmax(-1).masked_fill(none_BHT1, 0.0)


def attend_fused(
    q_BHTK: Tensor,
    k_BHSK: Tensor,
    v_BHSU: Tensor,
    may_attend: Tensor | None = None,
    *,
    factor: float | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The same mathematics in one kernel that never stores the weights: the twin of `attend`."""
    mask = may_attend
    if causal and (mask is not None or bias is not None):
        mask, causal = causal_mask(q_BHTK.shape[-2], q_BHTK.device, mask), False
    if bias is not None:
        bias = bias.to(q_BHTK.dtype)
        mask = bias if mask is None else torch.where(mask, bias, float("-inf"))
    return F.scaled_dot_product_attention(
        q_BHTK, k_BHSK, v_BHSU, attn_mask=mask, is_causal=causal, scale=factor
    )


def causal_mask(length: int, device: torch.device, may_attend: Tensor | None = None) -> Tensor:
    """Each token may attend itself and what came before it; and only what `may_attend` lets through.

    >>> causal_mask(3, torch.device("cpu")).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    before_TT = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    return before_TT if may_attend is None else before_TT & may_attend


def split_heads(x_BTX: Tensor, heads: int) -> Tensor:
    """The last axis becomes `heads` parts, and the heads an axis of their own: B T (H·K) → B H T K."""
    return x_BTX.unflatten(-1, (heads, -1)).transpose(1, 2)


def split_parts(
    x_BTX: Tensor, sizes: list[int], heads: tuple[int, ...], packing: Packing | None
) -> list[Tensor]:
    """Queries, keys and values side by side, so wide and of so many heads each: x_BHTK of each."""
    of_one_width = len({size // number for size, number in zip(sizes, heads, strict=True)}) == 1
    if packing and of_one_width:
        return packing.split_parts(x_BTX, heads)
    parts = zip(x_BTX.split(sizes, dim=-1), heads, strict=True)
    return [_split(part_BTX, number, packing) for part_BTX, number in parts]


def merge_heads(x_BHTK: Tensor) -> Tensor:
    """The way back: B H T K → B T (H·K)."""
    return x_BHTK.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class HeadShape:
    """What the heads of an attention look like. Zero means: as the paper derives it."""

    width: int
    heads: int
    key_value_heads: int = 0
    head_width: int = 0
    value_width: int = 0
    score: str = "scaled_dot"
    scale: Scale = "sqrt"
    query_key_norm: bool = False
    bias: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not self.head_width and self.width % self.heads:
            raise ConfigError(
                f"width ({self.width}) must be divisible by heads ({self.heads}), or set head_width"
            )
        if self.heads % self.groups:
            raise ConfigError(f"heads ({self.heads}) must be a multiple of key_value_heads ({self.groups})")

    @property
    def groups(self) -> int:
        return self.key_value_heads or self.heads

    @property
    def packed(self) -> tuple[int, int, int]:
        """Numbers that the queries, keys and values of one token take, all heads together."""
        key = self.head_width or self.width // self.heads
        return self.heads * key, self.groups * key, self.groups * (self.value_width or key)

    @property
    def query_gain(self) -> float:
        """Without division by √d_k, queries start √d_k times smaller, as in T5."""
        starts_small = self.scale == "init" and self.score == "scaled_dot"
        return 1 / math.sqrt(self.packed[0] // self.heads) if starts_small else 1.0


class Heads(nn.Module):
    """What all multi-head attention shares, once queries, keys and values are projected (section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O,  head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
    """

    def __init__(self, shape: HeadShape, place: str) -> None:
        super().__init__()
        self.place = place
        self.heads, self.groups = shape.heads, shape.groups
        head_width = shape.packed[0] // shape.heads
        self.score = make_score(shape.score, shape.heads, head_width, head_width, shape.scale)
        self.query_norm = RMSNorm(head_width) if shape.query_key_norm else nn.Identity()
        self.key_norm = RMSNorm(head_width) if shape.query_key_norm else nn.Identity()
        self.dropout = Dropout(shape.dropout)
        self.output = linear(shape.packed[2] // shape.groups * shape.heads, shape.width, shape.bias)

    def queries(self, q_BTX: Tensor, packing: Packing | None = None) -> Tensor:
        return self.query_norm(_split(q_BTX, self.heads, packing))

    def keys(self, k_BSX: Tensor) -> Tensor:
        return self.key_norm(split_heads(k_BSX, self.groups))

    def values(self, v_BSX: Tensor) -> Tensor:
        return split_heads(v_BSX, self.groups)

    def combine(
        self,
        q_BHTK: Tensor,
        k_BGSK: Tensor,
        v_BGSU: Tensor,
        may_attend: Tensor | None,
        *,
        bias: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        """Each head attends; the heads are put side by side and W^O mixes them."""
        if self.groups != self.heads:
            k_BGSK = k_BGSK.repeat_interleave(self.heads // self.groups, dim=1)
            v_BGSU = v_BGSU.repeat_interleave(self.heads // self.groups, dim=1)
        if isinstance(self.score, ScaledDot) and not self.dropout.active and not watching():
            attended_BHTU = attend_fused(
                q_BHTK, k_BGSK, v_BGSU, may_attend, factor=self.score.factor, bias=bias, causal=causal
            )
        else:  # dropout on weights, the other scores, and whoever watches need the weights themselves
            if causal:
                may_attend = causal_mask(q_BHTK.shape[-2], q_BHTK.device, may_attend)
            attended_BHTU, weights_BHTS = attend(
                q_BHTK, k_BGSK, v_BGSU, may_attend, score=self.score, bias=bias, dropout=self.dropout
            )
            tell("attention", self.place, weights_BHTS)
        if (loud_BH11 := loudness(self.place, self.heads, attended_BHTU)) is not None:
            attended_BHTU = attended_BHTU * loud_BH11
        return self.output(_merge(attended_BHTU, packing))


class MultiHeadAttention(Heads):
    """Multi-head attention in general: queries, keys and values may come from three places of three widths.

    Keys and values have one length, which may differ from the queries'. The layers of the model use the two
    special cases below, which project in fewer, larger products.
    """

    def __init__(
        self, shape: HeadShape, key_width: int = 0, value_width: int = 0, place: str = "attention"
    ) -> None:
        super().__init__(shape, place)
        query, key, value = shape.packed
        self.query = linear(shape.width, query, shape.bias, shape.query_gain)
        self.key = linear(key_width or shape.width, key, shape.bias)
        self.value = linear(value_width or shape.width, value, shape.bias)

    def forward(
        self, query_BTD: Tensor, key_BSX: Tensor, value_BSY: Tensor, may_attend: Tensor | None = None
    ) -> Tensor:
        q_BHTK, k_BGSK = self.queries(self.query(query_BTD)), self.keys(self.key(key_BSX))
        return self.combine(q_BHTK, k_BGSK, self.values(self.value(value_BSY)), may_attend)


class SelfAttention(Heads):
    """Queries, keys and values are three views of the same tokens, projected in one product.

    With a `packing`, x is x_RD: the real tokens alone.
    """

    def __init__(self, shape: HeadShape, positions: Positions, place: str = "self") -> None:
        super().__init__(shape, place)
        self.positions = positions
        self.packed = list(shape.packed)
        self.query_key_value = Linear(shape.width, self.packed, shape.bias, [shape.query_gain, 1.0, 1.0])

    def forward(
        self,
        x_BTD: Tensor,
        may_attend: Tensor | None = None,
        *,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        places = range(packing.longest if packing else x_BTD.shape[1])
        q_BHTK, k_BGTK, v_BGTU = self._project(x_BTD, places, packing)
        bias_HTT = self.positions.bias(places, places)
        return self.combine(q_BHTK, k_BGTK, v_BGTU, may_attend, bias=bias_HTT, causal=causal, packing=packing)

    def step(self, x_BND: Tensor, cache: SelfCache, place: int, may_attend_B1NL: Tensor | None) -> Tensor:
        """One new token a beam, which sees itself and its ancestors in the cache."""
        q_BHNK, k_BGNK, v_BGNU = self._project(x_BND, range(place, place + 1))
        k_BGLK, v_BGLU = cache.append(k_BGNK, v_BGNU)
        bias_H1L = self.positions.bias(range(place, place + 1), range(place + 1))
        if bias_H1L is not None:
            bias_H1L = bias_H1L.repeat_interleave(x_BND.shape[1], dim=-1)
        return self.combine(q_BHNK, k_BGLK, v_BGLU, may_attend_B1NL, bias=bias_H1L)

    def _project(
        self, x_BTD: Tensor, places: range, packing: Packing | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        heads = (self.heads, self.groups, self.groups)
        q_BHTK, k_BGTK, v_BGTU = split_parts(self.query_key_value(x_BTD), self.packed, heads, packing)
        q_BHTK = self.positions.turn(self.query_norm(q_BHTK), places)
        return q_BHTK, self.positions.turn(self.key_norm(k_BGTK), places), v_BGTU


class CrossAttention(Heads):
    """The decoder's queries look at the encoder's states. Keys and values are made once a sentence."""

    def __init__(self, shape: HeadShape, place: str = "cross") -> None:
        super().__init__(shape, place)
        query, key, value = shape.packed
        self.packed = [key, value]
        self.query = linear(shape.width, query, shape.bias, shape.query_gain)
        self.key_value = Linear(shape.width, self.packed, shape.bias)

    def remember(self, memory_BSD: Tensor, packing: Packing | None = None) -> CrossCache:
        heads = (self.groups, self.groups)
        k_BGSK, v_BGSU = split_parts(self.key_value(memory_BSD), self.packed, heads, packing)
        return CrossCache(self.key_norm(k_BGSK), v_BGSU)

    def forward(
        self,
        x_BTD: Tensor,
        memory: CrossCache,
        may_attend: Tensor | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        q_BHTK = self.queries(self.query(x_BTD), packing)
        return self.combine(q_BHTK, memory.keys_BGSK, memory.values_BGSU, may_attend, packing=packing)


def _split(x_BTX: Tensor, heads: int, packing: Packing | None) -> Tensor:
    return packing.split_heads(x_BTX, heads) if packing else split_heads(x_BTX, heads)


def _merge(x_BHTK: Tensor, packing: Packing | None) -> Tensor:
    return packing.merge_heads(x_BHTK) if packing else merge_heads(x_BHTK)
