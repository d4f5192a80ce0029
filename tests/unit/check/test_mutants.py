"""Every mistake is caught in wrong modules and named, and nothing is said against right ones."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from check_catalogue import checked, render, specimens

from glassformer.check.mistakes import MISTAKES

ALL = specimens()
WRONG = [specimen for specimen in ALL if specimen.mistake]
RIGHT = [specimen for specimen in ALL if not specimen.mistake]


@pytest.mark.parametrize("specimen", WRONG, ids=lambda s: s.name)
def test_a_mistake_is_caught_and_named_and_no_other(specimen) -> None:
    report = checked(specimen)
    assert report.mistakes == [specimen.mistake], report.text()
    assert not report.ok
    said = next(verdict for verdict in report.verdicts if verdict.status == "wrong")
    assert said.evidence.en
    assert said.evidence.zh


@pytest.mark.parametrize("specimen", RIGHT, ids=lambda s: s.name)
def test_right_modules_pass(specimen) -> None:
    report = checked(specimen)
    assert report.ok, report.text()
    assert not [verdict for verdict in report.verdicts if verdict.status == "unknown"], report.text()


def test_every_mistake_has_two_mutants() -> None:
    counts = Counter(specimen.mistake for specimen in WRONG)
    assert set(counts) == set(MISTAKES) - {"cannot_call"}
    assert min(counts.values()) >= 2, counts
    assert sum("attention" in checked(specimen).kind for specimen in RIGHT) >= 8


def test_the_table_in_the_documentation_is_true() -> None:
    def numberless(text: str) -> str:
        return re.sub(r"\d[\d.e+-]*", "#", text)

    written = Path(__file__).resolve().parents[3] / "docs" / "CHECK.md"
    assert numberless(written.read_text(encoding="utf-8")) == numberless(render()), (
        "run: python tests/unit/check/catalogue.py > docs/CHECK.md"
    )
