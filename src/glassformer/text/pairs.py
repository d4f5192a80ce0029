"""Files → text pairs: two plain files, .tsv, .jsonl, plain text, each of them also as .gz.

A line that can't be a pair is an error that names it. Nothing is cut off to make sides fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.recipe import CorpusConfig
from glassformer.text.lines import Errors, count_lines, read_lines

Pair = tuple[str, str]


def read_pairs(corpus: CorpusConfig, errors: Errors = "strict") -> Iterator[Pair]:
    """The pairs of one corpus in the order of its lines: number n (from 1) stands on line n.

    A line of plain text is both sides of its pair.
    """
    if corpus.name:
        raise DataError(f"the named corpus '{corpus.name}' was not fetched: call sources.resolve first")
    if corpus.source:
        return _two_files(corpus.source, corpus.target, errors)
    if corpus.text:
        return ((line, line) for line in read_lines(corpus.text, errors))
    kind = _kind(corpus.pairs)
    reader = _tsv if kind == ".tsv" else _jsonl
    return reader(corpus.pairs, corpus.source_field, corpus.target_field, errors)


def count_pairs(corpus: CorpusConfig) -> int:
    """How many pairs there are; files that do not pair up are refused, before anything is made of them."""
    if corpus.text:
        return count_lines(corpus.text)
    if not corpus.source:
        _kind(corpus.pairs)
        return count_lines(corpus.pairs)
    sources, targets = count_lines(corpus.source), count_lines(corpus.target)
    if sources != targets:
        raise DataError(
            f"{corpus.source} has {sources:,} lines, but {corpus.target} has {targets:,}: "
            "line n of one must be the translation of line n of the other"
        )
    return sources


def files_of(corpus: CorpusConfig) -> list[Path]:
    return [Path(name) for name in (corpus.source, corpus.target, corpus.pairs, corpus.text) if name]


def _kind(path: str) -> str:
    for kind in (".tsv", ".jsonl"):
        if path.removesuffix(".gz").endswith(kind):
            return kind
    raise ConfigError(f"pairs = '{path}' must be a .tsv or .jsonl file, or a .gz of one")


def _two_files(source: str, target: str, errors: Errors) -> Iterator[Pair]:
    sides = zip_longest(read_lines(source, errors), read_lines(target, errors))
    for number, (left, right) in enumerate(sides, start=1):
        if left is None or right is None:
            shorter, longer = (source, target) if left is None else (target, source)
            raise DataError(f"the file ends here, but {longer} goes on: they must pair up", shorter, number)
        yield left, right


def _tsv(path: str, source_field: str, target_field: str, errors: Errors) -> Iterator[Pair]:
    """Columns between tabs; a blank line is an empty pair; all others have as many columns as the first."""
    for key, value in (("source_field", source_field), ("target_field", target_field)):
        if not (value.isascii() and value.isdigit()):
            raise ConfigError(f"{key} = '{value}' must be a column number, from 0, for {path}")
    source, target = int(source_field), int(target_field)
    wanted = 0
    for number, line in enumerate(read_lines(path, errors), start=1):
        if not line:
            yield "", ""
            continue
        columns = line.split("\t")
        if not wanted:
            wanted = len(columns)
            if max(source, target) >= wanted:
                asked = f"column {max(source, target)} (from 0) was asked for"
                raise DataError(f"{_columns(wanted)}, but {asked}", path, number)
        if len(columns) != wanted:
            raise DataError(
                f"{_columns(len(columns))}, but {wanted} before: a tab too many or too few?", path, number
            )
        yield columns[source], columns[target]


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _jsonl(path: str, source_field: str, target_field: str, errors: Errors) -> Iterator[Pair]:
    """One JSON object (or array) a line; a field may reach inside: translation.en."""
    for number, line in enumerate(read_lines(path, errors), start=1):
        if not line.strip():
            yield "", ""
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"not valid JSON: {error}", path, number) from None
        try:
            yield _field(record, source_field, errors), _field(record, target_field, errors)
        except ValueError as error:
            raise DataError(str(error), path, number) from None


def _field(record: Any, field: str, errors: Errors) -> str:
    """The text of one field; line breaks in it become spaces, for a sentence is a line everywhere else."""
    value = record
    for key in [field] if isinstance(record, dict) and field in record else field.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            there = f"the keys {', '.join(value)}" if isinstance(value, dict) else f"a {type(value).__name__}"
            raise ValueError(f"there is no '{field}', but {there}; set source_field and target_field")
    if not isinstance(value, str):
        raise ValueError(f"'{field}' holds {json.dumps(value)[:40]}, which is not text")
    return _as_line(value, field, errors)


def _as_line(text: str, field: str, errors: Errors) -> str:
    """JSON can spell what a text file can't hold: NUL, halves of surrogate pairs, line breaks."""
    if "\0" in text or (not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)):
        if errors == "strict":
            raise ValueError(f"'{field}' holds a NUL or half a surrogate pair, which is no text")
        text = "".join(
            "\N{REPLACEMENT CHARACTER}" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text
        )
    return text.replace("\r\n", " ").replace("\n", " ") if "\n" in text else text
