"""What an .argosmodel holds, and what it can't."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from glassformer.errors import FormatError
from glassformer.formats import argos
from glassformer.formats.huggingface_reading import read_bundle
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from tests.foreign import ENGLISH, make_bundle, make_marian, separate_tokenizers, with_config

pytest.importorskip("ctranslate2")


def test_the_layout_is_what_argos_unpacks(tmp_path: Path) -> None:
    bundle = with_config(make_bundle(), target_language="zh-Hans")
    proof = argos.export_bundle(bundle, tmp_path / "new" / "en_zh.argosmodel")
    assert proof.holds
    assert "int8: " in str(proof)
    with zipfile.ZipFile(tmp_path / "new" / "en_zh.argosmodel") as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        metadata = json.loads(archive.read("translate-en_zh-1_0/metadata.json"))
        model = archive.read("translate-en_zh-1_0/sentencepiece.model")
    assert model == bundle.tokenizers.source.to_bytes()
    assert {name.split("/")[0] for name in names} == {"translate-en_zh-1_0"}
    assert {name.rsplit("/", 1)[1] for name in names if "/model/" in name} == {
        "config.json", "model.bin", "shared_vocabulary.json",
    }  # fmt: skip
    assert metadata["from_code"] == "en"
    assert metadata["from_name"] == "English"
    assert metadata["to_code"] == "zh"
    assert metadata["to_name"].startswith("Chinese")


def test_two_tokenizers_are_enough_if_one_can_put_the_other_s_pieces_together(tmp_path: Path) -> None:
    bundle = make_bundle(separate_tokenizers(), tied="output")
    assert argos.export_bundle(bundle, tmp_path / "x.argosmodel", "float32").holds


def test_a_model_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    make_marian(tmp_path / "hf")
    assert argos.export_bundle(read_bundle(tmp_path / "hf"), tmp_path / "x.argosmodel").holds
    make_marian(tmp_path / "codes", codes=True)
    with pytest.raises(FormatError, match=">>deu<<"):
        argos.export_bundle(read_bundle(tmp_path / "codes"), tmp_path / "y.argosmodel")


def test_all_reasons_against_and_the_nearest_format(tmp_path: Path) -> None:
    characters = train_tokenizer("characters", ENGLISH)
    bundle = make_bundle(TokenizerPair(characters, characters, shared=True))
    with pytest.raises(FormatError, match="glass export ctranslate2") as caught:
        argos.export_bundle(with_config(bundle, target_language=""), tmp_path / "x.argosmodel")
    assert len(caught.value.reasons) == 3
    with pytest.raises(FormatError, match="keep the bundle"):
        argos.export_bundle(make_bundle(positions="alibi"), tmp_path / "x.argosmodel")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("language", "code", "name"),
    [
        ("en", "en", "English"),
        ("pt_BR", "pb", "Portuguese (Brazil)"),
        ("zh-Hant", "zt", "Chinese (Traditional)"),
        ("deu", "de", "German"),
        ("xx-klingon", "xx", "xx-klingon"),
    ],
)
def test_languages(language: str, code: str, name: str) -> None:
    assert argos._code(language) == code
    assert argos._language(language) == name
