"""The token store: what goes in comes out; it is re-used, rebuilt, and never found half-written."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.config import TokenizerConfig
from glassformer.data import store as stores
from glassformer.data.store import Store, build_store, complete_report, find_store, prepare_store
from glassformer.errors import DataError
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.text.corpus import Corpus
from glassformer.text.dates import date_pairs
from glassformer.text.tokenizer import TokenizerPair, train_tokenizers

PAIRS = list(date_pairs(500))


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    config = TokenizerConfig(source_kind="bpe", target_kind="characters", joint=False, size=400)
    return train_tokenizers(config, lambda: PAIRS)


def contents(store: Store) -> list[tuple[list[int], list[int]]]:
    return [(source.tolist(), target.tolist()) for source, target in store.pairs(range(len(store)))]


def expected(tokenizers: TokenizerPair, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
    return [(tokenizers.source.encode(source), tokenizers.target.encode(target)) for source, target in pairs]


def test_what_goes_in_comes_out(
    tmp_path: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "CHUNK", 64)
    store = build_store(tmp_path / "s", [PAIRS[:300], [], PAIRS[300:]], tokenizers, weights=[1, 1, 0.5])
    assert contents(store) == expected(tokenizers, PAIRS)
    assert contents(Store.open(tmp_path / "s")) == contents(store)
    assert store.source_lengths.tolist() == [len(source) for source, _ in contents(store)]
    assert store.target_lengths.tolist() == [10] * 500
    assert store.groups == [(300, 1.0), (0, 1.0), (200, 0.5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_ids_take_two_bytes_where_they_can(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    store = build_store(tmp_path / "s", [PAIRS], tokenizers)
    assert (store.source.ids.dtype, store.target.ids.dtype) == (np.uint16, np.uint16)
    words = TokenizerConfig(kind="symbols", joint=True)
    many = [(" ".join(f"w{n}_{k}" for k in range(100)), "t") for n in range(700)]
    large = train_tokenizers(words, lambda: many)
    assert large.source.size > 1 << 16
    store = build_store(tmp_path / "l", [many], large)
    assert store.source.ids.dtype == np.uint32
    assert contents(store) == expected(large, many)


def test_empty_sides_and_empty_stores(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    store = build_store(tmp_path / "s", [[("", "2020-01-01"), ("", "")]], tokenizers)
    assert contents(store) == expected(tokenizers, [("", "2020-01-01"), ("", "")])
    assert len(build_store(tmp_path / "e", [[]], tokenizers)) == 0


def test_long_pairs_are_left_out_or_cut(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    pairs = [("1 2", "12"), ("1 " * 50, "1"), ("1", "1" * 50), ("3", "3")]
    left = build_store(tmp_path / "left", [pairs], tokenizers, max_tokens=20)
    assert contents(left) == expected(tokenizers, [pairs[0], pairs[3]])
    assert (left.meta["too_many_tokens"], left.meta["truncated"], left.groups) == (2, 0, [(2, 1.0)])
    cut = build_store(tmp_path / "cut", [pairs], tokenizers, max_tokens=20, truncate=True)
    assert contents(cut) == [(source[:20], target[:20]) for source, target in expected(tokenizers, pairs)]
    assert (cut.meta["too_many_tokens"], cut.meta["truncated"]) == (0, 2)
    all_of_it = build_store(tmp_path / "all", [pairs], tokenizers)
    assert contents(all_of_it) == expected(tokenizers, pairs)


# ---- re-use ---------------------------------------------------------------------------------------------


def corpus(folder: Path, pairs: list[tuple[str, str]], **settings: object) -> Corpus:
    path = folder / "a.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return Corpus(DataConfig(corpora=(CorpusConfig(pairs=str(path)),), **settings))  # type: ignore[arg-type]


def test_re_used_until_something_changes(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    place = tmp_path / "store"
    text = corpus(tmp_path, PAIRS, hold_out=20)
    first = prepare_store(place, text, tokenizers)
    assert len(first) == 480
    born = place.stat().st_ino

    def built_anew(data: DataConfig, with_tokenizers: TokenizerPair = tokenizers) -> bool:
        nonlocal born
        before, _ = born, prepare_store(place, Corpus(data), with_tokenizers)
        born = place.stat().st_ino
        return born != before

    data = text.data
    assert not built_anew(data)
    assert built_anew(dataclasses.replace(data, max_tokens=30))
    assert not built_anew(dataclasses.replace(data, max_tokens=30))
    assert built_anew(dataclasses.replace(data, drop_duplicates=False))
    other = train_tokenizers(TokenizerConfig(kind="characters"), lambda: PAIRS)
    assert built_anew(dataclasses.replace(data, drop_duplicates=False), other)
    corpus(tmp_path, PAIRS[:400])
    assert built_anew(dataclasses.replace(data, drop_duplicates=False), other)
    assert len(Store.open(place)) == 380


def test_the_report_has_the_long_ones(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    long = ("25 Αυγούστου 1922", "1" * 40)
    first = next(
        n for n, (source, _) in enumerate(PAIRS, start=1) if len(tokenizers.source.encode(source)) > 30
    )
    long_ones = sum(len(tokenizers.source.encode(source)) > 30 for source, _ in PAIRS) + 1
    for truncate in (False, True):
        text = corpus(tmp_path, [*PAIRS[:9], long, *PAIRS[9:]], hold_out=0, max_tokens=30, truncate=truncate)
        store = prepare_store(tmp_path / "store", text, tokenizers)
        report = complete_report(text.scan().report, store, text)
        dropped = report.dropped["too_many_tokens"]
        assert report.kept == len(store) == 501 - dropped
        assert (dropped, report.truncated) == ((0, long_ones) if truncate else (long_ones, 0))
        assert f"first: a.tsv, line {min(first, 10)}" in report.table()
        assert ("cut at max_tokens" in report.table()) == truncate


# ---- damage ---------------------------------------------------------------------------------------------


def test_a_damaged_store_is_not_used(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    def fresh() -> Path:
        return build_store(tmp_path / "s", [PAIRS], tokenizers, fingerprint="f").directory

    assert find_store(fresh(), "f") is not None
    assert find_store(fresh(), "g") is None
    for name in (*stores.FILES, "meta.json"):
        path = fresh() / name
        path.write_bytes(path.read_bytes()[:-1])
        assert find_store(path.parent, "f") is None, name
        with pytest.raises(DataError):
            Store.open(path.parent)
        path.unlink()
        assert find_store(path.parent, "f") is None, name
    path = fresh() / "source.ids"
    os.truncate(path, 10)
    with pytest.raises(DataError, match=r"source.ids: the store is damaged: [\d,]+ bytes expected, 10 found"):
        Store.open(path.parent)
    with pytest.raises(DataError, match="no complete store here"):
        Store.open(tmp_path / "nothing")
    (fresh() / "meta.json").write_text(json.dumps({"format": 99}))
    assert find_store(tmp_path / "s", "f") is None


def test_an_error_in_the_text_leaves_nothing_behind(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    build_store(tmp_path / "s", [PAIRS], tokenizers, fingerprint="old")

    def broken() -> Iterator[tuple[str, str]]:
        yield from PAIRS
        raise DataError("line 501 is broken")

    with pytest.raises(DataError, match="line 501 is broken"):
        build_store(tmp_path / "s", [broken()], tokenizers, fingerprint="new")
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert find_store(tmp_path / "s", "old") is not None


def test_nobody_elses_files_are_removed(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match=r"holds other things than a token store \(thesis.tex\)"):
        build_store(tmp_path, [PAIRS], tokenizers)
    with pytest.raises(DataError, match="this is a file"):
        build_store(tmp_path / "thesis.tex", [PAIRS], tokenizers)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def _build_slowly(place: Path, tokenizers: TokenizerPair) -> None:
    def slow() -> Iterator[tuple[str, str]]:
        for pair in PAIRS:
            yield pair
            time.sleep(0.02)

    stores.CHUNK = 4
    build_store(place, [slow()], tokenizers, fingerprint="f")


def test_killed_while_building(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    place = tmp_path / "s"
    process = multiprocessing.get_context("fork").Process(target=_build_slowly, args=(place, tokenizers))
    process.start()
    while not list(tmp_path.glob(".s.*.tmp/target.lengths")):
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert find_store(place, "f") is None
    assert not place.exists()
    assert list(tmp_path.glob(".s.*.tmp"))
    store = build_store(place, [PAIRS], tokenizers, fingerprint="f")
    assert contents(store) == expected(tokenizers, PAIRS)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]  # the dead process's files are gone


def test_a_full_disk_is_said(
    tmp_path: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(tmp_path / "s", [PAIRS], tokenizers, fingerprint="old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="can't write the token store: No space left on device"):
        build_store(tmp_path / "s", [PAIRS], tokenizers, fingerprint="new")
    assert find_store(tmp_path / "s", "old") is not None
