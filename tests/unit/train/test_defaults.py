"""The recipe for those who say nothing, and what changed since a run began."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from glassformer import settings
from glassformer.errors import ConfigError, TrainingError
from glassformer.recipe import CorpusConfig, DataConfig, Recipe
from glassformer.train import defaults
from glassformer.train.changes import changes, refuse
from glassformer.train.defaults import default_recipe, must_end, with_languages


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(defaults).failed == 0


@pytest.mark.parametrize(
    ("pairs", "width", "vocabulary"),
    [(1, 128, 4000), (29_000, 128, 8000), (140_000, 256, 8000), (5_000_000, 512, 32000)],
)
def test_the_size_of_the_corpus_decides(pairs: int, width: int, vocabulary: int) -> None:
    recipe = must_end(default_recipe(DataConfig(), pairs))
    assert recipe.model.width == width
    assert recipe.tokenizer.size == vocabulary
    assert recipe.train.max_epochs > 0


def test_overrides_win() -> None:
    recipe = default_recipe(DataConfig(), 1000, ["model.width=64", "train.max_epochs=3", "model.norm=pre"])
    assert (recipe.model.width, recipe.train.max_epochs, recipe.model.norm) == (64, 3, "pre")


def test_languages_come_from_the_names_of_the_files() -> None:
    files = CorpusConfig(source="x/train.lc.en", target="x/train.lc.de.gz")
    assert with_languages(DataConfig(corpora=(files,))).source_language == "en"
    assert with_languages(DataConfig(corpora=(files,))).target_language == "de"
    given = with_languages(DataConfig(corpora=(files,), target_language="nl"))
    assert (given.source_language, given.target_language) == ("en", "nl")
    pairs = DataConfig(corpora=(CorpusConfig(pairs="a.tsv"),))
    assert with_languages(pairs) == pairs


def test_a_run_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="never end"):
        must_end(Recipe())


def test_changes_are_named_in_order() -> None:
    before = Recipe()
    now = settings.change(before, ["train.learning_rate=0.1", "model.width=256", "data.hold_out=7"])
    found = changes(before, now)
    assert [change.key for change in found] == ["model.width", "data.hold_out", "train.learning_rate"]
    assert str(found[1]) == "data.hold_out was 1000 and is now 7"
    assert [change.shapes_the_network for change in found] == [True, False, False]
    assert changes(before, before) == []


def test_what_may_change_and_what_may_not() -> None:
    before, here = Recipe(), Path("run")
    harmless = changes(before, settings.change(before, ["train.threads=3", "train.samples=0"]))
    refuse(harmless, here, allowed=False)
    other = changes(before, settings.change(before, ["train.clip=2.0", "model.dropout=0.4"]))
    with pytest.raises(TrainingError, match="--allow-changes"):
        refuse(other, here, allowed=False)
    refuse(other, here, allowed=True)
    shape = changes(before, settings.change(before, ["tokenizer.kind=unigram", "train.clip=2.0"]))
    with pytest.raises(TrainingError, match=r"another network.*\n.*tokenizer\.kind"):
        refuse(shape, here, allowed=True)
