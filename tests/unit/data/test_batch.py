"""Batches and their order."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.config import TokenizerConfig, VocabularyConfig
from glassformer.data.batch import SOURCE_ROOM, Batch, BatchOrder, collate, resample
from glassformer.errors import ConfigError
from glassformer.text.dates import date_pairs
from glassformer.text.tokenizer import TokenizerPair, train_tokenizers

VOCABULARY = VocabularyConfig(
    source_size=20, target_size=30, shared=False, source_pad=19, target_pad=29, start=29, eos=0
)
PAIRS = [([5, 6, 7], [8]), ([2], [3, 4, 5, 6]), ([], [])]


def same(one: Batch, two: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one._tensors(), two._tensors(), strict=True))


def test_what_a_batch_looks_like() -> None:
    batch = collate(PAIRS, VOCABULARY)
    assert batch.source_BS.tolist() == [[5, 6, 7, 0], [2, 0, 19, 19], [0, 19, 19, 19]]
    assert batch.source_lengths_B.tolist() == [4, 2, 1]
    assert batch.target_in_BT.tolist() == [[29, 8, 29, 29, 29], [29, 3, 4, 5, 6], [29, 29, 29, 29, 29]]
    assert batch.target_out_BT.tolist() == [[8, 0, 29, 29, 29], [3, 4, 5, 6, 0], [0, 29, 29, 29, 29]]
    assert batch.target_lengths_B.tolist() == [2, 5, 1]
    assert (batch.tokens, len(batch)) == (8, 3)
    assert all(tensor.dtype == torch.int64 for tensor in batch._tensors())


def test_arrays_of_any_type_are_collated() -> None:
    arrays = [(np.array(source, np.uint16), np.array(target, np.uint32)) for source, target in PAIRS]
    assert same(collate(arrays, VOCABULARY), collate(PAIRS, VOCABULARY))


def test_rows_are_cut_to_their_longest() -> None:
    batch = collate(PAIRS, VOCABULARY)
    assert same(batch.rows([1, 2]), collate(PAIRS[1:], VOCABULARY))
    assert same(batch.rows(slice(0, None, 2)), collate(PAIRS[::2], VOCABULARY))
    assert same(batch.rows(torch.tensor([2])), collate(PAIRS[2:], VOCABULARY))
    assert len(batch.rows(slice(3, None))) == 0


@given(st.integers(1, 9), st.integers(1, 12))
def test_splitting_loses_nothing(rows: int, parts: int) -> None:
    pairs = [([2] * (n + 1), [3] * (rows - n)) for n in range(rows)]
    batch = collate(pairs, VOCABULARY)
    split = batch.split(parts)
    assert len(split) == min(parts, rows)
    assert sum(part.tokens for part in split) == batch.tokens
    lengths = [length for part in split for length in part.source_lengths_B.tolist()]
    assert lengths == batch.source_lengths_B.tolist()
    assert max(map(len, split)) - min(map(len, split)) <= 1


@given(st.integers(1, 7), st.integers(1, 4))
def test_the_slices_of_all_ranks_are_the_batch(rows: int, ranks: int) -> None:
    pairs = [([2] * (n + 1), [3] * (rows - n)) for n in range(rows)]
    batch = collate(pairs, VOCABULARY)
    parts = [batch.rows(slice(rank, None, ranks)) for rank in range(ranks)]
    assert sum(part.tokens for part in parts) == batch.tokens
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_moving_keeps_the_numbers() -> None:
    batch = collate(PAIRS, VOCABULARY)
    assert same(batch.to("cpu"), batch)


# ---- the order ------------------------------------------------------------------------------------------


def lengths(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Like those of real pairs: the sides of a pair are about as long."""
    generator = np.random.default_rng(seed)
    source = generator.poisson(13, count) + 1
    target = np.maximum(1, np.round(source * generator.uniform(0.7, 1.4, count))).astype(int)
    return source.astype(np.uint32), target.astype(np.uint32)


SHAPES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)


@given(SHAPES, st.integers(1, 200), st.integers(0, 3))
def test_every_pair_once_and_within_budget(shapes: list[tuple[int, int]], budget: int, epoch: int) -> None:
    source, target = (np.array(side) for side in zip(*shapes, strict=True))
    order = BatchOrder(source, target, batch_tokens=budget, seed=5)
    batches = order.batches(epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(shapes)))
    for batch in batches:
        assert len(batch) > 0
        if len(batch) > 1:
            assert len(batch) * (target[batch].max() + 1) <= budget
            assert len(batch) * (source[batch].max() + 1) <= SOURCE_ROOM * budget


def as_lists(order: BatchOrder, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in order.batches(epoch)]


def test_the_order_is_a_function_of_seed_epoch_and_step() -> None:
    source, target = lengths(2000)
    one = BatchOrder(source, target, batch_tokens=500, seed=1)
    two = BatchOrder(source.tolist(), target.tolist(), batch_tokens=500, seed=1)
    epochs = [as_lists(one, epoch) for epoch in (0, 1, 2)]
    assert [as_lists(two, epoch) for epoch in (2, 0, 1)] == [epochs[2], epochs[0], epochs[1]]
    assert epochs[0] != epochs[1]
    assert as_lists(BatchOrder(source, target, batch_tokens=500, seed=2), 0) != epochs[0]


def test_other_pairs_meet_in_each_epoch() -> None:
    source, target = lengths(20_000)
    order = BatchOrder(source, target, batch_tokens=800, seed=1)
    batch_of = np.zeros(20_000, int)
    for number, batch in enumerate(order.batches(1)):
        batch_of[batch] = number
    together = [(np.bincount(batch_of[batch]).max() - 1) / (len(batch) - 1) for batch in order.batches(0)]
    assert np.mean(together) < 0.2


def test_the_order_never_changes() -> None:
    """Resuming a run rests on this, across versions of everything."""
    source, target = [n * 7 % 23 for n in range(50)], [n * 5 % 19 for n in range(50)]
    order = BatchOrder(source, target, batch_tokens=100, seed=1)
    assert [batch.tolist() for batch in order.batches(3)[:2]] == [
        [30, 7, 49, 15, 34],
        [6, 2, 21, 44, 25, 29, 48],
    ]


def test_long_and_short_batches_are_mixed() -> None:
    source, target = lengths(5000)
    order = BatchOrder(source, target, batch_tokens=400, seed=1)
    longest = [int(target[batch].max()) for batch in order.batches(0)]
    rising = sum(one <= two for one, two in itertools.pairwise(longest)) / len(longest)
    assert 0.4 < rising < 0.65


def test_little_is_padding() -> None:
    source, target = lengths(30_000)
    batches = BatchOrder(source, target, batch_tokens=800, seed=1).batches(0)
    for side, share in ((target, 0.95), (source, 0.9)):
        padded = sum(len(batch) * (int(side[batch].max()) + 1) for batch in batches)
        assert (int(side.sum()) + len(side)) / padded > share


def test_slices_of_an_epoch() -> None:
    source, target = lengths(300)
    batches = BatchOrder(source, target, batch_tokens=200, seed=1).batches(0)
    assert len(batches[2:5]) == 3
    assert np.array_equal(batches[-1], batches[len(batches) - 1])
    with pytest.raises(IndexError):
        batches[len(batches)]


def test_weights() -> None:
    source, target = lengths(1000)
    groups = [(600, 1.0), (200, 2.5), (200, 0.25)]
    order = BatchOrder(source, target, batch_tokens=500, seed=1, groups=groups)
    epochs = [
        collections.Counter(i for batch in order.batches(epoch) for i in batch.tolist()) for epoch in (0, 1)
    ]
    for counts in epochs:
        assert all(counts[i] == 1 for i in range(600))
        assert sorted(counts[i] for i in range(600, 800)) == [2] * 100 + [3] * 100
        assert sorted(counts[i] for i in range(800, 1000)) == [0] * 150 + [1] * 50
    assert epochs[0] != epochs[1]  # another sample each time
    with pytest.raises(ConfigError, match="do not add up to 1000 pairs"):
        BatchOrder(source, target, batch_tokens=500, seed=1, groups=[(3, 1.0)])


def test_nothing_at_all() -> None:
    assert len(BatchOrder([], [], batch_tokens=10, seed=1).batches(0)) == 0


# ---- BPE-dropout ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    config = TokenizerConfig(source_kind="bpe", target_kind="characters", joint=False, size=600)
    return train_tokenizers(config, lambda: date_pairs(500))


def test_resampling_changes_the_split_but_not_the_text(tokenizers: TokenizerPair) -> None:
    texts = list(date_pairs(50, seed=2))
    pairs = [
        (np.array(tokenizers.source.encode(source), np.uint16), tokenizers.target.encode(target))
        for source, target in texts
    ]
    anew = resample(pairs, tokenizers, 0.3, seed=7)
    assert [tokenizers.source.decode(source) for source, _ in anew] == [source for source, _ in texts]
    assert [target for _, target in anew] == [target for _, target in pairs]  # characters have no merges
    assert [list(source) for source, _ in anew] != [list(source) for source, _ in pairs]
    assert resample(pairs, tokenizers, 0.3, seed=7) == anew
    assert resample(pairs, tokenizers, 0.3, seed=8) != anew


def test_both_sides_are_drawn_apart() -> None:
    shared = train_tokenizers(TokenizerConfig(size=600), lambda: date_pairs(500))
    ids = [shared.source.encode(source) for source, _ in date_pairs(50)]
    anew = resample([(row, row) for row in ids], shared, 0.5, seed=1)
    assert [source for source, _ in anew] != [target for _, target in anew]
