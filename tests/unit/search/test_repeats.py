"""Endless repetition is found and cut; what the source repeats may be repeated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from glassformer.search.repeats import find_run, kept_without_repeats


def test_runs() -> None:
    assert find_run([1, 2, 3]) is None
    assert find_run([7] * 11) is None  # ha ha ha
    assert find_run([1, *[7] * 12]) == (1, 1, 12)
    assert find_run([1, *[7, 8, 9] * 3]) is None
    assert find_run([1, *[7, 8, 9] * 4, 7]) == (1, 3, 13)  # with the beginning of one more
    assert find_run([]) is None


def test_one_unit_stays() -> None:
    tokens = [5, *[7, 8] * 20, 9, 4]
    kept, run = kept_without_repeats(tokens, [3, 4])
    assert [tokens[place] for place in kept] == [5, 7, 8, 9, 4]
    assert run == (1, 2, 40)
    assert kept_without_repeats([5, 6, 7], [3]) == ([0, 1, 2], None)


def test_what_the_source_repeats_may_be_repeated() -> None:
    tokens = [7, 8] * 10
    assert kept_without_repeats(tokens, [3, 4] * 10) == (list(range(20)), None)
    assert kept_without_repeats(tokens, [3] * 12)[1] is None
    kept, _ = kept_without_repeats([7, 8] * 40, [3, 4] * 10)
    assert kept == [0, 1]


@given(st.lists(st.integers(2, 4), max_size=120))
def test_afterwards_there_is_none(tokens: list[int]) -> None:
    kept, run = kept_without_repeats(tokens, [])
    assert find_run([tokens[place] for place in kept]) is None
    assert kept == sorted(set(kept))
    assert (run is None) == (len(kept) == len(tokens))
