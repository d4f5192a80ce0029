"""What flows between encoder and decoder: the memory of a source, and the state of a decoding step.

Axes, here and in every file of this room: B batch, S source length, T target length, R real tokens of a
batch, H heads, G heads that share keys and values (= H unless grouped), D model width, K width of a head's
queries and keys, U width of a head's values, F feed-forward width, V vocabulary, N beams, C room in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from glassformer.model.packing import Packing


def may_attend_lengths(lengths_B: Tensor, longest: int) -> Tensor | None:
    """True for real tokens, False for padding, as may_attend_B11S; None when there is no padding at all.

    >>> may_attend_lengths(torch.tensor([1, 2]), 2).int().flatten().tolist()
    [1, 0, 1, 1]
    """
    if bool((lengths_B >= longest).all()):
        return None
    places_S = torch.arange(longest, device=lengths_B.device)
    return (places_S < lengths_B[:, None])[:, None, None, :]


@dataclass(frozen=True)
class Memory:
    """What the encoder understood of a batch of sources."""

    states_BSD: Tensor
    lengths_B: Tensor
    packing: Packing | None = None
    """where the real tokens stand, for whoever wants to leave padding out"""

    @property
    def batch(self) -> int:
        return self.states_BSD.shape[0]

    @cached_property
    def may_attend_B11S(self) -> Tensor | None:
        return may_attend_lengths(self.lengths_B, self.states_BSD.shape[1])


class SelfCache:
    """Keys and values of what one layer has read so far, for all beams, in preallocated memory.

    Beams are never copied when the search reorders them. Token t of beam n stays in slot t·N + n for good,
    and `DecoderState.may_attend` says which slots a beam descends from.
    """

    def __init__(self) -> None:
        self.keys_BGCK: Tensor | None = None
        self.values_BGCU: Tensor | None = None
        self.filled = 0

    def append(self, keys_BGNK: Tensor, values_BGNU: Tensor) -> tuple[Tensor, Tensor]:
        """Add one step's keys and values; return all of them so far."""
        end = self.filled + keys_BGNK.shape[2]
        self.keys_BGCK = _with_room(self.keys_BGCK, keys_BGNK, end)
        self.values_BGCU = _with_room(self.values_BGCU, values_BGNU, end)
        self.keys_BGCK[:, :, self.filled : end] = keys_BGNK
        self.values_BGCU[:, :, self.filled : end] = values_BGNU
        self.filled = end
        return self.keys_BGCK[:, :, :end], self.values_BGCU[:, :, :end]

    def keep(self, rows: Tensor) -> None:
        if self.keys_BGCK is not None and self.values_BGCU is not None:
            # Only what is filled is worth copying; the rest is claimed anew when it is needed.
            self.keys_BGCK = self.keys_BGCK[:, :, : self.filled].index_select(0, rows)
            self.values_BGCU = self.values_BGCU[:, :, : self.filled].index_select(0, rows)


def _with_room(cache: Tensor | None, new: Tensor, end: int) -> Tensor:
    """A cache with place for `end` slots: the same one, or one of at least 16 steps or twice the size."""
    if cache is not None and cache.shape[2] >= end:
        return cache
    batch, heads, step, width = new.shape
    room = max(16 * step, 2 * end)
    larger = new.new_empty(batch, heads, room, width)
    if cache is not None:
        larger[:, :, : cache.shape[2]] = cache
    return larger


@dataclass
class CrossCache:
    """Keys and values of the source for one layer: once a sentence, whatever the number of beams."""

    keys_BGSK: Tensor
    values_BGSU: Tensor

    def keep(self, rows: Tensor) -> None:
        self.keys_BGSK = self.keys_BGSK.index_select(0, rows)
        self.values_BGSU = self.values_BGSU.index_select(0, rows)


class ReaderState:
    """What a decoding step needs besides the last tokens. Search sees only `reorder` and `keep`.

    This is all for a model without a source, a language model; `DecoderState` adds the source.
    """

    def __init__(self, batch: int, beams: int, layers: int, device: torch.device) -> None:
        self.beams = beams
        self.position = 0
        self.selves = [SelfCache() for _ in range(layers)]
        # ancestors_BNT[b, n, t]: in which beam's slot token t of hypothesis n was written.
        self._own_N = torch.arange(beams, device=device)
        self._ancestors_BNT = torch.empty(batch, beams, 0, dtype=torch.long, device=device)

    def begin_step(self) -> None:
        """Make place for the token that is about to be read: each beam writes into its own slot."""
        if self.beams > 1:
            own_BN1 = self._own_N.expand(self._ancestors_BNT.shape[:2])[..., None]
            self._ancestors_BNT = torch.cat([self._ancestors_BNT, own_BN1], dim=2)

    def end_step(self) -> None:
        self.position += 1

    def may_attend_B1NL(self) -> Tensor | None:
        """Which of the L = (position + 1)·N slots each beam descends from; None for a single beam."""
        if self.beams == 1:
            return None
        may_BNTN = self._ancestors_BNT[..., None] == self._own_N
        return may_BNTN.flatten(2)[:, None]

    def reorder(self, parents_BN: Tensor) -> None:
        """Beam n of sentence b goes on from what beam parents_BN[b, n] of the same sentence held."""
        if self.beams > 1:
            index_BNT = parents_BN[..., None].expand(-1, -1, self._ancestors_BNT.shape[2])
            self._ancestors_BNT = self._ancestors_BNT.gather(1, index_BNT)

    def keep(self, rows: Tensor) -> None:
        """Only these sentences go on, in this order. Costs a copy of the caches."""
        for own in self.selves:
            own.keep(rows)
        self._ancestors_BNT = self._ancestors_BNT.index_select(0, rows)


class DecoderState(ReaderState):
    """The same beside a source: its keys and values, once a sentence."""

    def __init__(self, memory: Memory, beams: int, crosses: list[CrossCache]) -> None:
        super().__init__(memory.batch, beams, len(crosses), memory.states_BSD.device)
        self.crosses = crosses
        self.may_attend_source_B11S = memory.may_attend_B11S

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        for cross in self.crosses:
            cross.keep(rows)
        if self.may_attend_source_B11S is not None:
            self.may_attend_source_B11S = self.may_attend_source_B11S.index_select(0, rows)
