"""A small vision Transformer reads handwritten digits that it has never seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import settings
from glassformer.label import Labeller, accuracy
from glassformer.recipe import Recipe
from glassformer.text.sources import fetch
from glassformer.train.report import Report
from glassformer.train.run import train

RECIPE = Path(__file__).parents[2] / "recipes" / "digits.toml"


@pytest.mark.full
def test_digits_are_read_with_more_than_97_percent(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    recipe = settings.read(Recipe, RECIPE, ["train.threads=1"])
    result = train(recipe, tmp_path / "run", report=Report())
    lines = (fetch("digits") / "test.tsv").read_text("utf-8").splitlines()
    pairs = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
    found = accuracy(Labeller.load(result.path), pairs)
    assert found.count > 300
    assert found.right / found.count > 0.97
