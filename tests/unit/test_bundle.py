"""Bundles: there and back, and every way in which one can be broken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import bundle as module
from glassformer import settings
from glassformer.bundle import Bundle, find, shipped, weights_of
from glassformer.config import BundleConfig, ModelConfig
from glassformer.errors import BundleError, DamagedFileError
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.weights import read_safetensors, write_safetensors

TEXTS = ["a small corpus of words", "words of a small corpus", "ein kleiner Text", "noch ein kleiner Text"]


def make(*, shared: bool = True, **changes: Any) -> Bundle:
    source = train_tokenizer("characters", TEXTS)
    target = source if shared else train_tokenizer("characters", TEXTS[2:])
    pair = TokenizerPair(source, target, shared)
    network: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "feed_forward": 32}
    network |= {"heads": 2, "tied": "all" if shared else "output", **changes}
    config = BundleConfig(
        source_language="en", target_language="de", vocabulary=pair.vocabulary(), model=ModelConfig(**network)
    )
    torch.manual_seed(0)
    return Bundle(config, pair, build_model(config.model, config.vocabulary).eval(), "# a card\n")


def predict(bundle: Bundle) -> torch.Tensor:
    source = torch.tensor([[3, 4, 5, 0]])
    start = torch.tensor([[bundle.config.vocabulary.start, 3]])
    with torch.no_grad():
        return bundle.model.decode(bundle.model.encode(source, torch.tensor([4])), start)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return make().save(tmp_path / "m")


@pytest.mark.parametrize("tied", ["all", "output", "none"])
@pytest.mark.parametrize("shared", [True, False])
def test_there_and_back(tmp_path: Path, shared: bool, tied: str) -> None:
    if tied == "all" and not shared:
        pytest.skip("two vocabularies can't be one matrix")
    bundle = make(shared=shared, tied=tied)
    path = bundle.save(tmp_path / "deep" / "er" / "m")
    back = Bundle.load(path)
    assert torch.equal(predict(back), predict(bundle))
    assert back.config == bundle.config
    assert back.card == "# a card\n"
    assert back.path == path
    assert not back.model.training
    assert back.tokenizers.shared is shared
    assert back.tokenizers.fingerprint() == bundle.tokenizers.fingerprint()


def test_a_tied_matrix_is_stored_once_and_stays_tied(saved: Path) -> None:
    names = list(read_safetensors(saved / "model.safetensors"))
    assert sum("embedding" in name or name.startswith("output") for name in names) == 1
    model = Bundle.load(saved).model
    assert model.output_weight is model.source_embedding.weight_VD


def test_loading_leaves_the_random_numbers_of_the_caller_alone(saved: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Bundle.load(saved)
    assert torch.equal(torch.rand(3), expected)


def test_half_precision_halves_the_file_and_loads_as_float32(tmp_path: Path, saved: Path) -> None:
    half = make().save(tmp_path / "half", dtype=torch.float16)
    sizes = [(path / "model.safetensors").stat().st_size for path in (half, saved)]
    assert sizes[0] < 0.7 * sizes[1]
    loaded = Bundle.load(half)
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.float32}
    torch.testing.assert_close(predict(loaded), predict(make()), atol=0.01, rtol=0.01)
    assert next(Bundle.load(half, dtype=torch.bfloat16).model.parameters()).dtype == torch.bfloat16


def test_a_bundle_replaces_a_bundle_but_nothing_else(tmp_path: Path, saved: Path) -> None:
    bundle = make()
    bundle.card = "newer"
    bundle.save(saved)
    assert Bundle.load(saved).card == "newer"
    (tmp_path / "empty").mkdir()
    bundle.save(tmp_path / "empty")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").touch()
    for place in (tmp_path / "photos", tmp_path / "photos" / "me.jpg"):
        with pytest.raises(BundleError, match="exists and is not a bundle"):
            bundle.save(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "m", "photos"]


def test_missing_extra_and_misshapen_weights_are_all_named(saved: Path) -> None:
    weights = read_safetensors(saved / "model.safetensors")
    first, second, *_ = [name for name in weights if "decoder" in name and name.endswith("weight")]
    del weights[first]
    weights["surplus"] = torch.ones(1)
    weights[second] = torch.ones(3, 7)
    write_safetensors(saved / "model.safetensors", weights)
    with pytest.raises(BundleError) as caught:
        Bundle.load(saved)
    message = str(caught.value)
    assert f"missing: {first}" in message
    assert "not part of the model: surplus" in message
    assert f"{second} is 3×7, the model needs" in message


def test_weights_that_are_not_numbers_are_warned_of(saved: Path) -> None:
    weights = read_safetensors(saved / "model.safetensors")
    name = next(iter(weights))
    weights[name].view(-1)[0] = torch.nan
    write_safetensors(saved / "model.safetensors", weights)
    with pytest.warns(UserWarning, match=f"not finite numbers: {name}"):
        Bundle.load(saved)


def test_a_longer_vocabulary_is_said_before_weights_are_loaded(saved: Path) -> None:
    size = make().config.vocabulary.source_size
    train_tokenizer("characters", [*TEXTS, "ж"]).save(saved / "tokenizer.vocab.json")
    with pytest.raises(BundleError, match=f"weights have {size} entries, the vocabulary {size + 1}"):
        Bundle.load(saved)


def test_weights_of_another_vocabulary_are_named_as_such(saved: Path) -> None:
    weights = read_safetensors(saved / "model.safetensors")
    name = next(name for name in weights if "embedding" in name)
    size = len(weights[name])
    weights[name] = weights[name][:-1].clone()
    write_safetensors(saved / "model.safetensors", weights)
    with pytest.raises(BundleError, match=f"weights have {size - 1} entries, the vocabulary {size}"):
        Bundle.load(saved)


def test_a_configuration_that_asks_for_the_moon_costs_no_memory(saved: Path) -> None:
    config = settings.read(
        BundleConfig, saved / "config.toml", ["model.width=400000", "model.feed_forward=9000000"]
    )
    (saved / "config.toml").write_text(settings.dumps(config))
    with pytest.raises(BundleError, match="does not fit its configuration"):
        Bundle.load(saved)


@pytest.mark.parametrize("keep", [0, 5, 500, -4])
def test_a_truncated_weight_file(saved: Path, keep: int) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DamagedFileError, match="truncated"):
        Bundle.load(saved)


def test_what_is_missing_is_named(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(BundleError, match="no such bundle"):
        Bundle.load(tmp_path / "nowhere")
    (saved / "model.safetensors").unlink()
    with pytest.raises(BundleError, match=r"not a bundle: model\.safetensors missing$"):
        Bundle.load(saved)
    torch.save({}, saved / "model.pt")
    with pytest.raises(BundleError, match=r"model\.pt is not read: loading a pickle runs the code"):
        Bundle.load(saved)


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_is_refused_wherever_it_stands(tmp_path: Path, saved: Path) -> None:
    torch.save({"weight": Evil(tmp_path / "ran")}, tmp_path / "evil.pt")
    with pytest.raises(BundleError, match="pickle"):
        Bundle.load(tmp_path / "evil.pt")
    (tmp_path / "evil.pt").rename(saved / "model.safetensors")
    with pytest.raises(DamagedFileError, match="pickle"):
        Bundle.load(saved)
    assert not (tmp_path / "ran").exists()


def test_the_directory_of_a_training_run_stands_for_its_result(tmp_path: Path) -> None:
    make().save(tmp_path / "run" / "model")
    assert find(tmp_path / "run") == tmp_path / "run" / "model"


def test_shipped_bundles_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "bundle.py"))
    assert shipped() == {}
    make().save(tmp_path / "bundles" / "en-de")
    assert shipped() == {"en-de": tmp_path / "bundles" / "en-de"}
    assert find("en-de") == tmp_path / "bundles" / "en-de"
    with pytest.raises(BundleError, match="the package brings en-de"):
        find("en-fr")


def test_every_weight_has_one_name() -> None:
    model = make().model
    assert sum(weight.numel() for weight in weights_of(model).values()) == sum(
        parameter.numel() for parameter in model.parameters()
    )
