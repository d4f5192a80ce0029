from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from glassformer import settings
from glassformer.config import (
    PRESETS,
    BundleConfig,
    ModelConfig,
    SearchConfig,
    TokenizerConfig,
    VocabularyConfig,
)
from glassformer.errors import ConfigError
from glassformer.recipe import CorpusConfig, DataConfig, Recipe, TrainConfig

RECIPE = """
[model]
preset = "tiny"
dropout = 0.2

[data]
source_language = "en"
[[data.corpora]]
source = "a.en"
target = "a.de"
weight = 2

[train]
max_steps = 10
"""


def test_a_recipe_goes_in_and_comes_out(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    recipe = settings.read(Recipe, tmp_path / "r.toml")
    assert recipe.model.width == PRESETS["tiny"]["width"]
    assert recipe.model.dropout == 0.2
    assert recipe.data.corpora == (CorpusConfig(source="a.en", target="a.de", weight=2.0),)
    (tmp_path / "again.toml").write_text(settings.dumps(recipe))
    assert settings.read(Recipe, tmp_path / "again.toml") == recipe


def test_overrides_win_in_order(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    overrides = ["model.width=256", "model.norm=pre", "train.learning_rate=1e-3", "data.drop_empty=false"]
    recipe = settings.read(Recipe, tmp_path / "r.toml", overrides)
    assert (recipe.model.width, recipe.model.norm) == (256, "pre")
    assert recipe.train.learning_rate == 0.001
    assert recipe.data.drop_empty is False
    assert recipe.model.dropout == 0.2, "what was not overridden stays"
    assert settings.change(recipe, ["model.preset=base"]).model.width == 512
    assert settings.change(recipe, ["model.preset=base", "model.width=64"]).model.width == 64


def test_all_problems_are_reported_together_with_file_and_nearest_key(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        '[model]\nwidht = 3\nheads = "four"\nnorm = "psot"\n[trian]\nx = 1\n[train]\nwidth = 3\nclip = true\n'
    )
    with pytest.raises(ConfigError) as caught:
        settings.read(Recipe, path, ["model.preset=tny", "nonsense", "data.max_ratio=nan"])
    message = str(caught.value)
    assert str(path) in message
    for part in (
        "unknown key model.widht; did you mean width?",
        "model.heads = 'four' must be a whole number",
        "model.norm = 'psot': choose post | pre; did you mean post?",
        "unknown key trian; did you mean train?",
        "unknown key train.width; it belongs to [model]: model.width",
        "train.clip = True must be a number",
        "model.preset = 'tny'",
        "'nonsense' is not an override; write it as section.key=value",
        "data.max_ratio = nan must be a number",
    ):
        assert part in message
    assert caught.value.exit_code == 2


def test_senseless_values_name_key_value_and_range() -> None:
    mapping = {
        "model": {"dropout": 1.5},
        "tokenizer": {"size": 2},
        "data": {"corpora": [{"source": "a"}, {"pairs": "x", "name": "y"}]},
        "train": {"learning_rate": 0, "schedule": "cosine"},
        "search": {"beams": 0},
    }
    with pytest.raises(ConfigError) as caught:
        settings.from_mapping(Recipe, mapping)
    message = str(caught.value)
    for part in (
        "model.dropout = 1.5 must be from 0",
        "tokenizer.size = 2 must be at least",
        "data.corpora[0].source and target belong together",
        "data.corpora[1].pairs and name exclude each other",
        "train.learning_rate = 0.0 must be above 0",
        "train.schedule = 'cosine' must know the end",
        "search.beams = 0 must be at least 1",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[model\n", "not valid TOML"),
        (b"\xff\xfe[\x00", "not UTF-8"),
        (b"model = 3\n", "must be a table"),
        (b"[data]\ncorpora = 3\n", "must be a list"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as caught:
        settings.read(Recipe, path)
    assert str(path) in str(caught.value)


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        settings.read(Recipe, tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="directory"):
        settings.read(Recipe, tmp_path)


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf" + RECIPE.encode())
    assert settings.read(Recipe, tmp_path / "bom.toml").model.dropout == 0.2


def test_the_template_is_itself_a_recipe_and_explains_every_key() -> None:
    text = settings.describe(Recipe)
    assert settings.from_mapping(Recipe, tomllib.loads(text)) == Recipe()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith("#"):
            assert lines[number - 1].startswith("# ")
            assert len(lines[number - 1]) > 8, line


@pytest.mark.parametrize(
    "cls",
    [ModelConfig, VocabularyConfig, TokenizerConfig, CorpusConfig, DataConfig, TrainConfig, SearchConfig],
)
def test_every_setting_is_documented_where_it_is_declared(cls: type) -> None:
    assert set(settings.field_help(cls)) == {field.name for field in dataclasses.fields(cls)}


def test_a_bundle_of_a_later_format_says_so() -> None:
    mapping = settings.to_mapping(BundleConfig(vocabulary=VocabularyConfig(9, 9, True, 0, 1, 8, 8, 8)))
    assert settings.from_mapping(BundleConfig, mapping).vocabulary.start == 8
    with pytest.raises(ConfigError, match=r"format = 2.*upgrade"):
        settings.from_mapping(BundleConfig, {**mapping, "format": 2})


def test_vocabularies_that_do_not_fit_are_refused() -> None:
    problems = VocabularyConfig(10, 12, True, 0, 1, 10, 11, 11).problems()
    assert any("source_size 10 ≠ target_size 12" in problem for problem in problems)
    assert any("source_pad = 10 is outside the vocabulary of 10" in problem for problem in problems)
