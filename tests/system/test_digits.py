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
SEEDS = (1, 2, 3)


@pytest.mark.full
def test_digits_are_read_with_more_than_97_percent(tmp_path: Path) -> None:
    """On average over three seeds: one seed may miss by an image or two."""
    pytest.importorskip("sklearn")
    lines = (fetch("digits") / "test.tsv").read_text("utf-8").splitlines()
    pairs = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
    right = 0
    for seed in SEEDS:
        recipe = settings.read(Recipe, RECIPE, ["train.threads=1", f"train.seed={seed}"])
        result = train(recipe, tmp_path / str(seed), report=Report())
        found = accuracy(Labeller.load(result.path), pairs)
        assert found.count > 300
        assert found.right / found.count > 0.95
        right += found.right
    assert right / (len(SEEDS) * len(pairs)) > 0.97
