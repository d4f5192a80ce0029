"""Beam search against a slow twin, against exhaustive search, and over random tables."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.search.greedy import greedy
from glassformer.search.scoring import Hypothesis
from tests.unit.search.conftest import search

ALPHAS = st.sampled_from([0.0, 0.6, 1.0, 2.0])
PENALTIES = st.sampled_from(["length", "wu"])


def whole(hypothesis: Hypothesis, eos: int) -> list[int]:
    return [*hypothesis.tokens, eos] if hypothesis.finished else hypothesis.tokens


@settings(max_examples=60)
@given(
    size=st.integers(4, 9),
    beams=st.integers(1, 5),
    longest=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    alpha=ALPHAS,
    penalty=PENALTIES,
    end_bias=st.floats(-2, 3),
    min_length=st.integers(0, 3),
    no_repeat=st.integers(0, 2),
)
def test_equals_the_slow_twin(
    tables: SimpleNamespace,
    size: int,
    beams: int,
    longest: list[int],
    alpha: float,
    penalty: str,
    end_bias: float,
    min_length: int,
    no_repeat: int,
) -> None:
    longest = [max(most, min_length) for most in longest]
    table = tables.Table(size, end_bias=end_bias)
    fast = search(
        tables,
        table,
        list(range(len(longest))),
        longest,
        beams=beams,
        n_best=beams,
        length_penalty=alpha,
        penalty=penalty,
        min_length=min_length,
        no_repeat_ngram=no_repeat,
    )
    for sentence, (most, found) in enumerate(zip(longest, fast, strict=True)):
        forbidden = tables.forbid(min_length=min_length, no_repeat=no_repeat)
        slow = tables.slow_beam(
            table, sentence, beams=beams, longest=most, alpha=alpha, penalty=penalty, forbidden=forbidden
        )
        if not slow:  # everything was forbidden before any hypothesis could end
            assert not found[0].finished
            continue
        slow = slow[:beams]
        assert [whole(h, tables.EOS) for h in found] == [said for _, said in slow]
        assert [h.score for h in found] == pytest.approx([score for score, _ in slow])


@settings(max_examples=40)
@given(
    size=st.integers(3, 5),
    longest=st.integers(1, 4),
    alpha=ALPHAS,
    penalty=PENALTIES,
    stop=st.sampled_from(["exact", "beam_finished"]),
    end_bias=st.floats(-3, 3),
)
def test_a_wide_beam_is_exhaustive(
    tables: SimpleNamespace, size: int, longest: int, alpha: float, penalty: str, stop: Any, end_bias: float
) -> None:
    table = tables.Table(size, end_bias=end_bias)
    expected = tables.exhaustive(table, 0, longest=longest, alpha=alpha, penalty=penalty)
    beams = max(len(expected), 1)
    [found] = search(
        tables,
        table,
        [0],
        [longest],
        beams=beams,
        n_best=beams,
        length_penalty=alpha,
        penalty=penalty,
        stop=stop,
    )
    assert len(found) == len(expected)
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected])
    assert {tuple(whole(h, tables.EOS)) for h in found} == {tuple(said) for _, said in expected}


@settings(max_examples=50)
@given(
    size=st.integers(4, 400),
    beams=st.integers(1, 5),
    longest=st.integers(1, 12),
    alpha=ALPHAS,
    end_bias=st.floats(-3, 4),
)
def test_exact_never_loses_what_the_other_rule_finds(
    tables: SimpleNamespace, size: int, beams: int, longest: int, alpha: float, end_bias: float
) -> None:
    table = tables.Table(size, end_bias=end_bias)
    options = {"beams": beams, "n_best": beams, "length_penalty": alpha}
    [usual] = search(tables, table, [3], [longest], **options)
    [exact] = search(tables, table, [3], [longest], stop="exact", **options)
    assert exact[0].score >= usual[0].score - 1e-12
    # The slow twin goes on to the very end and finds nothing better: the bound is one.
    slow = tables.slow_beam(table, 3, beams=beams, longest=longest, alpha=alpha, exact=True)[:beams]
    assert [whole(h, tables.EOS) for h in exact] == [said for _, said in slow]


def test_exact_keeps_a_good_end_that_the_beam_drops(tables: SimpleNamespace) -> None:
    """An unlikely end closes nothing under the usual rule; here it is the best hypothesis there is."""

    class Never(tables.Table):  # type: ignore[misc,name-defined]
        def log_probs(self, sentence: int, said: Any) -> torch.Tensor:
            if not said:
                return torch.tensor([0.2, 0.0, 0.5, 0.3], dtype=torch.float64).log()
            return torch.tensor([0.0, 0.0, 0.5, 0.5], dtype=torch.float64).log()

    table = Never(4)
    [usual] = search(tables, table, [0], [6], beams=2, length_penalty=0.0)
    [exact] = search(tables, table, [0], [6], beams=2, length_penalty=0.0, stop="exact")
    assert not usual[0].finished
    assert (exact[0].tokens, exact[0].finished) == ([], True)
    assert exact[0].log_prob == pytest.approx(math.log(0.2))


@settings(max_examples=30)
@given(
    size=st.integers(4, 700),
    longest=st.lists(st.integers(1, 10), min_size=1, max_size=6),
    end_bias=st.floats(-3, 4),
    min_length=st.integers(0, 2),
    no_repeat=st.integers(0, 2),
)
def test_width_one_is_greedy(
    tables: SimpleNamespace, size: int, longest: list[int], end_bias: float, min_length: int, no_repeat: int
) -> None:
    longest = [max(most, min_length) for most in longest]
    table = tables.Table(size, end_bias=end_bias)
    options: dict[str, Any] = {"min_length": min_length, "no_repeat_ngram": no_repeat}
    sentences = list(range(len(longest)))
    narrow = search(tables, table, sentences, longest, beams=1, **options)
    plain = greedy(
        table.step,
        table.start(sentences, 1),
        batch=len(sentences),
        start=tables.START,
        eos=tables.EOS,
        max_lengths=longest,
        **options,
    )
    for [one], [other] in zip(narrow, plain, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.token_log_probs == other.token_log_probs
        assert one.score == pytest.approx(other.score)


@settings(max_examples=40)
@given(
    size=st.integers(5, 300),
    beams=st.integers(1, 4),
    longest=st.integers(1, 10),
    alpha=ALPHAS,
    penalty=PENALTIES,
    stop=st.sampled_from(["exact", "beam_finished"]),
    end_bias=st.floats(-3, 4),
)
def test_every_hypothesis_keeps_its_promises(
    tables: SimpleNamespace,
    size: int,
    beams: int,
    longest: int,
    alpha: float,
    penalty: str,
    stop: Any,
    end_bias: float,
) -> None:
    table = tables.Table(size, end_bias=end_bias)
    [found] = search(
        tables,
        table,
        [5],
        [longest],
        beams=beams,
        n_best=beams,
        length_penalty=alpha,
        penalty=penalty,
        stop=stop,
    )
    assert 1 <= len(found) <= beams
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    said = [tuple(whole(h, tables.EOS)) for h in found]
    assert len(set(said)) == len(said)
    for hypothesis, tokens in zip(found, said, strict=True):
        assert tables.EOS not in hypothesis.tokens
        assert tables.START not in hypothesis.tokens
        assert len(tokens) == len(hypothesis.token_log_probs) <= longest
        assert hypothesis.finished or len(tokens) == longest
        assert hypothesis.log_prob == pytest.approx(table.sum(5, tokens))
        assert sum(hypothesis.token_log_probs) == pytest.approx(hypothesis.log_prob)
        assert hypothesis.score == pytest.approx(
            hypothesis.log_prob / tables.factor(len(tokens), alpha, penalty)
        )


@settings(max_examples=30)
@given(
    longest=st.lists(st.integers(2, 9), min_size=2, max_size=20),
    beams=st.integers(1, 4),
    stop=st.sampled_from(["exact", "beam_finished"]),
    alpha=ALPHAS,
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
def test_a_sentence_does_not_feel_the_batch(
    tables: SimpleNamespace, longest: list[int], beams: int, stop: Any, alpha: float, dtype: torch.dtype
) -> None:
    table = tables.Table(7, end_bias=1.0, dtype=dtype)
    options: dict[str, Any] = {"beams": beams, "n_best": beams, "stop": stop, "length_penalty": alpha}
    together = search(tables, table, list(range(len(longest))), longest, **options)
    for sentence, most in enumerate(longest):
        [alone] = search(tables, table, [sentence], [most], **options)
        assert alone == together[sentence]


@settings(max_examples=40)
@given(
    prefixes=st.lists(st.lists(st.integers(2, 6), max_size=4), min_size=1, max_size=5),
    beams=st.integers(1, 4),
    alpha=ALPHAS,
    stop=st.sampled_from(["exact", "beam_finished"]),
    no_repeat=st.integers(0, 2),
)
def test_prefixes_are_forced_and_counted(
    tables: SimpleNamespace, prefixes: list[list[int]], beams: int, alpha: float, stop: Any, no_repeat: int
) -> None:
    table = tables.Table(7)
    found = search(
        tables,
        table,
        list(range(len(prefixes))),
        [8] * len(prefixes),
        beams=beams,
        n_best=beams,
        length_penalty=alpha,
        stop=stop,
        prefixes=prefixes,
        no_repeat_ngram=no_repeat,
    )
    for sentence, (prefix, hypotheses) in enumerate(zip(prefixes, found, strict=True)):
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            assert hypothesis.log_prob == pytest.approx(table.sum(sentence, whole(hypothesis, tables.EOS)))
        if stop == "beam_finished":
            forbidden = tables.forbid(no_repeat=no_repeat, prefix=prefix, size=7)
            slow = tables.slow_beam(table, sentence, beams=beams, longest=8, alpha=alpha, forbidden=forbidden)
            if slow:
                assert whole(hypotheses[0], tables.EOS) == slow[0][1]
