"""The generated corpus of dates."""

from __future__ import annotations

import datetime

import pytest

from glassformer.errors import DataError
from glassformer.text import dates
from glassformer.text.dates import date_pairs


def test_the_seed_decides() -> None:
    assert list(date_pairs(200, seed=3)) == list(date_pairs(200, seed=3))
    assert list(date_pairs(200, seed=3)) != list(date_pairs(200, seed=4))
    assert list(date_pairs(200, seed=3))[:50] == list(date_pairs(50, seed=3))


def test_sources_are_unique_and_targets_are_dates() -> None:
    pairs = list(date_pairs(5000))
    assert len({source for source, _ in pairs}) == 5000
    for _, target in pairs:
        assert dates.FIRST <= datetime.date.fromisoformat(target) <= dates.LAST
    assert not any(character in source for source, _ in pairs for character in "\t\n\r")


def test_many_scripts_are_there() -> None:
    text = "".join(source for source, _ in date_pairs(2000))
    for character in "年월мαाı":  # Chinese and Japanese, Korean, Cyrillic, Greek, Devanagari, Turkish
        assert character in text


def test_no_source_means_two_dates() -> None:
    """All patterns over a whole year, in which every day-month order that could be confused occurs."""
    meaning: dict[str, datetime.date] = {}
    days = [datetime.date(2012, 1, 1) + datetime.timedelta(days=n) for n in range(366)]
    for locale, pattern in dates._patterns():
        for day in days:
            source = str(pattern.apply(day, locale))
            assert meaning.setdefault(source, day) == day, (source, str(locale))


@pytest.mark.parametrize(
    ("pattern", "ambiguous"),
    [
        ("M/d/y", True),
        ("d/M/yy", True),
        ("d/M/y", False),
        ("MMM d, y", False),
        ("y-MM-dd", False),
        ("d 'MMM' M y", False),
        ("y/d/M", True),
    ],
)
def test_which_patterns_are_ambiguous(pattern: str, ambiguous: bool) -> None:
    assert dates._ambiguous(pattern) is ambiguous


def test_too_many_are_refused() -> None:
    with pytest.raises(DataError, match="up to 1,000,000 pairs, not 2,000,000"):
        next(date_pairs(2_000_000))
