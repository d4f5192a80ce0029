"""Beam search at its edges: what never ends, what is forbidden, who leaves, who watches, what is refused."""

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
from tests.unit.search.conftest import search


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
@given(beams=st.integers(1, 4), alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]), end_bias=st.floats(-2, 3))
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
