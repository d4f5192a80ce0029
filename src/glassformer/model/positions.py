"""How the model knows the order of tokens (section 3.5 of the paper, and what came later).

A kind of position may act in three places; each class overrides the ones it needs:

    embed   adds to the embeddings                       sinusoidal, learned
    turn    rotates queries and keys in self-attention   rotary
    bias    is added to the scores in self-attention     ALiBi

`places` says where the tokens stand: range(T) for whole sentences, range(t, t + 1) for one step of N beams,
which all stand at the same place. To plug in your own, derive from `Positions` (docs/EXTENDING.md).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from glassformer.errors import RequestError


class Positions(nn.Module):
    """No positions at all: permuting the input of a model with these permutes the encoder's output."""

    def embed(self, x_BTD: Tensor, places: range) -> Tensor:
        """Embeddings that know their place."""
        return x_BTD

    def turn(self, x_BHTK: Tensor, places: range) -> Tensor:
        """Queries or keys of self-attention that know their place."""
        return x_BHTK

    def bias(self, queries: range, keys: range) -> Tensor | None:
        """What is added to the scores of self-attention, as bias_HTS."""
        return None


def sinusoids(length: int, width: int) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d))   (section 3.5).

    >>> [round(x, 5) for x in sinusoids(4, 8)[3].tolist()]
    [0.14112, -0.98999, 0.29552, 0.95534, 0.03, 0.99955, 0.003, 1.0]
    """
    angles = _angles(length, width, 10000.0)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def _angles(length: int, width: int, base: float) -> Tensor:
    """p / base^(2i/width) for each position p and each pair i of numbers, in float64."""
    frequencies = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(base) / width))
    return torch.arange(length, dtype=torch.float64)[:, None] * frequencies


class Sinusoidal(Positions):
    """The paper's. Works at any length: the table grows when a longer sentence comes."""

    def __init__(self, width: int, length: int = 512) -> None:
        super().__init__()
        self.width = width
        self.table_TD: Tensor
        self.register_buffer("table_TD", sinusoids(length, width).float(), persistent=False)

    def embed(self, x_BTD: Tensor, places: range) -> Tensor:
        if places.stop > self.table_TD.shape[0]:
            # Rounded to float32 whatever the model's precision, so that every precision sees one table.
            with torch.inference_mode(False):  # training goes on with what translating has grown
                self.table_TD = sinusoids(2 * places.stop, self.width).float().to(self.table_TD)
        return x_BTD + self.table_TD[places.start : places.stop]


class Learned(Positions):
    """A vector for each position, trained like a word; ends at `length`.

    `size` is the standard deviation that it begins with: beside words of size 1, that of sinusoids. Positions
    that begin much smaller than the words are not heard for a long time (docs/decisions/0041).
    """

    def __init__(self, width: int, length: int, size: float = math.sqrt(0.5)) -> None:
        super().__init__()
        self.table_TD = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table_TD, std=size)

    def embed(self, x_BTD: Tensor, places: range) -> Tensor:
        length = self.table_TD.shape[0]
        if places.stop > length:
            raise RequestError(
                f"a sentence of {places.stop} tokens is longer than the {length} positions this model has "
                "learned; split the text, or train with a larger model.max_length"
            )
        return x_BTD + self.table_TD[places.start : places.stop]


class Rotary(Positions):
    """Turns each pair of numbers of a query or key by an angle that grows with its position (Su et al. 2021).

    The dot product of a query at p and a key at q then depends on p - q alone. Pairs are neighbours
    (0, 1), (2, 3), …, as in that paper.
    """

    def __init__(self, head_width: int, base: float = 10000.0, length: int = 512) -> None:
        super().__init__()
        self.head_width, self.base = head_width, base
        self.cos_sin_2TK: Tensor
        self.register_buffer("cos_sin_2TK", self._table(length), persistent=False)

    def _table(self, length: int) -> Tensor:
        angles = _angles(length, self.head_width, self.base)
        return torch.stack([angles.cos(), angles.sin()]).repeat_interleave(2, dim=-1).float()

    def turn(self, x_BHTK: Tensor, places: range) -> Tensor:
        if places.stop > self.cos_sin_2TK.shape[1]:
            with torch.inference_mode(False):
                self.cos_sin_2TK = self._table(2 * places.stop).to(self.cos_sin_2TK)
        cos_TK, sin_TK = self.cos_sin_2TK[:, places.start : places.stop]
        quarter_turn = torch.stack([-x_BHTK[..., 1::2], x_BHTK[..., 0::2]], dim=-1).flatten(-2)
        return x_BHTK * cos_TK + quarter_turn * sin_TK


class Alibi(Positions):
    """Subtracts from each score a multiple of the distance, another one a head (Press et al. 2022).

    The encoder looks both ways, so distance counts without sign there.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes_H: Tensor
        self.register_buffer("slopes_H", alibi_slopes(heads), persistent=False)

    def bias(self, queries: range, keys: range) -> Tensor:
        query_T = torch.arange(queries.start, queries.stop, device=self.slopes_H.device)
        key_S = torch.arange(keys.start, keys.stop, device=self.slopes_H.device)
        return -self.slopes_H[:, None, None] * (query_T[:, None] - key_S).abs()


def alibi_slopes(heads: int) -> Tensor:
    """2^(-8/H), 2^(-16/H), …; between two powers of two, every other slope of the next power fills up.

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * (heads - power), 2)]
    return torch.tensor(slopes)
