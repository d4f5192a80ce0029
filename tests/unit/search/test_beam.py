"""Beam search against a slow twin, against exhaustive search, and over random tables."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import RequestError
from glassformer.search.beam import BeamSearch, BeamStep, beam
from glassformer.search.greedy import greedy
from glassformer.search.scoring import Hypothesis

ALPHAS = st.sampled_from([0.0, 0.6, 1.0, 2.0])
PENALTIES = st.sampled_from(["length", "wu"])


def search(
    tables: Any, table: Any, sentences: list[int], max_lengths: list[int], **options: Any
) -> list[Any]:
    state = table.start(sentences, options["beams"])
    return beam(
        table.step,
        state,
        batch=len(sentences),
        start=tables.START,
        eos=tables.EOS,
        max_lengths=max_lengths,
        **options,
    )


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


def test_tables_that_never_end_give_the_best_unfinished(tables: SimpleNamespace) -> None:
    table = tables.Table(6, end_bias=-math.inf)
    for stop in ("beam_finished", "exact"):
        found = search(tables, table, [0, 1], [5, 9], beams=3, n_best=3, stop=stop)
        for most, hypotheses in zip((5, 9), found, strict=True):
            assert len(hypotheses) == 3
            assert not any(h.finished for h in hypotheses)
            assert [len(h.tokens) for h in hypotheses] == [most] * 3


def test_when_everything_is_forbidden_the_longest_way_is_returned(tables: SimpleNamespace) -> None:
    table = tables.Table(5, end_bias=-math.inf)  # three words, none twice: nothing can follow the third
    [[found]] = search(tables, table, [0], [9], beams=1, no_repeat_ngram=1)
    assert (len(found.tokens), found.finished) == (3, False)
    assert found.log_prob == pytest.approx(table.sum(0, found.tokens))


def test_a_table_of_nothing_gives_nothing(tables: SimpleNamespace) -> None:
    for fill in (-math.inf, math.nan):
        table_VV = torch.full((6, 6), fill)
        state = tables.Table(6).start([0], 2)
        [[found]] = beam(
            lambda last_BN, state, table_VV=table_VV: (table_VV[last_BN], state),
            state,
            batch=1,
            beams=2,
            start=1,
            eos=0,
            max_lengths=[3],
        )
        assert (found.tokens, found.finished, found.log_prob) == ([], False, -math.inf)


def test_no_sentences() -> None:
    assert (
        beam(lambda last, state: (last, state), None, batch=0, beams=2, start=1, eos=0, max_lengths=[]) == []
    )


def test_finished_sentences_leave_the_batch(tables: SimpleNamespace) -> None:
    table = tables.Table(6, end_bias=-9.0)
    sizes = []

    def step(last_BN: torch.Tensor, state: Any) -> Any:
        sizes.append(len(last_BN))
        return table.step(last_BN, state)

    beam(step, table.start([0, 1, 2], 2), batch=3, beams=2, start=1, eos=0, max_lengths=[2, 9, 4])
    assert sizes == [3, 3, 2, 2, 1, 1, 1, 1, 1]


def test_watching_shows_the_tree_and_changes_nothing(tables: SimpleNamespace) -> None:
    table = tables.Table(6)
    seen: list[BeamStep] = []
    options: dict[str, Any] = {"beams": 3, "n_best": 2}
    watched = search(tables, table, [0, 1], [7, 5], watch=seen.append, **options)
    assert watched == search(tables, table, [0, 1], [7, 5], **options)
    assert [step.length for step in seen] == list(range(1, len(seen) + 1))
    for step in seen:
        assert step.tokens_BC.shape == step.parents_BC.shape == step.sums_BC.shape == (len(step.rows), 6)
        assert step.live_BN.shape == (len(step.rows), 3)
        assert bool((step.sums_BC[:, :-1] >= step.sums_BC[:, 1:]).all())
    closed = sum(int(step.closed_BC.sum()) for step in seen if step.closed_BC is not None)
    assert closed >= 4


def test_an_ensemble_is_just_another_step(tables: SimpleNamespace) -> None:
    """Two tables whose probabilities are averaged: the search sees one step and one state."""
    one, other = tables.Table(6), tables.Table(6, sharpness=1.0)

    class Both(tables.Table):  # type: ignore[misc,name-defined]
        def log_probs(self, sentence: int, said: Any) -> torch.Tensor:
            return _mean(one.log_probs(sentence, said), other.log_probs(sentence, said))

    class State:
        def __init__(self, *states: Any) -> None:
            self.states = states

        def reorder(self, parents_BN: torch.Tensor) -> None:
            for state in self.states:
                state.reorder(parents_BN)

        def keep(self, rows: torch.Tensor) -> None:
            for state in self.states:
                state.keep(rows)

    def step(last_BN: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        return _mean(one.step(last_BN, state.states[0])[0], other.step(last_BN, state.states[1])[0]), state

    both = State(one.start([0, 1], 3), other.start([0, 1], 3))
    found = beam(
        step, both, batch=2, beams=3, n_best=3, start=tables.START, eos=tables.EOS, max_lengths=[7, 5]
    )
    expected = search(tables, Both(6), [0, 1], [7, 5], beams=3, n_best=3)
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs])


def _mean(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(one, other) - math.log(2)


@settings(max_examples=25)
@given(beams=st.integers(1, 4), alpha=ALPHAS, end_bias=st.floats(-2, 3))
def test_what_is_settled_only_grows_into_the_result(
    tables: SimpleNamespace, beams: int, alpha: float, end_bias: float
) -> None:
    table = tables.Table(6, end_bias=end_bias)
    running = BeamSearch(
        table.step,
        table.start([4], beams),
        batch=1,
        beams=beams,
        start=tables.START,
        eos=tables.EOS,
        max_lengths=[10],
        length_penalty=alpha,
    )
    settled = [running.settled()]
    while not running.done:
        running.advance()
        settled.append(running.settled())
    [[result]] = running.results()
    assert settled[-1] == result.tokens
    for earlier, later in itertools.pairwise(settled):
        assert later[: len(earlier)] == earlier


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_best": 3}, "n_best = 3 must be from 1 to beams = 2"),
        ({"max_lengths": [4]}, "1 maximum lengths for 2 sentences"),
        ({"max_lengths": [4, 0]}, "max_length = 0 of sentence 1 must be at least 1"),
        ({"min_length": 5}, "max_length = 4 of sentence 0 must be at least 5"),
        ({"prefixes": [[2]]}, "1 prefixes for 2 sentences"),
        ({"prefixes": [[2], [3, 0]]}, "the prefix of sentence 1 holds the end of sentence"),
        ({"prefixes": [[2], [3] * 5]}, "the prefix of sentence 1 has 5 tokens; its maximum is 4"),
    ],
)
def test_senseless_requests_are_refused(tables: SimpleNamespace, wrong: dict[str, Any], message: str) -> None:
    table = tables.Table(5)
    options: dict[str, Any] = {"beams": 2, "max_lengths": [4, 4], **wrong}
    with pytest.raises(RequestError, match=message.replace("(", r"\(")):
        beam(table.step, table.start([0, 1], 2), batch=2, start=1, eos=0, **options)
