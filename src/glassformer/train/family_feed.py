"""Batches for the rest of the family: blocks of running text, hidden words, tags of words.

As in `feed`, batch n of epoch e is a pure function of the seed: nothing has to be remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from glassformer.config import VocabularyConfig
from glassformer.data.batch import Batch, Ids, Pair, collate
from glassformer.data.store import Store
from glassformer.errors import DataError
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.words import units, word_starts
from glassformer.train.feed import Feed, mix

NOTHING = -1
"""in place of a target: nothing is to be said here"""
HIDE, SWAP = 0.8, 0.1
"""shares of the chosen words that are hidden, and that become other tokens; the rest stays (Devlin et al.)"""


class Stream:
    """All lines of a store, one after the other, each ended by eos: one long text, read from the disk."""

    def __init__(self, store: Store, eos: int) -> None:
        self._ids, self._lengths, self._eos = store.source.ids, store.source_lengths, eos
        self._from = np.asarray(store.source.offsets).astype(np.int64)
        self._starts = self._from + np.arange(len(self._from))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def part(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Tokens start … end - 1."""
        found = np.full(end - start, self._eos, np.int64)
        line = int(np.searchsorted(self._starts, start, "right")) - 1
        while line < len(self._lengths) and self._starts[line] < end:
            first, last = int(self._starts[line]), int(self._starts[line]) + int(self._lengths[line])
            a, b = max(first, start), min(last, end)
            if a < b:
                offset = int(self._from[line]) - first
                found[a - start : b - start] = self._ids[a + offset : b + offset]
            line += 1
        return found


def blocks_batch(rows: Sequence[Ids], vocabulary: VocabularyConfig) -> Batch:
    """Blocks of text → a batch without sources: what is read begins with the start symbol."""
    lengths_B = torch.tensor([len(row) for row in rows])
    longest = int(lengths_B.max())
    out_BT = torch.full((len(rows), longest), vocabulary.target_pad)
    for place, row in enumerate(rows):
        out_BT[place, : len(row)] = torch.from_numpy(np.asarray(row).astype(np.int64))
    start_B1 = torch.full((len(rows), 1), vocabulary.start)
    in_BT = torch.cat([start_B1, out_BT[:, :-1]], 1)
    return Batch(out_BT[:, :0], torch.zeros_like(lengths_B), in_BT, out_BT, lengths_B)


class BlockFeed:
    """Running text in blocks of one length; each epoch cuts elsewhere, and takes them in another order."""

    def __init__(
        self, store: Store, vocabulary: VocabularyConfig, *, block: int, batch_tokens: int, seed: int
    ) -> None:
        self.stream, self.vocabulary = Stream(store, vocabulary.eos), vocabulary
        self.block, self.seed = min(block, len(self.stream)), seed
        self.rows = max(1, batch_tokens // self.block)
        self._blocks = max(1, len(self.stream) // self.block - 1)
        self._order: tuple[int, Ids, int] = (-1, np.zeros(0, np.int64), 0)

    def count(self, epoch: int) -> int:
        """Batches in an epoch."""
        return -(-self._blocks // self.rows)

    def batch(self, epoch: int, number: int) -> Batch:
        order, first = self._epoch(epoch)
        chosen = order[number * self.rows : (number + 1) * self.rows]
        starts = [first + int(place) * self.block for place in chosen]
        return blocks_batch(
            [self.stream.part(start, min(start + self.block, len(self.stream))) for start in starts],
            self.vocabulary,
        )

    def _epoch(self, epoch: int) -> tuple[Ids, int]:
        """In which order the blocks come, and where the first one begins."""
        if self._order[0] != epoch:
            draw = np.random.PCG64(np.random.SeedSequence([self.seed, epoch]))
            first = int(draw.random_raw(1)[0] % self.block) if len(self.stream) >= 2 * self.block else 0
            self._order = (epoch, np.argsort(draw.random_raw(self._blocks), kind="stable"), first)
        return self._order[1], self._order[2]


def masked_batch(
    rows: Sequence[Sequence[int] | Ids],
    tokenizer: Tokenizer,
    vocabulary: VocabularyConfig,
    *,
    share: float,
    seed: int,
) -> Batch:
    """Texts with some of their words hidden, and what they were: words, not pieces, are drawn."""
    draw = np.random.default_rng(seed)
    hidden: list[tuple[list[int], list[int]]] = []
    for row in rows:
        ids = [int(i) for i in row]
        targets = [NOTHING] * len(ids)
        groups = units(tokenizer, ids)
        wanted, chosen = max(1, round(share * len(ids))), 0
        for place in draw.permutation(len(groups)):
            if chosen >= wanted:
                break
            chance = draw.random()
            for at in groups[place]:
                targets[at] = ids[at]
                if chance < HIDE:
                    ids[at] = vocabulary.source_pad
                elif chance < HIDE + SWAP:
                    ids[at] = int(draw.integers(2, vocabulary.source_size - 1))
            chosen += len(groups[place])
        hidden.append((ids, targets))
    return _beside(hidden, vocabulary)


def tagged_batch(pairs: Sequence[Pair], tokenizer: Tokenizer, vocabulary: VocabularyConfig) -> Batch:
    """Texts, and at the first token of each word its tag."""
    placed: list[tuple[list[int], list[int]]] = []
    for source, target in pairs:
        ids, tags = [int(i) for i in source], [int(i) for i in target]
        starts = word_starts(tokenizer, ids)
        if len(starts) != len(tags):
            raise DataError(
                f"{len(tags)} tags for {len(starts)} words of '{tokenizer.decode(ids)}': a tag a word, "
                "both separated by spaces"
            )
        targets = [NOTHING] * len(ids)
        for start, tag in zip(starts, tags, strict=True):
            targets[start] = tag
        placed.append((ids, targets))
    return _beside(placed, vocabulary)


def _beside(rows: Sequence[tuple[list[int], list[int]]], vocabulary: VocabularyConfig) -> Batch:
    """A batch whose targets stand at the places of the source's tokens."""
    batch = collate([(ids, ids) for ids, _ in rows], vocabulary)
    target_BS = torch.full_like(batch.source_BS, NOTHING)
    for place, (_, targets) in enumerate(rows):
        target_BS[place, : len(targets)] = torch.tensor(targets, dtype=torch.long)
    lengths_B = batch.source_lengths_B
    return Batch(batch.source_BS, lengths_B, batch.source_BS, target_BS, lengths_B)


class MaskedFeed(Feed):
    """The source side of a store, with other words hidden in every epoch."""

    share = 0.15

    def collate(self, pairs: Sequence[Pair], epoch: int, number: int) -> Batch:
        return masked_batch(
            [source for source, _ in pairs],
            self.tokenizers.source,
            self.vocabulary,
            share=self.share,
            seed=mix(self.seed, epoch, number),
        )


class TagFeed(Feed):
    """Texts with a tag for each word."""

    def collate(self, pairs: Sequence[Pair], epoch: int, number: int) -> Batch:
        return tagged_batch(pairs, self.tokenizers.source, self.vocabulary)
