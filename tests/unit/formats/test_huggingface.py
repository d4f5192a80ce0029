"""Hugging Face directories that are broken, hostile or not for us, and bundles that do not fit there."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import BundleError, DamagedFileError, FormatError
from glassformer.formats import huggingface, huggingface_weights
from glassformer.formats.huggingface_reading import read_bundle
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.weights import read_safetensors, write_safetensors
from tests.foreign import ENGLISH, GERMAN, joint_tokenizers, make_bundle, make_marian

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marian") / "hf"
    make_marian(path)
    return path


@pytest.fixture
def marian(original: Path, tmp_path: Path) -> Path:
    """A fresh copy that a test may break."""
    return Path(shutil.copytree(original, tmp_path / "hf"))


def change_json(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text("utf-8")) | changes
    kept = {key: value for key, value in content.items() if value != "gone"}
    path.write_text(json.dumps(kept), "utf-8")


def change_weights(path: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = read_safetensors(path / "model.safetensors")
    change(weights)
    write_safetensors(path / "model.safetensors", weights)


def test_everything_wrong_with_the_settings_is_said_at_once(marian: Path) -> None:
    change_json(
        marian / "config.json",
        activation_function="gelu_new",
        decoder_ffn_dim=64,
        d_model="24",
        normalize_before=True,
        dropout=1.5,
        encoder_layers=10**9,
        decoder_attention_heads="gone",
    )
    (marian / "target.spm").unlink()
    with pytest.raises(FormatError) as caught:
        read_bundle(marian)
    said = str(caught.value)
    for part in ("gelu_new", "ffn_dim", "d_model = '24'", "normalize_before", "dropout = 1.5"):
        assert part in said
    for part in ("encoder_layers = 1000000000", "decoder_attention_heads None", "target.spm is missing"):
        assert part in said
    assert len(caught.value.reasons) >= 8


@pytest.mark.parametrize("kind", ["t5", "bart", 7, "gone"])
def test_another_kind_of_model_is_refused(kind: Any, marian: Path) -> None:
    change_json(marian / "config.json", model_type=kind)
    with pytest.raises(FormatError, match=r"model_type = .*; marian can be imported"):
        read_bundle(marian)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "vocab.json", "tokenizer_config.json"])
def test_files_that_are_no_settings(name: str, content: bytes, marian: Path) -> None:
    (marian / name).write_bytes(content)
    with pytest.raises(FormatError, match=name):
        read_bundle(marian)


def test_an_empty_directory_and_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"config\.json is missing") as caught:
        read_bundle(tmp_path)
    assert "model.safetensors is missing" in str(caught.value)
    with pytest.raises(FormatError, match="no such directory"):
        read_bundle(tmp_path / "nowhere")


def test_a_vocabulary_one_entry_longer(marian: Path) -> None:
    """Row 15 of the bad inputs: said before a weight is read."""
    table = json.loads((marian / "vocab.json").read_text("utf-8"))
    change_json(marian / "vocab.json", extra=len(table))
    with pytest.raises(
        FormatError, match=f"weights have {len(table)} entries, the vocabulary {len(table) + 1}"
    ):
        read_bundle(marian)


def test_tokens_that_are_not_what_the_settings_say(marian: Path) -> None:
    change_json(marian / "config.json", eos_token_id=5, pad_token_id=6)
    with pytest.raises(FormatError) as caught:
        read_bundle(marian)
    assert "eos_token_id = 5" in str(caught.value)
    assert "pad_token_id = 6" in str(caught.value)
    change_json(marian / "tokenizer_config.json", pad_token="<padding>")
    with pytest.raises(FormatError, match="has no '<padding>'"):
        read_bundle(marian)


def test_a_damaged_sentencepiece_model(marian: Path) -> None:
    (marian / "source.spm").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match=r"source\.spm: not a SentencePiece model"):
        read_bundle(marian)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 7, b"\xff" * 64, (1 << 40).to_bytes(8, "little") + b"{}", b'\x02\0\0\0\0\0\0\0{"'],
)
def test_damaged_and_hostile_weights(content: bytes, marian: Path) -> None:
    """Rows 16 and 17: loud, at once."""
    (marian / "model.safetensors").write_bytes(content)
    began = time.perf_counter()
    with pytest.raises(DamagedFileError, match=r"model\.safetensors"):
        read_bundle(marian)
    assert time.perf_counter() - began < 1


def test_half_a_file(marian: Path) -> None:
    whole = (marian / "model.safetensors").read_bytes()
    (marian / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFileError, match="truncated"):
        read_bundle(marian)


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("it ran",)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_a_pickle_is_refused_and_never_run(name: str, marian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 18, by its own name or in disguise."""
    monkeypatch.chdir(marian)
    (marian / "model.safetensors").unlink()
    (marian / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises((FormatError, BundleError), match="pickle") as caught:
        read_bundle(marian)
    assert "safetensors" in str(caught.value)
    assert not (marian / "it ran").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "/etc/passwd",
        "a/b.safetensors",
        "c:\\x.safetensors",
        ".hidden.safetensors",
        5,
    ],
)
def test_an_index_that_leads_outside_is_refused(name: Any, marian: Path) -> None:
    """Row 19."""
    shutil.copy(marian / "model.safetensors", marian.parent / "secret.safetensors")
    (marian / "model.safetensors").unlink()
    index = {"weight_map": {"model.shared.weight": name}}
    (marian / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    with pytest.raises(FormatError, match=r"refused, only plain|no weight_map"):
        read_bundle(marian)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    make_marian(tmp_path / "hf", shard="8KB")
    shards = sorted((tmp_path / "hf").glob("model-*.safetensors"))
    assert len(shards) > 2
    shards[1].unlink()
    with pytest.raises(FormatError, match=shards[1].name):
        read_bundle(tmp_path / "hf")


def test_missing_superfluous_and_misshapen_weights_are_named_together(marian: Path) -> None:
    """Row 20."""

    def spoil(weights: dict[str, torch.Tensor]) -> None:
        del weights["model.encoder.layers.0.fc1.bias"]
        weights["model.encoder.layers.7.fc1.bias"] = torch.zeros(3)
        weights["model.decoder.layers.0.fc2.weight"] = torch.zeros(3, 4)
        weights["model.decoder.layers.0.fc2.bias"] = torch.zeros(24, dtype=torch.int64)

    change_weights(marian, spoil)
    with pytest.raises(FormatError) as caught:
        read_bundle(marian)
    said = str(caught.value)
    assert "missing: model.encoder.layers.0.fc1.bias" in said
    assert "not part of the model: model.encoder.layers.7.fc1.bias" in said
    assert "fc2.weight has the shape (3, 4), config.json says (24, 32)" in said
    assert "whole numbers where weights belong: model.decoder.layers.0.fc2.bias" in said


def test_a_weight_that_is_no_number_is_warned_about_and_proves_nothing(marian: Path) -> None:
    def spoil(weights: dict[str, torch.Tensor]) -> None:
        weights["model.encoder.layers.0.fc1.bias"][0] = torch.nan

    change_weights(marian, spoil)
    with pytest.warns(UserWarning, match=r"not finite numbers: model\.encoder\.layers\.0\.fc1\.bias"):
        read_bundle(marian)
    with (
        pytest.warns(UserWarning, match="not finite"),
        pytest.raises(FormatError, match="did not prove itself"),
    ):
        huggingface.import_bundle(marian)


def test_embeddings_that_should_be_one_matrix_and_are_two(marian: Path) -> None:
    def spoil(weights: dict[str, torch.Tensor]) -> None:
        weights["lm_head.weight"] = weights["model.shared.weight"] + 1

    change_weights(marian, spoil)
    with pytest.raises(FormatError, match=r"lm_head\.weight differs from model\.shared\.weight"):
        read_bundle(marian)


def test_other_positions_than_sinusoids_are_refused(marian: Path) -> None:
    def spoil(weights: dict[str, torch.Tensor]) -> None:
        weights["model.encoder.embed_positions.weight"] = torch.randn(350, 24)

    change_weights(marian, spoil)
    with pytest.raises(FormatError, match="not the table of sinusoids"):
        read_bundle(marian)


def test_old_files_that_hold_more_than_they_need(marian: Path) -> None:
    """Positions, and the same matrix under several names: as older versions wrote it."""
    plain = read_bundle(marian)

    def add(weights: dict[str, torch.Tensor]) -> None:
        table = huggingface_weights.sinusoids(350, 24).float()[:, huggingface_weights.halves(24)]
        weights["model.encoder.embed_positions.weight"] = table
        for name in ("model.encoder.embed_tokens.weight", "lm_head.weight"):
            weights[name] = weights["model.shared.weight"].clone()
        for name, tensor in weights.items():
            weights[name] = tensor.half() if name == "final_logits_bias" else tensor

    change_weights(marian, add)
    old = read_bundle(marian)
    assert torch.equal(old.model.source_embedding.weight_VD, plain.model.source_embedding.weight_VD)


def test_a_conversion_that_does_not_prove_itself_is_an_error_unless_overruled(
    marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very mistake that is easy to make: the order of sines and cosines."""
    monkeypatch.setattr(huggingface_weights, "halves", torch.arange)
    bundle = make_bundle()
    with pytest.raises(FormatError, match="did not prove itself") as caught:
        huggingface.export_bundle(bundle, tmp_path / "out")
    assert "largest logit difference" in str(caught.value)
    assert "--force" in str(caught.value)
    assert not (tmp_path / "out").exists()
    proof = huggingface.export_bundle(bundle, tmp_path / "out", force=True)
    assert not proof.holds
    assert proof.difference > 0.1
    assert (tmp_path / "out" / "config.json").is_file()
    with pytest.raises(FormatError, match="did not prove itself"):
        huggingface.import_bundle(marian, tmp_path / "in")
    assert not (tmp_path / "in").exists()


def test_all_reasons_against_an_export_and_the_nearest_format(tmp_path: Path) -> None:
    bundle = make_bundle(
        norm_kind="rms", activation="swiglu", positions="rotary", key_value_heads=2, scale="init"
    )
    with pytest.raises(FormatError, match="CTranslate2 can: glass export ctranslate2") as caught:
        huggingface.export_bundle(bundle, tmp_path / "out")
    assert [reason.split(" = ")[0] for reason in caught.value.reasons] == [
        "norm_kind", "activation", "positions", "scale", "key_value_heads",
    ]  # fmt: skip
    bundle = make_bundle(
        positions="alibi", query_key_norm=True, head_width=16, value_width=4, neighbours=2, neighbour_rows=10
    )
    with pytest.raises(FormatError, match="keep the bundle") as caught:
        huggingface.export_bundle(bundle, tmp_path / "out")
    assert len(caught.value.reasons) == 5


def test_vocabularies_that_do_not_fit(tmp_path: Path) -> None:
    characters = train_tokenizer("characters", ENGLISH)
    pair = TokenizerPair(characters, train_tokenizer("bpe", GERMAN, size=300), shared=False)
    with pytest.raises(FormatError) as caught:
        huggingface.export_bundle(make_bundle(pair, tied="output"), tmp_path / "out")
    assert "the source tokenizer is a list of characters" in str(caught.value)
    assert "they must be equally large" in str(caught.value)


def test_nothing_is_overwritten(marian: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for conversion in (
        lambda: huggingface.export_bundle(make_bundle(), tmp_path / "mine"),
        lambda: huggingface.import_bundle(marian, tmp_path / "mine"),
    ):
        with pytest.raises(FormatError, match="left as it is"):
            conversion()
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_languages_can_be_named(original: Path) -> None:
    bundle = read_bundle(original, source_language="eng")
    assert (bundle.config.source_language, bundle.config.target_language) == ("eng", "de")


def test_an_export_of_another_version_is_read_without_its_hints(tmp_path: Path) -> None:
    huggingface.export_bundle(make_bundle(joint_tokenizers()), tmp_path / "hf")
    change_json(tmp_path / "hf" / "config.json", glassformer={"format": 99, "colour": "blue"})
    assert read_bundle(tmp_path / "hf").config.search.beams == 3
