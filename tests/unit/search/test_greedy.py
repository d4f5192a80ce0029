"""Greedy search: the likeliest token, step by step."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.search.greedy import greedy, likeliest


def run(tables: Any, table: Any, sentences: list[int], max_lengths: list[int], **options: Any) -> list[Any]:
    found = greedy(
        table.step,
        table.start(sentences, 1),
        batch=len(sentences),
        start=tables.START,
        eos=tables.EOS,
        max_lengths=max_lengths,
        **options,
    )
    assert all(len(row) == 1 for row in found)
    return [row[0] for row in found]


@settings(max_examples=40)
@given(
    longest=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    end_bias=st.floats(-2, 3),
    prefix=st.lists(st.integers(2, 6), max_size=1),
    alpha=st.sampled_from([0.0, 1.0]),
)
def test_each_token_is_the_likeliest(
    tables: SimpleNamespace, longest: list[int], end_bias: float, prefix: list[int], alpha: float
) -> None:
    table = tables.Table(7, end_bias=end_bias)
    found = run(
        tables,
        table,
        list(range(len(longest))),
        longest,
        prefixes=[prefix] * len(longest),
        length_penalty=alpha,
    )
    for sentence, (most, hypothesis) in enumerate(zip(longest, found, strict=True)):
        said: list[int] = []
        while len(said) < most and (not said or said[-1] != tables.EOS):
            best = int(table.log_probs(sentence, said).argmax())
            said.append(prefix[len(said)] if len(said) < len(prefix) else best)
        finished = said[-1] == tables.EOS
        assert hypothesis.finished == finished
        assert hypothesis.tokens == (said[:-1] if finished else said)
        assert hypothesis.log_prob == pytest.approx(table.sum(sentence, said))
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / len(said) ** alpha)
        assert len(hypothesis.token_log_probs) == len(said)


def test_a_path_ends_before_what_is_forbidden(tables: SimpleNamespace) -> None:
    table = tables.Table(5, end_bias=-math.inf)
    [found] = run(tables, table, [0], [9], no_repeat_ngram=1)
    assert (len(found.tokens), found.finished, len(set(found.tokens))) == (3, False, 3)


def test_nothing_allowed_gives_nothing(tables: SimpleNamespace) -> None:
    def step(last_BN: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        return torch.full((*last_BN.shape, 6), -math.inf), state

    state = tables.Table(6).start([0], 1)
    [[found]] = greedy(step, state, batch=1, start=1, eos=0, max_lengths=[3])
    assert (found.tokens, found.finished, found.log_prob) == ([], False, -math.inf)
    assert greedy(step, None, batch=0, start=1, eos=0, max_lengths=[]) == []


def test_finished_sentences_leave_the_batch(tables: SimpleNamespace) -> None:
    table = tables.Table(6, end_bias=-9.0)
    sizes = []

    def step(last_BN: torch.Tensor, state: Any) -> Any:
        sizes.append(len(last_BN))
        return table.step(last_BN, state)

    greedy(step, table.start([0, 1, 2], 1), batch=3, start=1, eos=0, max_lengths=[1, 4, 2])
    assert sizes == [3, 2, 1, 1]


def test_likeliest_is_argmax() -> None:
    log_probs_BNV = torch.randn(3, 2, 5000)
    assert torch.equal(likeliest(log_probs_BNV, 0, torch.arange(3)), log_probs_BNV.argmax(-1))
