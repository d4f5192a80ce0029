"""Sampling: the right distribution, the same draws for the same seed, whatever else is in the batch."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.search.sample import sample


def run(tables: Any, table: Any, sentences: list[int], max_lengths: list[int], **options: Any) -> list[Any]:
    return sample(
        table.step,
        table.start(sentences, options.get("samples", 1)),
        batch=len(sentences),
        start=tables.START,
        eos=tables.EOS,
        max_lengths=max_lengths,
        **options,
    )


def shares(tables: Any, **options: Any) -> dict[int, float]:
    """How often each first token is drawn; 0 stands for an empty output."""
    draws = 4000
    [found] = run(tables, tables.Table(6, sharpness=1.0), [0], [1], samples=draws, seeds=[7], **options)
    counts = Counter(h.tokens[0] if h.tokens else tables.EOS for h in found)
    return {token: count / draws for token, count in counts.items()}


def test_draws_follow_the_distribution(tables: SimpleNamespace) -> None:
    probs_V = tables.Table(6, sharpness=1.0).log_probs(0, []).exp()
    found = shares(tables)
    assert tables.START not in found
    for token, prob in enumerate(probs_V.tolist()):
        assert found.get(token, 0.0) == pytest.approx(prob, abs=0.03)


def test_temperature_top_k_and_top_p(tables: SimpleNamespace) -> None:
    log_probs_V = tables.Table(6, sharpness=1.0).log_probs(0, [])
    order = log_probs_V.argsort(descending=True).tolist()
    sharp_V = (log_probs_V / 0.5).softmax(-1)
    found = shares(tables, temperature=0.5)
    assert found[order[0]] == pytest.approx(float(sharp_V[order[0]]), abs=0.03)
    assert set(shares(tables, top_k=2)) == set(order[:2])
    assert set(shares(tables, top_k=99)) <= set(range(6)) - {tables.START}
    enough = float(log_probs_V.exp()[order[:2]].sum())
    assert set(shares(tables, top_p=enough + 1e-6)) == set(order[:3])
    assert set(shares(tables, top_p=enough - 1e-6)) == set(order[:2])
    assert set(shares(tables, top_p=1e-9)) == {order[0]}


@settings(max_examples=25)
@given(
    longest=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    samples=st.integers(1, 3),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([1.0, 0.7]),
)
def test_a_sentence_does_not_feel_the_batch(
    tables: SimpleNamespace, longest: list[int], samples: int, top_k: int, top_p: float
) -> None:
    table = tables.Table(7, end_bias=0.5)
    options: dict[str, Any] = {"samples": samples, "top_k": top_k, "top_p": top_p}
    seeds = [100 + place for place in range(len(longest))]
    together = run(tables, table, list(range(len(longest))), longest, seeds=seeds, **options)
    for sentence, most in enumerate(longest):
        [alone] = run(tables, table, [sentence], [most], seeds=[seeds[sentence]], **options)
        assert alone == together[sentence]
        for hypothesis in alone:
            said = [*hypothesis.tokens, tables.EOS] if hypothesis.finished else hypothesis.tokens
            assert hypothesis.log_prob == pytest.approx(table.sum(sentence, said))
        assert [h.score for h in alone] == sorted((h.score for h in alone), reverse=True)


def test_seeds_decide(tables: SimpleNamespace) -> None:
    table = tables.Table(50, sharpness=0.3, end_bias=-9.0)
    first = run(tables, table, [0, 0], [12, 12], seeds=[1, 2])
    again = run(tables, table, [0, 0], [12, 12], seeds=[1, 2])
    assert first == again
    assert first[0][0].tokens != first[1][0].tokens
    # A longer maximum changes no earlier draw.
    [[longer]] = run(tables, table, [0], [20], seeds=[1])
    assert longer.tokens[:12] == first[0][0].tokens


def test_options_of_search_hold_here_too(tables: SimpleNamespace) -> None:
    table = tables.Table(9, end_bias=5.0)
    [[found]] = run(tables, table, [0], [6], seeds=[3], min_length=4, no_repeat_ngram=1, prefixes=[[2, 3]])
    assert found.tokens[:2] == [2, 3]
    assert len(found.tokens) >= 4
    assert len(set(found.tokens)) == len(found.tokens)


def test_nothing_to_draw_from(tables: SimpleNamespace) -> None:
    def step(last_BN: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        return torch.full((*last_BN.shape, 6), -torch.inf), state

    for top_k in (0, 2):
        state = tables.Table(6).start([0], 1)
        [[found]] = sample(step, state, batch=1, start=1, eos=0, max_lengths=[3], seeds=[1], top_k=top_k)
        assert (found.tokens, found.finished) == ([], False)
    assert sample(step, None, batch=0, start=1, eos=0, max_lengths=[], seeds=[]) == []
