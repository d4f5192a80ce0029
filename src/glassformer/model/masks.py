"""It is all in the mask: one set of weights as encoder, language model, prefix and permuted-order model.

Give every token a rank: when it becomes known. Then one rule is enough,

    a token may look at those that become known no later than itself,
    a guess at a token may look at those that become known before it,

and the four uses that go by four names are four ways to hand out ranks:

    hidden words     shown 0, hidden 1     everything that is shown, on both sides (Devlin et al. 2018)
    left to right    0 1 2 3 …             what stands before (Radford et al. 2018)
    prefix           0 0 0 1 2 …           a whole source, then the target so far (Dong et al. 2019)
    permuted         any order             what came before in that order (Yang et al. 2019)

What guesses is a second row of tokens, all of them the padding symbol, whose embedding is zero: such a token
knows its place and nothing else. XLNet calls the two rows content and query stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.errors import RequestError
from glassformer.model.families import Reader
from glassformer.model.layers import Embedding
from glassformer.model.positions import Positions


def hidden_ranks(hidden_BT: Tensor) -> Tensor:
    """Shown tokens are known from the start; hidden ones (True) never help anybody."""
    return hidden_BT.long()


def left_to_right_ranks(batch: int, length: int) -> Tensor:
    """Each token after the one before it."""
    return torch.arange(length).expand(batch, length)


def prefix_ranks(prefixes: Sequence[int], length: int) -> Tensor:
    """The first tokens of each text together, the others one after the other."""
    ranks = torch.arange(length)[None] - torch.tensor(prefixes)[:, None] + 1
    return ranks.clamp(min=0)


def permuted_ranks(batch: int, length: int, generator: torch.Generator | None = None) -> Tensor:
    """An order of its own for each text."""
    return torch.stack([torch.randperm(length, generator=generator) for _ in range(batch)])


def may_attend_ranks(ranks_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
    """may_attend_B1QQ for T tokens and, behind them, T guesses (Q = 2T).

    >>> may_attend_ranks(torch.tensor([[0, 1]]))[0, 0].int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]]
    """
    earlier_BTT = ranks_BT[:, None, :] < ranks_BT[:, :, None]
    known_BTT = ranks_BT[:, None, :] <= ranks_BT[:, :, None]
    if lengths_B is not None:
        real_BT = torch.arange(ranks_BT.shape[1], device=ranks_BT.device) < lengths_B[:, None]
        earlier_BTT, known_BTT = earlier_BTT & real_BT[:, None], known_BTT & real_BT[:, None]
    itself_BTT = torch.eye(ranks_BT.shape[1], dtype=torch.bool, device=ranks_BT.device).expand_as(known_BTT)
    nothing_BTT = torch.zeros_like(known_BTT)
    tokens_BTQ = torch.cat([known_BTT, nothing_BTT], 2)
    guesses_BTQ = torch.cat([earlier_BTT, itself_BTT], 2)
    return torch.cat([tokens_BTQ, guesses_BTQ], 1)[:, None]


def read_in_order(
    model: Reader, ids_BT: Tensor, ranks_BT: Tensor, lengths_B: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(tokens_BTD, guesses_BTD): states of the tokens, and of the guesses at them, under these ranks.

    The input and the weights are always the same; only the mask is another one.
    """
    embedding = model.embedding
    if not isinstance(embedding, Embedding) or any(
        type(layer.attention.positions) is not Positions for layer in model.encoder.layers
    ):
        raise RequestError(
            "tokens and guesses share their places, which needs positions that are added to embeddings: "
            "set model.positions to 'sinusoidal' or 'learned'"
        )
    places = range(ids_BT.shape[1])
    blank_BT = torch.full_like(ids_BT, model.vocabulary.source_pad)
    x_BQD = torch.cat([embedding(ids_BT, places), embedding(blank_BT, places)], 1)
    states_BQD = model.encoder(x_BQD, may_attend_ranks(ranks_BT, lengths_B))
    tokens_BTD, guesses_BTD = states_BQD.chunk(2, dim=1)
    return tokens_BTD, guesses_BTD
