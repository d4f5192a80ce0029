"""The guide's example files do what the chapters say of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.look.lessons import word_figure
from glassformer.look.plots import plot
from glassformer.look.trace import trace

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "guide" / "examples"


def test_summed_heads_are_found_out() -> None:
    spec = importlib.util.spec_from_file_location("summed_heads", EXAMPLES / "summed_heads.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = gf.check(module.SummedHeads)
    assert not report.ok
    assert "projection of the wrong width" in report.text()


ROBOT, CAT = "机器人必须服从人给予它的命令", "小明养了一只猫，它特别调皮可爱，他非常喜欢它"


@pytest.mark.parametrize(("text", "occurrences"), [(ROBOT, 1), (CAT, 2)])
def test_what_it_looks_at_can_be_drawn(text: str, occurrences: int, tmp_path: Path) -> None:
    seen = trace(gf.load("zh-en", engine="torch"), text, continuations=0, ablations=False)
    assert len(word_figure(seen, "它").axes) == occurrences + 1  # and the scale of colours
    assert plot("word", tmp_path / "word.png", trace=seen, word="它").stat().st_size < 150_000
