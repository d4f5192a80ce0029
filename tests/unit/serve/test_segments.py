"""Texts in sentences and back."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.serve.segments import LONGEST, cut, join


@given(st.text(alphabet="ab. 。!\n\t🙂,", max_size=200), st.integers(1, 30))
def test_nothing_is_lost(text: str, longest: int) -> None:
    found = cut(text, longest)
    assert "".join(segment.before + segment.text for segment in found) == text
    assert all(len(segment.text) <= longest for segment in found)
    assert all(segment.text == segment.text.strip() for segment in found)


def test_only_what_has_words_is_translated() -> None:
    assert [segment.words for segment in cut("Hi. 🙂 \n --- \n3 apples")] == [True, False, False, True]


def test_a_sentence_without_end_is_cut() -> None:
    assert max(len(segment.text) for segment in cut("word " * 1000)) <= LONGEST


def test_white_space_fits_the_target() -> None:
    english, chinese = cut("One. Two.\nThree."), cut("一。二。\n三。")
    assert join(english, ["一。", "二。", "三。"], "zh-Hans") == "一。二。\n三。"
    assert join(chinese, ["One.", "Two.", "Three."], "en") == "One. Two.\nThree."
    assert join(english, ["Un.", "Deux.", "Trois."], "fr") == "Un. Deux.\nTrois."
    assert join(cut(" a \n"), ["b", ""], "zh-Hans") == " b \n"


@pytest.mark.parametrize("brick", [".", " ", "\n", "\u0301", "\u200d", "a\u0301", ",", '."', " \n", "x"])
def test_no_text_takes_long(brick: str) -> None:
    begun = time.process_time()
    cut(brick * (20_000 // len(brick)))
    assert time.process_time() - begun < 2
