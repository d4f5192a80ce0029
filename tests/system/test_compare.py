"""`glass compare` from end to end, as small as it gets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.compare.contestants import SWEEP


def glass(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glassformer", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


@pytest.mark.full
@pytest.mark.parametrize(
    ("extra", "names"),
    [
        (["--only", "transformer,lstm,lstm-dot"], ["transformer", "lstm", "lstm-dot"]),
        (
            ["--ablations", "--only", "transformer,raw,no-positions,learned", "--tune"],
            ["transformer", "raw", "no-positions", "learned"],
        ),
    ],
    ids=["architectures", "ablations"],
)
def test_a_small_comparison(tmp_path: Path, extra: list[str], names: list[str]) -> None:
    to = tmp_path / "out"
    done = glass("--to", str(to), "--minutes", "0.3", "--longest", "8", "--threads", "1", *extra)
    assert done.returncode == 0, done.stderr
    found = json.loads((to / "result.json").read_text("utf-8"))
    assert [row["contestant"]["name"] for row in found["rows"]] == names
    for row in found["rows"]:
        assert row["updates"] > 0
        assert row["seconds"] >= 0.99 * 18 / len(names)
        assert len(row["by_group"]) == len(found["groups"]) == 6
    tuned = "--tune" in extra
    assert len(found["rates_tried"]) == (len(SWEEP) * len(names) if tuned else 0)
    text = (to / "README.md").read_text("utf-8")
    assert ("## Learning rates that were tried" in text) == tuned
    assert "| Transformer |" in done.stdout
    assert (to / "quality.png").stat().st_size > 1000
    assert (to / "speed.png").is_file() != tuned
    again = glass("--to", str(to), "--minutes", "0.05", "--longest", "8", "--only", "lstm", "--threads", "1")
    assert again.returncode == 0, again.stderr  # its own directory may be used again


def test_bad_requests_are_one_clear_line(tmp_path: Path) -> None:
    done = glass("--to", str(tmp_path / "out"), "--only", "lstn")
    assert done.returncode == 2
    assert done.stderr.strip() == "glass: there is no contestant 'lstn'; did you mean lstm?"
