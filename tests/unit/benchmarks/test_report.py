from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import plots, results_file
from benchmarks.report import BEGIN, END, between_marks, full, short, table

ROWS = [
    {"contestant": "Glassformer", "target tokens/s": 100.0, "share of peak": "50%"},
    {"contestant": "peer", "target tokens/s": 50.0, "share of peak": "25%"},
    {"contestant": "other", "target tokens/s": "not quoted", "share of peak": "not quoted"},
]
RATIOS = {"peer": [2.0, 1.9, 2.1], "slower": [3.0, 2.9, 3.1], "peer, tuned": [1.5, 1.4, 1.6]}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    results_file.add({"training, tiny": {"rows": ROWS, "ratios": RATIOS}}, tmp_path)
    results_file.add({"start-up": {"rows": [{"what": "glass --help", "seconds": 0.17}]}}, tmp_path)
    return results_file.newest(tmp_path)


def test_parts_are_added_one_by_one(whole: dict[str, Any]) -> None:
    assert set(whole["parts"]) == {"training, tiny", "start-up"}
    assert "cores" in whole["machine"]
    assert whole["versions"]["torch"]


def test_a_hasty_result_never_replaces_a_careful_one(tmp_path: Path) -> None:
    results_file.add({"growth" + results_file.QUICK: {"rows": [], "n": 1}}, tmp_path)
    assert results_file.newest(tmp_path)["parts"]["growth"]["n"] == 1
    results_file.add({"growth": {"rows": [], "n": 2}}, tmp_path)
    results_file.add({"growth" + results_file.QUICK: {"rows": [], "n": 3}}, tmp_path)
    assert results_file.newest(tmp_path)["parts"]["growth"]["n"] == 2


def test_the_newest_file_wins(tmp_path: Path) -> None:
    (tmp_path / "2020-01-01.json").write_text('{"machine": "old", "parts": {"growth": {"n": 1}, "x": {}}}')
    results_file.add({"growth": {"rows": [], "n": 2}}, tmp_path)
    found = results_file.newest(tmp_path)
    assert found["parts"]["growth"]["n"] == 2
    assert "x" in found["parts"]
    assert found["machine"] != "old"


def test_the_short_table_names_the_best_peer_and_leaves_out_what_is_not_known(whole: dict[str, Any]) -> None:
    text = short(whole)
    assert "| training, against the best peer as installed | 2.00× (peer) | – |" in text
    assert "| training, against the best peer with its allocator tuned | 1.50× (peer) | – |" in text
    assert "| `glass --help` | 0.17 s | – |" in text
    assert "decoding" not in text


def test_the_page_has_every_part(whole: dict[str, Any]) -> None:
    page = full(whole, ["../../docs/images/bench-training.png"])
    assert "## Training, tiny" in page
    assert "| peer | 50 | 25% |" in page
    assert "![bench-training](../../docs/images/bench-training.png)" in page


def test_only_what_stands_between_the_marks_changes() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert between_marks(text, r"new \1") == f"before\n{BEGIN}\nnew \\1\n{END}\nafter\n"
    assert between_marks("no marks\n", "new") == "no marks\n"


def test_rows_may_have_different_columns() -> None:
    assert table([{"a": 1}, {"b": True}]).splitlines() == ["| a | b |", "|---|---|", "| 1 |  |", "|  | yes |"]


def test_every_picture_is_small(tmp_path: Path, whole: dict[str, Any]) -> None:
    points = [[2**n, 0.1 * 2**n] for n in range(5)]
    names = ["length", "batch", "width", "layers"]
    curve = [{"seconds": 60.0 * n, "bleu": 3.0 * n} for n in range(10)]
    parts = {
        **whole["parts"],
        "decoding, tiny, beam 4": {"rows": [{"contestant": "Glassformer", "sentences/s": 9.0}]},
        "growth": {
            "rows": [{"against": name, "cost": "seconds", "exponent": 1.0} for name in names],
            "points": dict.fromkeys(names, points),
        },
        "time to quality": {"runs": {"ours": {"curve": curve}}},
    }
    drawn = plots.draw(parts, tmp_path)
    assert len(drawn) == 4
    assert all(2_000 < path.stat().st_size < 100_000 for path in drawn)
