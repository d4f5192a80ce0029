"""Hashes of text and the set of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.hashes import HashSet, hash_text


def test_hashes_never_change() -> None:
    """Splits and caches rest on these numbers."""
    assert hash_text("Hello") == 9_685_027_124_159_339_580
    assert hash_text("Hello", b"key") != hash_text("Hello")


@given(st.lists(st.lists(st.integers(0, 40), max_size=20), max_size=12))
def test_the_set_agrees_with_pythons(chunks: list[list[int]]) -> None:
    ours, theirs = HashSet(), set[int]()
    for chunk in chunks:
        expected = []
        for number in chunk:
            expected.append(number not in theirs)
            theirs.add(number)
        assert ours.add(chunk).tolist() == expected
        assert len(ours) == len(theirs)


def test_runs_stay_few() -> None:
    seen = HashSet()
    for start in range(0, 200_000, 1000):
        assert seen.add(range(start, start + 1000)).all()
    assert len(seen._runs) < 10
    assert sum(run.nbytes for run in seen._runs) == 8 * 200_000
    assert not seen.add(np.array([0, 199_999], np.uint64).tolist()).any()
