"""Files → text pairs: every format, and what is said about lines that are no pairs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.recipe import CorpusConfig
from glassformer.text.pairs import count_pairs, read_pairs


def put(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return str(path)


def read(**keys: str) -> list[tuple[str, str]]:
    return list(read_pairs(CorpusConfig(**keys)))  # type: ignore[arg-type]


def message(**keys: str) -> str:
    with pytest.raises(GlassformerError) as caught:
        read(**keys)
    return str(caught.value)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_files(tmp_path: Path, suffix: str) -> None:
    source = put(tmp_path, f"a.en{suffix}", "one\n\nthree\u2028\n")
    target = put(tmp_path, f"a.de{suffix}", "eins\r\nzwei\r\ndrei")
    assert read(source=source, target=target) == [("one", "eins"), ("", "zwei"), ("three\u2028", "drei")]
    assert count_pairs(CorpusConfig(source=source, target=target)) == 3


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_unequal_files_are_refused_with_both_counts(tmp_path: Path, suffix: str) -> None:
    source, target = put(tmp_path, f"a.en{suffix}", "1\n2\n3\n"), put(tmp_path, f"a.de{suffix}", "1\n2\n")
    with pytest.raises(DataError) as caught:
        count_pairs(CorpusConfig(source=source, target=target))
    assert f"{source} has 3 lines, but {target} has 2" in str(caught.value)
    assert message(source=source, target=target).startswith(f"{target}, line 3: the file ends here")
    assert message(source=target, target=source).startswith(f"{target}, line 3: the file ends here")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_tsv(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path, f"a.tsv{suffix}", "\ufeffone\teins\tx\r\n\ntwo\t\ty\n")
    assert read(pairs=path) == [("one", "eins"), ("", ""), ("two", "")]
    assert read(pairs=path, source_field="2", target_field="0") == [("x", "one"), ("", ""), ("y", "two")]
    assert count_pairs(CorpusConfig(pairs=path)) == 3


def test_tsv_with_wrong_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "one\teins\ntwo zwei\n")
    assert message(pairs=path) == f"{path}, line 2: 1 column, but 2 before: a tab too many or too few?"
    path = put(tmp_path, "b.tsv", "one\teins\ntwo\tzw\tei\n")
    assert message(pairs=path) == f"{path}, line 2: 3 columns, but 2 before: a tab too many or too few?"
    path = put(tmp_path, "c.tsv", "\none eins\n")
    assert message(pairs=path) == f"{path}, line 2: 1 column, but column 1 (from 0) was asked for"
    assert "source_field = 'en' must be a column number" in message(pairs=path, source_field="en")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_jsonl(tmp_path: Path, suffix: str) -> None:
    content = '{"en": "one", "de": "eins", "n": 1}\n\n{"de": "zw\\nei", "en": "two"}\n'
    path = put(tmp_path, f"a.jsonl{suffix}", content)
    assert read(pairs=path, source_field="en", target_field="de") == [
        ("one", "eins"),
        ("", ""),
        ("two", "zw ei"),
    ]
    nested = put(tmp_path, "b.jsonl", '{"translation": {"en": "one", "de": "eins"}}\n')
    assert read(pairs=nested, source_field="translation.en", target_field="translation.de") == [
        ("one", "eins")
    ]
    assert read(pairs=put(tmp_path, "c.jsonl", '["one", "eins"]\n')) == [("one", "eins")]
    dotted = put(tmp_path, "d.jsonl", '{"a.b": "one", "c": "eins"}\n')
    assert read(pairs=dotted, source_field="a.b", target_field="c") == [("one", "eins")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"en": "two"', "not valid JSON"),
        ('{"en": "two"}', "there is no 'de', but the keys en; set source_field and target_field"),
        ('{"en": "two", "de": 7}', "'de' holds 7, which is not text"),
        ('{"en": "two", "de": null}', "'de' holds null, which is not text"),
        ('{"en": "two", "de": "\\ud800"}', "'de' holds a NUL or half a surrogate pair"),
        ('{"en": "two", "de": "a\\u0000b"}', "'de' holds a NUL or half a surrogate pair"),
        ('"two"', "there is no 'en', but a str"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_jsonl_names_the_line(tmp_path: Path, line: str, said: str) -> None:
    path = put(tmp_path, "a.jsonl", '{"en": "one", "de": "eins"}\n' + line + "\n")
    found = message(pairs=path, source_field="en", target_field="de")
    assert found.startswith(f"{path}, line 2: ")
    assert said in found


def test_replacing_reaches_into_json(tmp_path: Path) -> None:
    path = put(tmp_path, "a.jsonl", '["a\\u0000b", "\\ud800 \\ud83d\\ude00"]\n')
    assert list(read_pairs(CorpusConfig(pairs=path), "replace")) == [("a\ufffdb", "\ufffd 😀")]


def test_other_formats_and_unfetched_names(tmp_path: Path) -> None:
    assert "must be a .tsv or .jsonl file" in message(pairs="a.csv")
    with pytest.raises(ConfigError, match=r"must be a .tsv"):
        count_pairs(CorpusConfig(pairs="a.csv"))
    assert "'dates' was not fetched" in message(name="dates")
