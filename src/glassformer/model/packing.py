"""Padding left out: in training, R real tokens take the place of a rectangle of B × T between two attentions.

Outside of attention a layer treats each token alone, so what it would make of padding is work for nothing:
the linear maps, norms and dropout of a batch with a tenth of padding take a tenth longer. Attention itself
needs the rectangle, and heads are copied into an order of their own there anyway: splitting them puts each
token at its place, merging them picks the real ones out again, for no more than those copies cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.model.products import LARGE
from glassformer.model.record import watching

MULTIPLE = 32
"""R is rounded up to this in wide models on processors, with padding after all: oneDNN prepares a product
anew for every number of rows that it has not seen (model/products.py)"""


class Packing:
    """Where the real tokens of a padded batch stand.

    >>> packing = Packing(torch.tensor([1, 2]), longest=2)
    >>> packing.pack(torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]])).flatten().tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, lengths_B: Tensor, longest: int, width: int = 0) -> None:
        real_BT = torch.arange(longest, device=lengths_B.device) < lengths_B[:, None]
        self.batch, self.longest = real_BT.shape
        real_R2, padding_P2 = real_BT.nonzero(), (~real_BT).nonzero()
        rounded = width * width >= LARGE and lengths_B.device.type == "cpu"
        spare = -len(real_R2) % MULTIPLE if rounded else 0
        self.kept_R2 = torch.cat([real_R2, padding_P2[:spare]])
        self.left_out_P2 = padding_P2[spare:]
        self._places: dict[tuple[int, ...], _Places] = {}

    @classmethod
    def in_training(
        cls, training: bool, lengths_B: Tensor | None, longest: int, width: int = 0
    ) -> Packing | None:
        """None, and so the rectangle, where nothing is saved or somebody wants to see it whole."""
        if not training or lengths_B is None or watching() or bool((lengths_B >= longest).all()):
            return None
        return cls(lengths_B, longest, width)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """x_RD: the real tokens, and after them what fills R up."""
        return self._pick(x_BTD.flatten(0, 1), (1,))

    def unpack(self, x_RD: Tensor) -> Tensor:
        """x_BTD, with zeros for what was left out."""
        return self.split_heads(x_RD, heads=1)[:, 0]

    def split_heads(self, x_RX: Tensor, heads: int) -> Tensor:
        """x_BHTK: each head of each token at its place, and zeros for what was left out."""
        return self.split_parts(x_RX, (heads,))[0]

    def split_parts(self, x_RX: Tensor, heads: tuple[int, ...]) -> list[Tensor]:
        """The same for several parts side by side in x_RX, of so many heads each, all heads equally wide."""
        heads_of_tokens = x_RX.unflatten(-1, (sum(heads), -1)).flatten(0, 1)
        everywhere: Tensor = _Spread.apply(heads_of_tokens, self._places_in(heads))
        parts = zip(everywhere.split(self._rows(heads)), heads, strict=True)
        return [part.view(self.batch, number, self.longest, -1) for part, number in parts]

    def merge_heads(self, x_BHTK: Tensor) -> Tensor:
        """The way back, x_RX."""
        heads_of_tokens = self._pick(x_BHTK.flatten(0, 2), (x_BHTK.shape[1],))
        return heads_of_tokens.view(len(self.kept_R2), -1)

    def _pick(self, everywhere: Tensor, heads: tuple[int, ...]) -> Tensor:
        picked: Tensor = _Pick.apply(everywhere, self._places_in(heads))
        return picked

    def _places_in(self, heads: tuple[int, ...]) -> _Places:
        if heads not in self._places:
            kept, left_out = self._list(self.kept_R2, heads), self._list(self.left_out_P2, heads)
            self._places[heads] = _Places.of(kept, left_out, sum(self._rows(heads)))
        return self._places[heads]

    def _rows(self, heads: tuple[int, ...]) -> list[int]:
        """B · H · T rows for each part."""
        return [self.batch * number * self.longest for number in heads]

    def _list(self, place_R2: Tensor, heads: tuple[int, ...]) -> Tensor:
        row_R1, column_R1 = place_R2.split(1, dim=1)
        parts, first = [], 0
        for number in heads:
            number_H = torch.arange(number, device=place_R2.device)
            parts.append(first + (row_R1 * number + number_H) * self.longest + column_R1)
            first += self.batch * number * self.longest
        return torch.cat(parts, dim=1).flatten()


@dataclass
class _Places:
    """Where heads stand in the rectangle, and for each place there which row it gets."""

    kept: Tensor
    left_out: Tensor
    origin: Tensor

    @classmethod
    def of(cls, kept: Tensor, left_out: Tensor, rows: int) -> _Places:
        origin = kept.new_zeros(rows)
        origin[kept] = torch.arange(len(kept), device=kept.device)
        return cls(kept, left_out, origin)


class _Spread(torch.autograd.Function):
    """Each row to its place, zeros where nothing is kept. Reading from everywhere in order is twice as fast
    as writing there in disorder (`index_copy_`), and both ways know their gradient: it is the other way."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: _Places) -> Tensor:
        ctx.places = places
        return rows.index_select(0, places.origin).index_fill_(0, places.left_out, 0.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, None]:
        return _Pick.apply(gradients[0], ctx.places), None


class _Pick(torch.autograd.Function):
    """The rows that are kept, out of their places."""

    @staticmethod
    def forward(ctx: Any, everywhere: Tensor, places: _Places) -> Tensor:
        ctx.places = places
        return everywhere.index_select(0, places.kept)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, None]:
        return _Spread.apply(gradients[0], ctx.places), None
