"""`glass import` and `glass export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.bundle import Bundle
from glassformer.cli.app import app
from glassformer.errors import FormatError
from glassformer.formats import huggingface_weights
from tests.foreign import ENGLISH, make_bundle, make_marian


def glass(*arguments: object) -> None:
    app([str(argument) for argument in arguments], result_action="return_value")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_bundle().save(tmp_path / "model")


def test_out_to_hugging_face_and_in_again(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    glass("export", "hf", "--model", model, "--to", tmp_path / "hf")
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path / 'hf'}\nagainst transformers ")
    assert "12 of 12 translations agree" in said
    glass("import", "hf", tmp_path / "hf", "--to", tmp_path / "back", "--source-language", "eng")
    assert "12 of 12 translations agree" in capsys.readouterr().out
    assert Bundle.load(tmp_path / "back").config.source_language == "eng"


def test_out_to_ctranslate2_and_argos(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    (tmp_path / "some.txt").write_text("\n".join(ENGLISH[:5]) + "\n", "utf-8")
    glass(
        "export", "ctranslate2", "-m", model, "--to", tmp_path / "ct2", "--sentences", tmp_path / "some.txt"
    )
    assert "5 of 5 translations agree" in capsys.readouterr().out
    glass("export", "ctranslate2", "-m", model, "--to", tmp_path / "int8", "--quantization", "int8")
    assert "int8: " in capsys.readouterr().out
    glass("export", "argos", "-m", model, "--to", tmp_path / "en_de.argosmodel")
    assert (tmp_path / "en_de.argosmodel").is_file()


def test_force_overrules_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    make_marian(tmp_path / "hf")
    monkeypatch.setattr(huggingface_weights, "halves", __import__("torch").arange)
    with pytest.raises(FormatError, match="--force overrules"):
        glass("import", "hf", tmp_path / "hf", "--to", tmp_path / "bundle")
    glass("import", "hf", tmp_path / "hf", "--to", tmp_path / "bundle", "--force")
    assert "--force has overruled it" in capsys.readouterr().out
