"""Long texts in parts that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.sentences import split_sentences, split_to_fit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("It costs 3.14 now.", ["It costs 3.14 now."]),
        ('He said "No." Then he left.', ['He said "No." ', "Then he left."]),
        ("你好。今天（很）好！是吗？」她说", ["你好。", "今天（很）好！", "是吗？」", "她说"]),
        ("Wait… what?!  Yes", ["Wait… ", "what?!  ", "Yes"]),
        ("هل أنت بخير؟ نعم.", ["هل أنت بخير؟ ", "نعم."]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_the_gentlest_cut_is_taken() -> None:
    assert split_to_fit("short", lambda text: len(text) <= 10) == (["short"], None)
    assert split_to_fit("One two. Three.", lambda text: len(text) <= 10) == (
        ["One two. ", "Three."],
        "sentences",
    )
    parts, cut = split_to_fit("one two, three four five", lambda text: len(text) <= 16)
    assert (parts, cut) == (["one two, ", "three four five"], "words")
    parts, cut = split_to_fit("Fine. " + "x" * 30, lambda text: len(text) <= 10)
    assert (parts[0], cut) == ("Fine. ", "characters")


def test_marks_stay_with_their_character() -> None:
    parts, _ = split_to_fit("e\u0301" * 9, lambda text: len(text) <= 4)
    assert all(not part.startswith("\u0301") for part in parts)
    family = "👨\u200d👩\u200d👧"
    parts, _ = split_to_fit(family * 3, lambda text: len(text) <= 6)
    assert parts == [family] * 3


def test_what_can_not_fit_comes_in_single_characters() -> None:
    assert split_to_fit("abc", lambda text: False) == (["a", "b", "c"], "characters")


@given(st.text(max_size=200), st.integers(1, 40))
def test_nothing_is_lost(text: str, most: int) -> None:
    parts, cut = split_to_fit(text, lambda part: len(part) <= most)
    assert "".join(parts) == text
    assert (cut is None) == (len(text) <= most)
    assert all(len(part) > 0 for part in parts) or not text
