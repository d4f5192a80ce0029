"""Claims are judged by numbers: each outcome is reached by numbers that call for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer.compare.contestants import ABLATIONS, ARCHITECTURES, PLANS, choose
from glassformer.compare.measure import Difference, Group
from glassformer.compare.report import report, write
from glassformer.compare.result import Result, Row
from glassformer.compare.verdicts import verdicts
from glassformer.errors import RequestError

GROUPS = [Group(1, 4, False, (0,)), Group(5, 8, False, (1,)), Group(9, 16, True, (2,))]


def row(name: str, by_group: Sequence[float], points: float | None = None, **changes: Any) -> Row:
    contestant = PLANS["language"].settled(choose([name], ())[0])
    known, longer = list(by_group[:2]), list(by_group[2:])
    return Row(
        **{
            "contestant": contestant,
            "parameters": 1000,
            "updates": 10,
            "seconds": 5.0,
            "tokens_per_second": 100.0,
            "loss": 1.0,
            "quality": sum(known) / 2,
            "by_group": list(by_group),
            "known": known,
            "longer": longer,
            "sentences_per_second": 9.0,
            "against": None if points is None else Difference(points, points - 0.5, points + 0.5),
            "pass_times": {8: 0.001, 64: 0.008},
            "curve": [(1.0, 5.0), (2.0, 4.0)],
            **changes,
        }
    )


def result(*rows: Row, ablations: bool = False) -> Result:
    machine = {"processor": "x", "threads": 2, "torch": "2", "seed": 1}
    return Result("language", "words", GROUPS, 8, rows, ablations, machine)


def outcomes(found: Result) -> dict[str, str]:
    return {verdict.claim.split(":")[0].split(" ")[0]: verdict.outcome for verdict in verdicts(found)}


def test_numbers_as_the_tutorials_have_them() -> None:
    found = outcomes(
        result(
            row("transformer", [99, 98, 97], tokens_per_second=200, pass_times={8: 0.001, 64: 0.002}),
            row("lstm", [90, 40, 10], -30),
            row("lstm-dot", [95, 92, 80], -5),
            row("lstm-additive", [94, 92, 80], -5.5),
        )
    )
    assert found == {
        "one": "seen",
        "in": "seen",
        "a": "seen",
        "an": "seen",
        "dot,": "seen",
        "sinusoidal": "seen",
    }


def test_numbers_the_other_way_round() -> None:
    found = outcomes(
        result(
            row("transformer", [80, 70, 10], tokens_per_second=50, pass_times={8: 0.001, 64: 0.02}),
            row("lstm", [90, 89, 88], 14),
            row("lstm-dot", [95, 70, 80], 7),
            row("lstm-additive", [44, 52, 80], -20),
        )
    )
    assert set(found.values()) == {"contradicted"}
    assert len(found) == 6


def test_numbers_that_say_nothing() -> None:
    found = outcomes(
        result(
            row("transformer", [90, 90, 90]),
            row("lstm", [90, 88, 88], 0),
            row("lstm-dot", [90, 89, 80], 0.5),
        )
    )
    assert found == {
        "one": "not seen",
        "in": "not seen",
        "a": "not seen",
        "an": "not seen",
        "sinusoidal": "seen",
    }
    untrained = outcomes(result(row("transformer", [0, 0, 0]), row("lstm", [0, 0, 0], 0)))
    assert set(untrained) == {"a", "an"}  # speed can be compared all the same


@pytest.mark.parametrize(
    ("name", "points", "outcome"),
    [
        ("no-positions", -20, "seen"),
        ("no-positions", -1, "not seen"),
        ("no-positions", +5, "contradicted"),
        ("additive", 0.3, "seen"),
        ("additive", -8, "contradicted"),
        ("additive", +8, "contradicted"),
    ],
)
def test_parts(name: str, points: float, outcome: str) -> None:
    found = verdicts(
        result(row("transformer", [99, 99, 99]), row(name, [90, 90, 90], points), ablations=True)
    )
    assert [verdict.outcome for verdict in found] == [outcome]
    assert f"{points:+.1f}" in found[0].evidence


def test_a_large_difference_that_is_not_clear() -> None:
    one = row("one-head", [90, 90, 90], against=Difference(-5, -11, 1))
    found = verdicts(result(row("transformer", [95, 95, 95]), one, ablations=True))
    assert [verdict.outcome for verdict in found] == ["not seen"]


def test_who_diverged_is_worse() -> None:
    lost = row("no-norm", [], trouble="diverged", quality=0.0, loss=float("nan"))
    found = result(row("transformer", [95, 95, 95]), lost, ablations=True)
    assert [(verdict.outcome, verdict.evidence) for verdict in verdicts(found)] == [
        ("seen", "training diverged")
    ]
    assert "| no norm | diverged |" in report(found, verdicts(found))


def test_positions_beyond_training() -> None:
    for ours, theirs, outcome in ((90, 40, "seen"), (40, 90, "contradicted"), (50, 50, "not seen")):
        found = verdicts(
            result(row("transformer", [99, 99, ours]), row("learned", [99, 99, theirs], 0), ablations=True)
        )
        assert [verdict.outcome for verdict in found] == ["seen", outcome]


def test_the_report_says_where_it_parts_from_the_tutorials(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = result(
        row("transformer", [99, 98, 97]),
        row("lstm", [90, 40, 10], -30),
        row("lstm-dot", [95, 92, 80], +5),
    )
    text, paths = write(found, tmp_path)
    assert {path.name for path in paths} == {
        "README.md",
        "result.json",
        "quality.png",
        "learning.png",
        "speed.png",
    }
    assert all(path.stat().st_size > 500 for path in paths)
    assert "Contradicts the tutorials: in equal time" in text
    assert "| LSTM, no attention | 65.0 | 90.0 | 40.0 | 10.0 |" in text
    assert "9–16 (longer)" in text
    loaded = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert [one["contestant"]["name"] for one in loaded["rows"]] == ["transformer", "lstm", "lstm-dot"]
    assert len(loaded["verdicts"]) == len(verdicts(found))


def test_ablations_have_a_figure_and_a_difference(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row("transformer", [95, 95, 95]), row("raw", [90, 80, 70], -10)]
    text, paths = write(result(*rows, ablations=True), tmp_path)
    assert "parts.png" in {path.name for path in paths}
    assert "-10.0 [-10.5, -9.5]" in text


def test_contestants_are_known_by_name() -> None:
    assert choose([], ARCHITECTURES) == list(ARCHITECTURES)
    assert [one.name for one in choose(["alibi", "lstm", "alibi"], ())] == ["alibi", "lstm"]
    with pytest.raises(RequestError, match="did you mean lstm-dot"):
        choose(["lstm-dott"], ABLATIONS)
    names = [one.name for one in (*ARCHITECTURES, *ABLATIONS[1:])]
    assert len(set(names)) == len(names)
