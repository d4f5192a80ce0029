"""Batches and processes: who gets what."""

from __future__ import annotations

import doctest
import platform
import subprocess
import sys

import torch

from glassformer.data.batch import BatchOrder
from glassformer.data.store import Store
from glassformer.text.tokenizer import TokenizerPair
from glassformer.train import feed as module
from glassformer.train.distributed import Processes
from glassformer.train.feed import Feed


def make(store: Store, tokenizers: TokenizerPair, **changes: float) -> Feed:
    order = BatchOrder(store.source_lengths, store.target_lengths, batch_tokens=120, seed=5)
    return Feed(store, order, tokenizers, tokenizers.vocabulary(), seed=5, **changes)  # type: ignore[arg-type]


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(module).failed == 0


def test_an_epoch_has_every_pair_once(store: Store, tokenizers: TokenizerPair) -> None:
    feed = make(store, tokenizers)
    rows = [len(feed.batch(0, number)) for number in range(feed.count(0))]
    assert sum(rows) == len(store)


def test_dropout_splits_differ_by_place_and_not_by_run(store: Store, tokenizers: TokenizerPair) -> None:
    one, other = (make(store, tokenizers, bpe_dropout=0.5) for _ in range(2))
    again = [(feed.batch(0, 0).source_BS, feed.batch(1, 0).source_BS) for feed in (one, other)]
    assert torch.equal(again[0][0], again[1][0])
    assert torch.equal(again[0][1], again[1][1])
    plain = make(store, tokenizers).batch(0, 0)
    assert one.batch(0, 0).tokens > plain.tokens
    decode = tokenizers.target.decode
    texts = [[decode(row.tolist()) for row in batch.target_out_BT] for batch in (plain, one.batch(0, 0))]
    assert texts[0] == texts[1], "the same words, spelled in other pieces"


def test_a_split_that_grows_too_long_is_not_used(store: Store, tokenizers: TokenizerPair) -> None:
    plain = make(store, tokenizers).batch(0, 0)
    longest = int(plain.target_lengths_B.max())
    limited = make(store, tokenizers, bpe_dropout=0.9, longest=longest).batch(0, 0)
    assert int(limited.target_lengths_B.max()) <= longest


def test_processes_share_a_batch_without_loss(store: Store, tokenizers: TokenizerPair) -> None:
    batch = make(store, tokenizers).batch(0, 0)
    shares = [Processes(rank, 3).share(batch) for rank in range(3)]
    assert all(counts for _, counts in shares)
    assert sum(share.tokens for share, _ in shares) == batch.tokens
    assert Processes().share(batch) == (batch, True)


def test_who_gets_no_row_works_for_nothing(store: Store, tokenizers: TokenizerPair) -> None:
    single = make(store, tokenizers).batch(0, 0).rows(slice(0, 1))
    share, counts = Processes(1, 2).share(single)
    assert len(share) == 1
    assert counts is False


def test_alone_everything_is_as_it_is() -> None:
    alone = Processes()
    objective = torch.nn.Linear(1, 1)
    assert alone.wrap(objective) is objective
    assert alone.sum([1.0, 2.0]) == [1.0, 2.0]
    assert alone.from_first([3.0]) == [3.0]
    alone.wait()


def test_the_allocator_understands() -> None:
    """In a process of its own: it can't be undone."""
    program = "from glassformer.train.allocator import keep_memory; print(keep_memory())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(platform.libc_ver()[0] == "glibc")
