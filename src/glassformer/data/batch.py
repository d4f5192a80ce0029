"""Batches: what the model reads, and the order in which it reads them.

The global batch of a step is a pure function of (seed, epoch, step): the state of the data is two integers.
Of w processes, number r takes the rows r::w of each global batch (`batch.rows(slice(r, None, w))`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.config import VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.text.tokenizer import Tokenizer, TokenizerPair

SOURCE_ROOM = 2
"""The source side of a batch, with padding, may be this many times batch_tokens."""

Ids = npt.NDArray[np.integer[Any]]
Pair = tuple[Sequence[int] | Ids, Sequence[int] | Ids]


@dataclass
class Batch:
    """Sentences side by side, padded on the right only; masks come from the lengths, never from ids."""

    source_BS: Tensor
    """source ids, each row ended by eos"""
    source_lengths_B: Tensor
    """tokens of each source, eos included"""
    target_in_BT: Tensor
    """what the decoder reads: start, then the target"""
    target_out_BT: Tensor
    """what it should say: the target, then eos"""
    target_lengths_B: Tensor
    """tokens of each target, eos (or start) included"""

    def __len__(self) -> int:
        return len(self.source_BS)

    @property
    def tokens(self) -> int:
        """Target tokens to predict, padding not counted."""
        return int(self.target_lengths_B.sum())

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self._tensors()))

    def rows(self, index: slice | Sequence[int] | Tensor) -> Batch:
        """Some of the rows, cut to the longest of them."""
        source_BS, source_lengths_B, in_BT, out_BT, target_lengths_B = (t[index] for t in self._tensors())
        longest_source = int(source_lengths_B.max()) if len(source_lengths_B) else 0
        longest_target = int(target_lengths_B.max()) if len(target_lengths_B) else 0
        return Batch(
            source_BS[:, :longest_source],
            source_lengths_B,
            in_BT[:, :longest_target],
            out_BT[:, :longest_target],
            target_lengths_B,
        )

    def split(self, parts: int) -> list[Batch]:
        """The batch in up to `parts` batches of about as many rows, none of them empty."""
        cuts = [len(self) * part // parts for part in range(parts + 1)]
        return [self.rows(slice(start, end)) for start, end in itertools.pairwise(cuts) if end > start]

    def _tensors(self) -> tuple[Tensor, ...]:
        return (
            self.source_BS,
            self.source_lengths_B,
            self.target_in_BT,
            self.target_out_BT,
            self.target_lengths_B,
        )


def collate(pairs: Sequence[Pair], vocabulary: VocabularyConfig) -> Batch:
    """Pairs of ids (without eos) → a batch."""
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    source_BS, source_lengths_B = _pad(sources, vocabulary.source_pad, after=vocabulary.eos)
    target_out_BT, target_lengths_B = _pad(targets, vocabulary.target_pad, after=vocabulary.eos)
    target_in_BT, _ = _pad(targets, vocabulary.target_pad, before=vocabulary.start)
    arrays = (source_BS, source_lengths_B, target_in_BT, target_out_BT, target_lengths_B)
    return Batch(*(torch.from_numpy(array) for array in arrays))


def _pad(
    rows: Sequence[Sequence[int] | Ids], pad: int, *, before: int | None = None, after: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows with one more id before or after each, in a matrix filled up with `pad`; and their lengths."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows)) + 1
    matrix = np.full((len(rows), int(lengths.max(initial=0))), pad, np.int64)
    shift = 0 if before is None else 1
    for place, row in enumerate(rows):
        matrix[place, shift : shift + len(row)] = row
    if before is not None:
        matrix[:, 0] = before
    if after is not None:
        matrix[np.arange(len(rows)), lengths - 1] = after
    return matrix, lengths


def resample(pairs: Sequence[Pair], tokenizers: TokenizerPair, dropout: float, seed: int) -> list[Pair]:
    """The same texts split anew with BPE-dropout, on each side whose tokenizer has merges.

    Call it on the global batch and take a process's rows afterwards: then the number of processes does
    not change what is drawn.
    """
    sides = [
        _resample_side([pair[side] for pair in pairs], tokenizer, dropout, 2 * seed + side)
        for side, tokenizer in enumerate((tokenizers.source, tokenizers.target))
    ]
    return list(zip(*sides, strict=True))


def _resample_side(
    rows: Sequence[Sequence[int] | Ids], tokenizer: Tokenizer, dropout: float, seed: int
) -> Sequence[Sequence[int] | Ids]:
    if tokenizer.kind != "bpe":
        return rows
    return tokenizer.encode_batch(tokenizer.decode_batch(rows), dropout, seed)


class BatchOrder:
    """Which pairs make up which batch, epoch by epoch.

    Pairs of about the same length go together, so that little is padding; which of them, and the order of
    the batches, is drawn anew each epoch. A batch holds as many rows as keep rows × longest target (eos
    included) within `batch_tokens` and rows × longest source within SOURCE_ROOM times that; a pair too long
    for that makes a batch by itself. `groups` are (pairs, weight) of corpora that stand one after the other:
    an epoch goes through a corpus as often as its weight says, with a fresh sample for the fraction.
    """

    def __init__(
        self,
        source_lengths: Sequence[int] | Ids,
        target_lengths: Sequence[int] | Ids,
        *,
        batch_tokens: int,
        seed: int,
        groups: Sequence[tuple[int, float]] | None = None,
    ) -> None:
        # Stored lengths know nothing of eos.
        self._source = np.asarray(source_lengths).astype(np.int32) + 1
        self._target = np.asarray(target_lengths).astype(np.int32) + 1
        self._groups = list(groups or [(len(self._source), 1.0)])
        self._budget, self._seed = batch_tokens, seed
        self._made: dict[int, EpochBatches] = {}
        if sum(count for count, _ in self._groups) != len(self._source):
            raise ConfigError(f"groups {self._groups} do not add up to {len(self._source)} pairs")

    def batches(self, epoch: int) -> EpochBatches:
        """The batches of an epoch, as arrays of pair numbers."""
        if epoch not in self._made:
            for old in list(self._made)[:-1]:  # keep one: whoever reads ahead goes back and forth
                del self._made[old]
            self._made[epoch] = self._make(epoch)
        return self._made[epoch]

    def _make(self, epoch: int) -> EpochBatches:
        draw = np.random.PCG64(np.random.SeedSequence([self._seed, epoch]))
        chosen = self._chosen(draw)
        order = chosen[_by_length(self._source[chosen], self._target[chosen], draw)]
        starts = _pack(self._source[order], self._target[order], self._budget)
        return EpochBatches(order, starts, _shuffled(len(starts) - 1, draw))

    def _chosen(self, draw: np.random.PCG64) -> Ids:
        """Pair numbers of an epoch in random order: each corpus as often as its weight says."""
        kind = np.int32 if len(self._source) < 2**31 else np.int64
        parts: list[Ids] = []
        first = 0
        for count, weight in self._groups:
            numbers: Ids = np.asarray(first + _shuffled(count, draw), dtype=kind)
            whole, part = divmod(weight, 1)
            parts += [numbers] * int(whole) + [numbers[: round(part * count)]]
            first += count
        chosen: Ids = np.concatenate(parts)
        return chosen[_shuffled(len(chosen), draw)]


class EpochBatches(Sequence[Ids]):
    """One epoch: batch number i is the index array `batches[i]`."""

    def __init__(self, order: Ids, starts: Ids, turns: Ids) -> None:
        self._order, self._starts, self._turns = order, starts, turns

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, step: int) -> Ids: ...
    @overload
    def __getitem__(self, step: slice) -> list[Ids]: ...
    def __getitem__(self, step: int | slice) -> Ids | list[Ids]:
        if isinstance(step, slice):
            return [self[i] for i in range(*step.indices(len(self)))]
        turn = self._turns[step]
        return self._order[self._starts[turn] : self._starts[turn + 1]]


def _shuffled(count: int, draw: np.random.PCG64) -> Ids:
    """0 … count-1 in random order. NumPy promises the same raw bits in all versions, but not shuffles."""
    return np.argsort(draw.random_raw(count), kind="stable")


def _by_length(source: Ids, target: Ids, draw: np.random.PCG64) -> Ids:
    """An order in which neighbours are about as long: by target, then by source, there and back again.

    Lengths are blurred by one token, or nearly the same pairs would meet in every epoch: on Multi30k with 800
    tokens a batch that is 3% more padding, and a third of the batch-mates that stay together.
    """
    bits = draw.random_raw(len(source)).astype(np.int64)
    blurred_target = target.astype(np.int64) + (bits & 1)
    blurred_source = 4 * source.astype(np.int64) + (bits >> 1 & 7)
    room = int(blurred_source.max(initial=0)) + 1
    there_and_back = np.where(blurred_target % 2, blurred_source, room - blurred_source)
    return np.argsort(blurred_target * (room + 1) + there_and_back, kind="stable")


def _pack(source: Ids, target: Ids, budget: int) -> Ids:
    """Where batches begin (and, last, where the list ends); each takes all that fits its budget."""
    starts, start, end = [0], 0, len(target)
    while start < end:
        most = max(1, budget // int(target[start]))
        rows = np.arange(1, len(target[start : start + most]) + 1)
        fits = rows * np.maximum.accumulate(target[start : start + most]) <= budget
        fits &= rows * np.maximum.accumulate(source[start : start + most]) <= budget * SOURCE_ROOM
        start += max(1, int(fits.argmin()) if not fits.all() else len(rows))
        starts.append(start)
    return np.array(starts)
