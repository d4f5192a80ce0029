"""Padding left out: in training, R real tokens take the place of a rectangle of B × T between two attentions.

Outside of attention a layer treats each token alone, so what it would make of padding is work for nothing:
the linear maps, norms and dropout of a batch with a tenth of padding take a tenth longer. Attention itself
needs the rectangle, and heads are copied into an order of their own there anyway: splitting them puts each
token at its place, merging them picks the real ones out again, for no more than those copies cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.model.record import watching

MULTIPLE = 32
"""R is rounded up to this on processors, with padding after all: oneDNN prepares a product anew for every
number of rows that it has not seen (model/products.py), and that takes as long as it saves"""


class Packing:
    """Where the real tokens of a padded batch stand.

    >>> packing = Packing(torch.tensor([1, 2]), longest=2)
    >>> packing.pack(torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]])).flatten().tolist()[:3]
    [1.0, 2.0, 3.0]
    """

    def __init__(self, lengths_B: Tensor, longest: int) -> None:
        real_BT = torch.arange(longest, device=lengths_B.device) < lengths_B[:, None]
        self.batch, self.longest = real_BT.shape
        row_R, column_R = real_BT.nonzero(as_tuple=True)
        if lengths_B.device.type == "cpu":
            spare_row, spare_column = (~real_BT).nonzero(as_tuple=True)
            missing = -len(row_R) % MULTIPLE
            row_R = torch.cat([row_R, spare_row[:missing]])
            column_R = torch.cat([column_R, spare_column[:missing]])
        self.row_R, self.column_R = row_R, column_R
        self._places: dict[int, Tensor] = {}

    @classmethod
    def in_training(cls, training: bool, lengths_B: Tensor | None, longest: int) -> Packing | None:
        """None, and so the rectangle, where nothing is saved or somebody wants to see it whole."""
        if not training or lengths_B is None or watching() or bool((lengths_B >= longest).all()):
            return None
        return cls(lengths_B, longest)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """x_RD: the real tokens, and after them what fills R up."""
        return x_BTD.flatten(0, 1).index_select(0, self._places_in(heads=1))

    def unpack(self, x_RD: Tensor) -> Tensor:
        """x_BTD, with zeros for padding."""
        return self.split_heads(x_RD, heads=1)[:, 0]

    def split_heads(self, x_RX: Tensor, heads: int) -> Tensor:
        """x_BHTK: each head of each token at its place, and zeros for padding."""
        heads_of_tokens = x_RX.unflatten(-1, (heads, -1)).flatten(0, 1)
        everywhere = x_RX.new_zeros(self.batch * heads * self.longest, heads_of_tokens.shape[-1])
        everywhere.index_copy_(0, self._places_in(heads), heads_of_tokens)
        return everywhere.view(self.batch, heads, self.longest, -1)

    def merge_heads(self, x_BHTK: Tensor) -> Tensor:
        """The way back, x_RX."""
        heads = x_BHTK.shape[1]
        return x_BHTK.flatten(0, 2).index_select(0, self._places_in(heads)).view(len(self.row_R), -1)

    def _places_in(self, heads: int) -> Tensor:
        """Where head h of token r stands in a rectangle B H T that is written as one long list."""
        if heads not in self._places:
            number_H = torch.arange(heads, device=self.row_R.device)
            list_RH = (self.row_R[:, None] * heads + number_H) * self.longest + self.column_R[:, None]
            self._places[heads] = list_RH.flatten()
        return self._places[heads]
