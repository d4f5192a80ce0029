"""The cache of converted bundles, and what CTranslate2 can't hold."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.errors import FormatError, MissingExtraError
from glassformer.formats import ctranslate2 as converter
from glassformer.formats import ctranslate2_engine as runner
from glassformer.translate import Translator
from tests.foreign import make_bundle

pytest.importorskip("ctranslate2")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "glassformer" / "ctranslate2"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each conversion."""
    found, real = [], converter.write_proved

    def write(bundle: Bundle, directory: Path, quantization: Any, **more: Any) -> Any:
        found.append(quantization)
        return real(bundle, directory, quantization, **more)

    monkeypatch.setattr(runner, "write_proved", write)
    return found


def test_a_bundle_is_converted_once(cache: Path, counted: list[str]) -> None:
    place = runner.cached(make_bundle())
    assert place.parent == cache
    assert runner.cached(make_bundle()) == place
    assert counted == ["float32"]
    assert runner.cached(make_bundle(), "int8") != place
    assert counted == ["float32", "int8"]


def test_whatever_changes_the_results_changes_the_key() -> None:
    bundle = make_bundle()
    keys = {runner.fingerprint(bundle, "float32"), runner.fingerprint(bundle, "int8")}
    keys.add(runner.fingerprint(make_bundle(norm="pre"), "float32"))
    keys.add(runner.fingerprint(make_bundle(scale_embeddings=False), "float32"))
    vocabulary = replace(bundle.config.vocabulary, start=5)
    other = replace(bundle, config=replace(bundle.config, vocabulary=vocabulary))
    keys.add(runner.fingerprint(other, "float32"))
    with torch.no_grad():
        bundle.model.decoder.layers[1].feed_forward.outer.bias[0] += 1e-6
    keys.add(runner.fingerprint(bundle, "float32"))
    assert len(keys) == 6


@pytest.mark.parametrize("damage", ["cut", "gone", "list gone", "more"])
def test_a_damaged_copy_is_made_anew(damage: str, counted: list[str]) -> None:
    place = runner.cached(make_bundle())
    if damage == "cut":
        (place / "model.bin").write_bytes((place / "model.bin").read_bytes()[:-1])
    elif damage == "gone":
        (place / "config.json").unlink()
    elif damage == "list gone":
        (place / "sha256.json").unlink()
    else:
        (place / "vmap.txt").write_text("x")
    runner.load_engine(make_bundle(), threads=1)
    assert len(counted) == 2
    assert runner.cached(make_bundle()) == place
    assert len(counted) == 2


def test_only_the_last_ones_stay(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "KEPT", 2)
    places = [runner.cached(make_bundle(seed=seed)) for seed in range(3)]
    assert set(cache.iterdir()) == set(places[1:])


def test_a_cache_that_can_t_be_written_leaves_auto_with_our_own_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(FormatError, match="XDG_CACHE_HOME"):
        runner.load_engine(make_bundle())
    assert Translator(make_bundle()).engine_for()[0].name == "torch"


def test_a_failed_conversion_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.formats.ctranslate2_weights.sinusoids", torch.zeros)
    with pytest.raises(FormatError, match="did not prove itself"):
        runner.load_engine(make_bundle())
    assert not any(cache.iterdir())


def test_all_reasons_against(tmp_path: Path) -> None:
    bundle = make_bundle(
        positions="alibi",
        query_key_norm=True,
        head_width=16,
        value_width=4,
        score="bilinear",
        neighbours=2,
        neighbour_rows=10,
    )
    with pytest.raises(FormatError, match="keep it as a bundle") as caught:
        converter.export_bundle(bundle, tmp_path / "out")
    assert len(caught.value.reasons) == 5
    assert not (tmp_path / "out").exists()
    engine, why = Translator(bundle).engine_for()
    assert engine.name == "torch"
    assert "alibi" in why
    with pytest.raises(FormatError):
        Translator(bundle, engine="ctranslate2")


def test_an_unknown_quantization_and_an_existing_target(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"choose float32 \| int8"):
        converter.export_bundle(make_bundle(), tmp_path / "out", "int4")  # type: ignore[arg-type]
    (tmp_path / "file").write_text("x")
    with pytest.raises(FormatError, match="left as it is"):
        converter.export_bundle(make_bundle(), tmp_path / "file")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'glassformer\[fast\]'"):
        runner.load_engine(make_bundle())
    assert Translator(make_bundle()).engine_for()[0].name == "torch"


def test_nothing_in_nothing_out() -> None:
    engine = runner.load_engine(make_bundle(), threads=1)
    from glassformer.search.scoring import SearchOptions

    assert engine.translate_ids([], SearchOptions(), max_lengths=[]) == []
    [[one]] = engine.translate_ids([[]], SearchOptions(), max_lengths=[9])
    assert (one.tokens, one.finished, one.log_prob) == ([], True, 0.0)


def test_a_processor_without_int8_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    with pytest.warns(UserWarning, match="no instructions for int8"):
        runner.load_engine(make_bundle(), threads=1, quantization="int8")
    proof = converter.export_bundle(make_bundle(), tmp_path / "out", "int8")
    assert "no instructions for int8" in str(proof)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx_vnni": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.load_engine(make_bundle(), threads=1, quantization="int8")
    assert "no instructions" not in str(converter.export_bundle(make_bundle(), tmp_path / "other", "int8"))
