"""Where batches come from: number n of epoch e, the same in every run and in every process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from glassformer.config import VocabularyConfig
from glassformer.data.batch import Batch, BatchOrder, Pair, collate, resample
from glassformer.data.store import Store
from glassformer.text.tokenizer import TokenizerPair


def mix(*numbers: int) -> int:
    """One seed out of several numbers, such that neighbours have nothing in common.

    >>> mix(1, 2) == mix(1, 2), mix(1, 2) == mix(2, 1)
    (True, False)
    """
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Batches(Protocol):
    """What the loop asks of a feed."""

    def count(self, epoch: int) -> int:
        """Batches in an epoch."""

    def batch(self, epoch: int, number: int) -> Batch:
        """One of them: the same whenever it is asked for."""


class Feed:
    """Batches of a store, split anew each time if there is BPE-dropout.

    `longest` is what the model can take, end of sentence included; a split that grows past it is not used.
    """

    def __init__(
        self,
        store: Store,
        order: BatchOrder,
        tokenizers: TokenizerPair,
        vocabulary: VocabularyConfig,
        *,
        seed: int,
        bpe_dropout: float = 0.0,
        longest: int = 1024,
    ) -> None:
        self.store, self.order = store, order
        self.tokenizers, self.vocabulary = tokenizers, vocabulary
        self.seed, self.bpe_dropout, self.longest = seed, bpe_dropout, longest

    def count(self, epoch: int) -> int:
        """Batches in an epoch."""
        return len(self.order.batches(epoch))

    def batch(self, epoch: int, number: int) -> Batch:
        pairs: list[Pair] = [*self.store.pairs(self.order.batches(epoch)[number])]
        if self.bpe_dropout:
            seed = mix(self.seed, epoch, number)
            anew = resample(pairs, self.tokenizers, self.bpe_dropout, seed)
            pairs = [new if self._fits(new) else old for new, old in zip(anew, pairs, strict=True)]
        return self.collate(pairs, epoch, number)

    def collate(self, pairs: Sequence[Pair], epoch: int, number: int) -> Batch:
        """What other tasks than translation do otherwise."""
        return collate(pairs, self.vocabulary)

    def _fits(self, pair: Pair) -> bool:
        return max(len(pair[0]), len(pair[1])) < self.longest
