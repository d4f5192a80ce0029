"""Cleaning, its report, and what is held out."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, DataError
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.text import corpus as corpora
from glassformer.text.corpus import Corpus, Report
from glassformer.text.dates import date_pairs
from glassformer.text.pairs import Pair


def put(folder: Path, pairs: list[Pair], name: str = "a.tsv") -> CorpusConfig:
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return CorpusConfig(pairs=str(path))


def make(*files: CorpusConfig, **settings: Any) -> Corpus:
    return Corpus(DataConfig(corpora=files, **{"hold_out": 0, **settings}))


DIRTY = [
    ("one", "eins"),
    ("", "zwei"),
    ("same", "same"),
    ("l" * 50, "lang"),
    ("one", "eins"),
    ("x" * 41, "ungleich"[:4]),
    ("one", "Eins"),
    (" ", "blank"),
]


@pytest.mark.parametrize(
    ("settings", "dropped"),
    [
        ({}, {"empty": 2, "odd_ratio": 2, "duplicate": 1}),
        ({"drop_empty": False}, {"odd_ratio": 2, "duplicate": 1}),
        ({"drop_identical": True}, {"empty": 2, "identical": 1, "odd_ratio": 2, "duplicate": 1}),
        ({"max_characters": 45}, {"empty": 2, "too_long": 1, "odd_ratio": 1, "duplicate": 1}),
        ({"max_ratio": 0.0, "max_characters": 0, "drop_duplicates": False}, {"empty": 2}),
    ],
)
def test_every_filter_can_be_switched(
    tmp_path: Path, settings: dict[str, Any], dropped: dict[str, int]
) -> None:
    corpus = make(put(tmp_path, DIRTY), **settings)
    report = corpus.scan().report
    assert {name: count for name, count in report.dropped.items() if count} == dropped
    assert report.read == len(DIRTY)
    assert report.kept == len(list(corpus.pairs())) == len(DIRTY) - sum(dropped.values())
    assert sum(report.source_lengths) == sum(report.target_lengths) == report.kept


def test_the_report_says_how_many_and_where(tmp_path: Path) -> None:
    report = make(put(tmp_path, DIRTY)).scan().report
    assert report.first == {
        "empty": "a.tsv, line 2",
        "odd_ratio": "a.tsv, line 4",
        "duplicate": "a.tsv, line 5",
    }
    table = report.table().splitlines()
    assert [line.split()[-1] for line in (table[0], table[-1])] == ["8", "3"]
    assert any("a side is empty" in line and line.endswith("2  first: a.tsv, line 2") for line in table)
    histogram = report.histogram().splitlines()
    assert histogram[1].split()[:2] == ["0–9", "3"]
    assert len(histogram) == 2


def test_histograms_have_every_length() -> None:
    report = Report()
    for length in (0, 9, 10, 159, 160, 10_000):
        report.keep("x" * length, "")
    assert report.source_lengths == [2, 1, 0, 0, 1, 1, 0, 0, 0, 1]
    assert report.target_lengths == [6, *[0] * 9]
    assert "2,560+" in report.histogram()


def test_duplicates_are_found_across_corpora_and_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "CHUNK", 3)
    pairs = list(date_pairs(20))
    corpus = make(put(tmp_path, pairs), put(tmp_path, [*pairs[5:10], ("new", "neu")], "b.tsv"), max_ratio=0.0)
    assert [list(part) for part in corpus.by_corpus()] == [pairs, [("new", "neu")]]
    assert corpus.scan().report.dropped["duplicate"] == 5


def test_progress_counts_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "CHUNK", 7)
    steps: list[int] = []
    make(put(tmp_path, list(date_pairs(20)))).scan(progress=steps.append)
    assert steps == [7, 7, 6]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from("xyz")), min_size=1, max_size=120
    ),
    st.integers(0, 8),
)
def test_no_source_is_both_trained_on_and_held_out(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], hold_out: int
) -> None:
    folder = tmp_path_factory.mktemp("held")
    corpus = make(put(folder, pairs), hold_out=hold_out, drop_duplicates=False)
    scan, train = corpus.scan(), list(corpus.pairs())
    assert not {source for source, _ in train} & {source for source, _ in scan.valid}
    assert sorted(train + scan.valid) == sorted(pairs)
    assert scan.report.held_out == len(scan.valid) <= min(hold_out, len(pairs) // 10)
    assert scan.report.kept == len(train)


def test_as_many_are_held_out_as_asked_where_sources_differ(tmp_path: Path) -> None:
    pairs = list(date_pairs(2000))
    corpus = make(put(tmp_path, pairs), hold_out=100)
    assert len(corpus.scan().valid) == 100
    assert len(list(corpus.pairs())) == 1900
    assert make(put(tmp_path, pairs[::-1]), hold_out=100).scan().threshold == corpus.scan().threshold
    assert len(make(put(tmp_path, pairs[:50]), hold_out=100).scan().valid) == 5  # at most a tenth


def test_a_file_for_validation(tmp_path: Path) -> None:
    pairs = list(date_pairs(100))
    valid = put(tmp_path, [*pairs[:3], ("", "empty"), ("only here", "x")], "valid.tsv")
    corpus = make(put(tmp_path, pairs), valid=valid, hold_out=50)
    scan = corpus.scan()
    assert scan.valid == [*pairs[:3], ("only here", "x")]
    assert scan.report.in_validation == 3
    assert "source also in validation" in scan.report.table()
    assert len(list(corpus.pairs())) == 100


def test_unequal_files_stop_before_anything(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("1\n2\n")
    (tmp_path / "a.de").write_text("1\n")
    good = put(tmp_path, list(date_pairs(10)))
    bad = CorpusConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de"))
    seen: list[int] = []
    with pytest.raises(DataError, match=r"has 2 lines, but .* has 1"):
        make(good, bad).scan(progress=seen.append)
    with pytest.raises(DataError, match=r"has 2 lines, but .* has 1"):
        make(good, valid=bad).scan(progress=seen.append)
    assert seen == []


def test_missing_files_are_named(tmp_path: Path) -> None:
    for corpus in (make(CorpusConfig(pairs="none.tsv")), make(CorpusConfig(source="none.tsv", target="x"))):
        with pytest.raises(DataError, match=r"none.tsv: there is no such file"):
            corpus.scan()


def test_no_corpora() -> None:
    with pytest.raises(ConfigError, match=r"data.corpora is empty"):
        Corpus(DataConfig())


def test_bad_bytes_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"one\teins\ntwo\tzw\xe9i\n")
    with pytest.raises(DataError, match=r"a.tsv, line 2: not UTF-8"):
        make(CorpusConfig(pairs=str(path))).scan()
    assert list(make(CorpusConfig(pairs=str(path)), errors="replace").pairs())[1] == ("two", "zw\ufffdi")


# ---- caches ---------------------------------------------------------------------------------------------


def test_the_scan_is_kept_while_nothing_changes(tmp_path: Path) -> None:
    file, cache = put(tmp_path, [*DIRTY, *date_pairs(100)]), tmp_path / "cache" / "scan.json"
    first = make(file, hold_out=5).scan(cache)
    steps: list[int] = []
    assert make(file, hold_out=5).scan(cache, steps.append) == first
    assert steps == []
    make(file, hold_out=6).scan(cache, steps.append)
    assert steps == [len(DIRTY) + 100]
    cache.write_text("{broken")
    assert make(file, hold_out=5).scan(cache) == first
    assert [path.name for path in cache.parent.iterdir()] == ["scan.json"]


def test_fingerprints(tmp_path: Path) -> None:
    file = put(tmp_path, DIRTY)
    path = Path(file.pairs)
    before = make(file).fingerprint()
    assert make(file).fingerprint() == before
    assert make(file, max_ratio=3.0).fingerprint() != before
    assert make(dataclasses.replace(file, weight=2.0)).fingerprint() != before
    assert make(file, source_language="en", max_tokens=9).fingerprint() == before
    status = path.stat()
    path.write_text(path.read_text().replace("eins", "EINS"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert make(file).fingerprint() != before  # the same size and time, but other text


def test_pairs_are_found_again(tmp_path: Path) -> None:
    corpus = make(put(tmp_path, DIRTY))
    assert corpus.find(("one", "Eins")) == "a.tsv, line 7"
    assert corpus.find(("no", "nein")) == "not found"
