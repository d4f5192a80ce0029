"""The guide's example files do what the chapters say of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import glassformer as gf

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
