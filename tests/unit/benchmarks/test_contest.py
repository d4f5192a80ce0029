from __future__ import annotations

import time

import pytest

from benchmarks.contest import Entry, contest, interval, median, ratio, shown


class Counts:
    """A contestant that answers with its round."""

    def __init__(self, factor: float = 1.0, ends_in: int = -1) -> None:
        self.factor, self.ends_in = factor, ends_in

    def run(self, number: int) -> dict[str, float]:
        if number == self.ends_in:
            raise SystemExit(3)
        return {"speed": self.factor * (number + 1)}


HERE = "tests.unit.benchmarks.test_contest:Counts"


def test_rounds_are_interleaved_and_the_order_moves_on() -> None:
    said: list[str] = []
    results = contest([Entry("a", HERE, {"factor": 2.0}), Entry("b", HERE)], 2, said.append)
    assert results == {"a": [{"speed": 2.0}, {"speed": 4.0}], "b": [{"speed": 1.0}, {"speed": 2.0}]}
    assert [line.split()[2] for line in said] == ["a", "b", "b", "a"]


def test_a_peer_that_ends_drops_out_and_is_named() -> None:
    said: list[str] = []
    results = contest([Entry("ours", HERE), Entry("peer", HERE, {"ends_in": 1})], 3, said.append)
    assert set(results) == {"ours"}
    assert len(results["ours"]) == 3
    assert any("peer ended without an answer (exit code 3)" in line for line in said)


def test_ours_must_not_drop_out() -> None:
    with pytest.raises(SystemExit, match="ours ended"):
        contest([Entry("ours", HERE, {"ends_in": 0})], 1, lambda text: None)


def test_a_peer_that_is_not_installed_is_left_out() -> None:
    begin = time.monotonic()
    results = contest([Entry("ours", HERE), Entry("peer", "no_such_package:X")], 1, lambda text: None)
    assert set(results) == {"ours"}
    assert time.monotonic() - begin < 60


def test_ratios_are_taken_inside_each_round() -> None:
    ours = [{"speed": 2.0}, {"speed": 20.0}, {"speed": 6.0}]
    theirs = [{"speed": 1.0}, {"speed": 10.0}, {"speed": 2.0}]
    found = ratio(ours, theirs, "speed")
    assert found.median == 2.0
    assert (found.low, found.high) == (2.0, 3.0)
    assert str(found) == "2.00 (2.00–3.00)"
    assert median(ours, "speed") == 6.0


def test_the_interval_of_equal_values_is_a_point() -> None:
    assert interval([1.5, 1.5, 1.5]).values == (1.5, 1.5, 1.5)


def test_lists_are_not_shown() -> None:
    assert shown({"speed": 1234.5, "waits": [1.0]}) == "speed 1,234"
