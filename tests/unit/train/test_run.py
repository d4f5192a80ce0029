"""A whole run in a directory: what it leaves behind, how it goes on, what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.errors import BundleError, ConfigError, DataError, TrainingError
from glassformer.recipe import Recipe
from glassformer.text.tokenizer import train_tokenizer
from glassformer.train.checkpoint import _described
from glassformer.train.report import Report, Validation
from glassformer.train.run import Result, train
from glassformer.translate import Translator
from tests.unit.train.conftest import NETWORK, make_pairs

MakeRecipe = Callable[..., Recipe]


class Listener(Report):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self.said)


@pytest.fixture
def recipe(tmp_path: Path) -> MakeRecipe:
    """recipe("train.max_steps=5") → a complete small recipe with its text files."""
    pairs = make_pairs(150)
    (tmp_path / "a.en").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "a.xx").write_text("".join(f"{target}\n" for _, target in pairs))
    mapping: dict[str, Any] = {
        "model": NETWORK,
        "tokenizer": {"size": 280},
        "data": {
            "corpora": [{"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.xx")}],
            "source_language": "en",
            "target_language": "xx",
        },
        "train": {"batch_tokens": 200, "max_steps": 6, "validate_every": 3, "validate_bleu": 2, "samples": 1},
        "search": {"beams": 2, "max_length": 8},
    }

    def make(*overrides: str) -> Recipe:
        return settings.from_mapping(Recipe, mapping, overrides=overrides)

    return make


def run(recipe: Recipe, directory: Path, **options: Any) -> tuple[Result, Listener]:
    listener = Listener()
    return train(recipe, directory, report=listener, **options), listener


def test_a_run_leaves_a_model_that_translates(tmp_path: Path, recipe: MakeRecipe) -> None:
    result, listener = run(recipe(), tmp_path / "run")
    assert result.path == tmp_path / "run" / "model"
    assert result.progress.step == 6
    bundle = Bundle.load(tmp_path / "run")
    assert isinstance(Translator(bundle).translate("abc").text, str)
    assert settings.read(Recipe, tmp_path / "run" / "recipe.toml") == recipe()
    assert result.validation is not None
    assert f"{result.validation.bleu:.2f}" in bundle.card
    assert result.validation.signature in bundle.card
    for part in ("en → xx", "a.en and", "pairs kept", "6 updates", "width = 16", "licence"):
        assert part in bundle.card
    for part in (
        "reading a.en, a.xx",
        "pairs kept",
        "parameters",
        "all 6 updates are done",
        "the model is in",
    ):
        assert part in listener.text


def test_the_result_is_the_best_checkpoint_or_a_mean(tmp_path: Path, recipe: MakeRecipe) -> None:
    mean_of_last = ["train.average=2", "train.average_last=true", "train.keep_last=1"]
    result, _ = run(recipe(*mean_of_last), tmp_path / "run")
    saved = [Bundle.load(path).model for path in sorted((tmp_path / "run" / "checkpoints").iterdir())]
    mean = [(a + b) / 2 for a, b in zip(*(model.parameters() for model in saved), strict=True)]
    for ours, theirs in zip(Bundle.load(result.path).model.parameters(), mean, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert "the mean of updates 3, 6" in Bundle.load(result.path).card


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path, recipe: MakeRecipe) -> None:
    run(recipe(), tmp_path / "run")
    weights = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
    shutil.rmtree(tmp_path / "run" / "model")
    result, _ = run(recipe(), tmp_path / "run")
    assert result.progress.step == 6
    assert (tmp_path / "run" / "model" / "model.safetensors").read_bytes() == weights
    again, listener = run(recipe(), tmp_path / "run")
    assert "this run is complete" in listener.text
    assert again.validation == result.validation


def test_text_and_vocabulary_are_made_once(tmp_path: Path, recipe: MakeRecipe) -> None:
    _, first = run(recipe(), tmp_path / "run")
    assert "learning the vocabulary" in first.text
    for old in ("checkpoints", "model"):
        shutil.rmtree(tmp_path / "run" / old)
    _, second = run(recipe(), tmp_path / "run")
    assert "learning the vocabulary" not in second.text


def test_another_network_is_refused_key_by_key(tmp_path: Path, recipe: MakeRecipe) -> None:
    run(recipe(), tmp_path / "run")
    changed = recipe("model.width=32", "tokenizer.size=290", "train.learning_rate=0.5")
    with pytest.raises(TrainingError) as caught:
        run(changed, tmp_path / "run", allow_changes=True)
    assert "model.width was 16 and is now 32" in str(caught.value)
    assert "tokenizer.size was 280 and is now 290" in str(caught.value)
    assert "learning_rate" not in str(caught.value)
    result, _ = run(changed, tmp_path / "run", fresh=True)
    assert Bundle.load(result.path).config.model.width == 32


def test_other_changes_need_a_word(tmp_path: Path, recipe: MakeRecipe) -> None:
    run(recipe(), tmp_path / "run")
    changed = recipe("train.learning_rate=0.5", "train.max_steps=9", "train.threads=1", "model.dropout=0.3")
    with pytest.raises(TrainingError) as caught:
        run(changed, tmp_path / "run")
    for key in (
        "train.learning_rate was 0.002 and is now 0.5",
        "train.max_steps",
        "model.dropout",
        "--allow-changes",
    ):
        assert key in str(caught.value)
    assert "threads" not in str(caught.value)
    result, _ = run(changed, tmp_path / "run", allow_changes=True)
    assert result.progress.step == 9
    assert settings.read(Recipe, tmp_path / "run" / "recipe.toml") == changed


def test_an_epoch_that_has_become_shorter_is_over(tmp_path: Path, recipe: MakeRecipe) -> None:
    before, _ = run(recipe("train.batch_tokens=50"), tmp_path / "run")
    assert before.progress.epoch == 0
    assert before.progress.batch == 6
    larger = recipe("train.batch_tokens=5000", "train.max_steps=9")
    result, _ = run(larger, tmp_path / "run", allow_changes=True)
    assert result.progress.step == 9
    assert result.progress.epoch > 1
    assert result.progress.skipped == 0


def test_changed_text_is_noticed(tmp_path: Path, recipe: MakeRecipe) -> None:
    run(recipe(), tmp_path / "run")
    for name in ("a.en", "a.xx"):
        with (tmp_path / name).open("a") as file:
            file.write("fedcba\n")
    longer = recipe("train.max_steps=9")
    with pytest.raises(TrainingError, match="training text is not what it was"):
        run(recipe(), tmp_path / "run")
    result, _ = run(longer, tmp_path / "run", allow_changes=True)
    assert result.progress.step == 9


def test_a_damaged_checkpoint_is_said_and_the_one_before_is_used(tmp_path: Path, recipe: MakeRecipe) -> None:
    run(recipe(), tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step-00000006" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    result, listener = run(recipe(), tmp_path / "run")
    assert "file truncated" in listener.text
    assert "going back to the checkpoint before it" in listener.text
    assert result.progress.step == 6


def test_a_vocabulary_one_longer_is_refused(tmp_path: Path, recipe: MakeRecipe) -> None:
    """A tokenizer swapped together with its entry in the manifest does not get past the weights."""
    run(recipe("tokenizer.kind=characters"), tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        train_tokenizer("characters", ["abcdef", "g", "h"]).save(path / "tokenizer.vocab.json")
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["files"]["tokenizer.vocab.json"] = _described(path / "tokenizer.vocab.json")
        (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"weights have 9 entries, the vocabulary 11"):
        run(recipe("tokenizer.kind=characters", "train.max_steps=9"), tmp_path / "run", allow_changes=True)


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path, recipe: MakeRecipe) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").touch()
    with pytest.raises(TrainingError, match="holds other files and no training run"):
        run(recipe(), tmp_path / "photos")
    with pytest.raises(TrainingError, match="is a file"):
        run(recipe(), tmp_path / "photos" / "me.jpg")


def test_two_runs_at_once_in_one_directory(tmp_path: Path, recipe: MakeRecipe) -> None:
    class Second(Listener):
        def updated(self, progress: Any, over: float) -> None:
            with pytest.raises(TrainingError, match="another process is training"):
                train(recipe(), tmp_path / "run", report=Listener())

    train(recipe("train.max_steps=1"), tmp_path / "run", report=Second())


def test_nothing_left_to_train_on(tmp_path: Path, recipe: MakeRecipe) -> None:
    with pytest.raises(DataError, match="no pairs are left"):
        run(recipe("data.max_characters=1"), tmp_path / "run")
    with pytest.raises(DataError, match=r"more than data\.max_tokens = 1"):
        run(recipe("data.max_tokens=1", "data.hold_out=0"), tmp_path / "run")


def test_sentences_longer_than_the_model_takes(tmp_path: Path, recipe: MakeRecipe) -> None:
    with pytest.raises(ConfigError, match=r"model\.max_length = 3.*data\.max_tokens=2"):
        run(recipe("model.max_length=3"), tmp_path / "run")


def test_fine_tuning_starts_from_a_bundle(tmp_path: Path, recipe: MakeRecipe) -> None:
    first, _ = run(recipe(), tmp_path / "run")
    more = recipe(f"train.start_from={tmp_path / 'run'}", "train.learning_rate=1e-9", "model.dropout=0.3")
    more = replace(more, tokenizer=replace(more.tokenizer, size=300), model=replace(more.model, width=64))
    result, _ = run(more, tmp_path / "tuned")
    tuned, start = Bundle.load(result.path), Bundle.load(first.path)
    assert tuned.config.model.width == 16
    assert tuned.config.model.dropout == 0.3
    assert tuned.tokenizers.fingerprint() == start.tokenizers.fingerprint()
    for one, other in zip(tuned.model.parameters(), start.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_without_validation(tmp_path: Path, recipe: MakeRecipe) -> None:
    result, _ = run(recipe("data.hold_out=0"), tmp_path / "run")
    assert result.validation is None
    assert "There were no validation pairs" in Bundle.load(result.path).card


def test_a_validation_file_of_its_own(tmp_path: Path, recipe: MakeRecipe) -> None:
    (tmp_path / "v.tsv").write_text("abc\tcba\nfed\tdef\n")
    result, _ = run(recipe(f"data.valid.pairs={tmp_path / 'v.tsv'}"), tmp_path / "run")
    assert isinstance(result.validation, Validation)
    assert "v.tsv" in Bundle.load(result.path).card
