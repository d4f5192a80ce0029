"""Checkpoints: whole or not there, found out when damaged, kept by age and by score."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig
from glassformer.errors import DamagedFileError, TrainingError
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.train import checkpoint as module
from glassformer.train.checkpoint import Checkpoints, Progress, Window, average_weights


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    tokenizer = train_tokenizer("characters", ["some text"])
    pair = TokenizerPair(tokenizer, tokenizer, shared=True)
    network = ModelConfig(encoder_layers=1, decoder_layers=1, width=8, feed_forward=8, heads=1)
    config = BundleConfig(vocabulary=pair.vocabulary(), model=network)
    return Bundle(config, pair, build_model(network, config.vocabulary))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def checkpoints(tmp_path: Path, said: list[str]) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=2, say=said.append)


def save(checkpoints: Checkpoints, bundle: Bundle, step: int, score: float | None) -> None:
    memory = {"memory": torch.full((100,), float(step))}
    checkpoints.save(bundle, Progress(step=step), memory, score, scheduled=score is not None)


def steps(checkpoints: Checkpoints) -> list[int]:
    return [checkpoint.step for checkpoint in checkpoints.all()]


def test_all_of_the_state_comes_back(checkpoints: Checkpoints, bundle: Bundle) -> None:
    window = Window(updates=3, loss=0.1 + 0.2, nll=1 / 3, tokens=17, gradient=2.5, seconds=0.7)
    progress = Progress(7, 1, 4, 900, 12.5, 2, 1, 5, 3.25, 6, 1, 11.0, window)
    checkpoints.save(bundle, progress, {"exp_avg.x": torch.arange(3.0), "step.x": torch.tensor(7.0)}, 3.25)
    found = checkpoints.newest()
    assert found is not None
    back, tensors = found.load()
    assert back == progress
    assert tensors["exp_avg.x"].tolist() == [0, 1, 2]
    assert tensors["step.x"].shape == ()
    assert Bundle.load(found.path).config == bundle.config, "a checkpoint is a bundle"


def test_the_newest_and_the_best_are_kept(checkpoints: Checkpoints, bundle: Bundle) -> None:
    for step, score in enumerate([5.0, 1.0, 3.0, 2.0, 4.0, 4.5, 4.2], start=1):
        save(checkpoints, bundle, step, score)
    assert steps(checkpoints) == [2, 4, 6, 7]
    assert [c.step for c in checkpoints.best(2)] == [2, 4]
    assert [c.step for c in checkpoints.last(2)] == [7, 6]
    checkpoints.sign = -1
    assert [c.step for c in checkpoints.best(1)] == [6], "for BLEU more is better"


def test_without_validation_the_last_are_the_best(checkpoints: Checkpoints, bundle: Bundle) -> None:
    for step in range(1, 5):
        checkpoints.save(bundle, Progress(step=step), {})
    assert steps(checkpoints) == [3, 4]
    assert [c.step for c in checkpoints.best(1)] == [4]


def test_an_interruption_pushes_nothing_out(checkpoints: Checkpoints, bundle: Bundle) -> None:
    for step, score in enumerate([1.0, 2.0, 3.0, None, None], start=1):
        save(checkpoints, bundle, step, score)
    assert steps(checkpoints) == [1, 2, 3, 5]
    save(checkpoints, bundle, 6, 4.0)
    assert steps(checkpoints) == [1, 2, 3, 6]


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "state.json", "config.toml"])
@pytest.mark.parametrize("how", ["truncated", "empty", "flipped", "missing"])
def test_a_damaged_checkpoint_is_passed_over(
    checkpoints: Checkpoints, bundle: Bundle, said: list[str], name: str, how: str
) -> None:
    save(checkpoints, bundle, 1, 2.0)
    save(checkpoints, bundle, 2, 1.0)
    path = checkpoints.directory / "step-00000002" / name
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes({"truncated": content[:-1], "empty": b"", "flipped": flipped, "missing": b""}[how])
    if how == "missing":
        path.unlink()
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.step == 1
    assert name in said[0]
    assert "going back to the checkpoint before it" in said[0]
    with pytest.raises(DamagedFileError, match=name):
        average_weights(checkpoints.best(1))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 3}', '{"files": {"a": [1]}}'])
def test_a_damaged_manifest_is_passed_over(
    checkpoints: Checkpoints, bundle: Bundle, said: list[str], content: str
) -> None:
    save(checkpoints, bundle, 1, 2.0)
    save(checkpoints, bundle, 2, 1.0)
    (checkpoints.directory / "step-00000002" / "manifest.json").write_text(content)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.step == 1
    assert "manifest.json: unreadable" in said[0]


def test_state_of_another_version_is_refused(checkpoints: Checkpoints, bundle: Bundle) -> None:
    save(checkpoints, bundle, 1, None)
    path = checkpoints.directory / "step-00000001" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": 1}))
    newest = checkpoints.all()[0]
    with pytest.raises(DamagedFileError, match="colour"):
        newest.load()


def test_no_checkpoint_at_all(checkpoints: Checkpoints) -> None:
    assert checkpoints.newest() is None
    assert checkpoints.all() == []


def test_a_full_disk_loses_nothing(
    checkpoints: Checkpoints, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoints, bundle, 1, 2.0)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_safetensors", full)
    with pytest.raises(TrainingError, match=r"No space left on device.*the one of step 1 is intact"):
        save(checkpoints, bundle, 2, 1.0)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.step == 1
    assert [path.name for path in checkpoints.directory.iterdir()] == ["step-00000001"], "no litter"


def test_what_a_killed_process_left_is_ignored_and_tidied(checkpoints: Checkpoints, bundle: Bundle) -> None:
    save(checkpoints, bundle, 1, 2.0)
    shutil.copytree(checkpoints.directory / "step-00000001", checkpoints.directory / ".step-00000002.tmp-99")
    shutil.copytree(checkpoints.directory / "step-00000001", checkpoints.directory / ".step-00000003.gone")
    (checkpoints.directory / ".step-00000002.tmp-99" / "manifest.json").unlink()
    assert steps(checkpoints) == [1]
    checkpoints.tidy()
    assert [path.name for path in checkpoints.directory.iterdir()] == ["step-00000001"]


def test_the_average_is_the_mean_of_the_weights(checkpoints: Checkpoints, bundle: Bundle) -> None:
    weight = bundle.model.output_weight
    kept = weight.detach().clone()
    for step, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        weight.data.fill_(value)
        save(checkpoints, bundle, step, float(step))
    weight.data.copy_(kept)
    mean = average_weights(checkpoints.best(2))
    name = next(name for name, tensor in mean.items() if tensor.shape == weight.shape)
    assert mean[name].unique().tolist() == [1.5]
    assert average_weights(checkpoints.last(2))[name].unique().tolist() == [4.0]
