"""Vocabularies that are plain lists: characters, symbols that white space separates (phones), labels."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glassformer.config import TokenizerKind
from glassformer.errors import TokenizerError
from glassformer.text.token import (
    EOS,
    SPECIALS,
    UNK,
    UNKNOWN_MARK,
    Token,
    Tokenizer,
    as_list,
    covering,
    special_name,
)

KINDS = ("characters", "symbols", "labels")


class ListTokenizer(Tokenizer):
    """A plain list of entries: characters, the symbols that white space separates (phones), or labels."""

    suffix = ".vocab.json"

    def __init__(self, kind: TokenizerKind, entries: Sequence[str]) -> None:
        self.kind = kind
        self._entries = list(entries)
        self._ids = {entry: place for place, entry in enumerate(self._entries, start=2)}
        self.size = len(self._entries) + 3

    def _split(self, text: str) -> Sequence[str]:
        return _split(self.kind, text)

    def encode_batch(self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0) -> list[list[int]]:
        if dropout:
            raise TokenizerError(
                f"dropout skips merges, which only kind = 'bpe' has; this tokenizer is {self.kind}"
            )
        return [[self._ids.get(entry, UNK) for entry in self._split(text)] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        shown = (
            UNKNOWN_MARK if i == UNK else self._entries[i - 2] for i in as_list(ids) if EOS < i < self.pad
        )
        return (" " if self.kind == "symbols" else "").join(shown)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [special_name(i, self.size) or self._entries[i - 2] for i in as_list(ids)]

    def tokens(self, text: str) -> list[Token]:
        found, start = [], 0
        for entry in self._split(text):
            start = text.index(entry, start)
            found.append(Token(self._ids.get(entry, UNK), entry, start, start + len(entry)))
            start += len(entry)
        return found

    def unknown(self, text: str) -> list[str]:
        return [entry for entry in self._split(text) if entry not in self._ids]

    def normalise(self, text: str) -> str:
        return " ".join(text.split()) if self.kind == "symbols" else text

    def to_bytes(self) -> bytes:
        content = {"format": 1, "kind": self.kind, "specials": SPECIALS, "entries": self._entries}
        return (json.dumps(content, ensure_ascii=False, indent=0) + "\n").encode("utf-8")


def _split(kind: TokenizerKind, text: str) -> Sequence[str]:
    """What the entries of a text are. A label is a whole line: "New Zealand" is one."""
    if kind == "labels":
        return [text.strip()] if text.strip() else []
    return text.split() if kind == "symbols" else text


def train_entries(kind: TokenizerKind, texts: Iterable[str], coverage: float) -> ListTokenizer:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_split(kind, text))
    if not counts:
        raise TokenizerError("there is no text to learn a vocabulary from")
    ranked = sorted(counts, key=lambda entry: (-counts[entry], entry))
    if kind == "characters":
        ranked = ranked[: covering([counts[entry] for entry in ranked], coverage)]
    return ListTokenizer(kind, ranked)


def load_entries(content: bytes, path: Path) -> ListTokenizer:
    try:
        text = content.decode("utf-8-sig")
        loaded = json.loads(text)
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: not UTF-8 (byte offset {error.start})") from None
    except json.JSONDecodeError as error:
        raise TokenizerError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    if not isinstance(loaded, dict) or loaded.get("format") != 1:
        raise TokenizerError(f'{path}: not a vocabulary: an object with "format": 1 was expected')
    if loaded.get("kind") not in KINDS:
        raise TokenizerError(f"{path}: kind = {loaded.get('kind')!r}: choose {' | '.join(KINDS)}")
    if loaded.get("specials") != SPECIALS:
        raise TokenizerError(
            f"{path}: specials must be {json.dumps(SPECIALS)}, not {json.dumps(loaded.get('specials'))}"
        )
    entries = loaded.get("entries")
    if not isinstance(entries, list) or not entries:
        raise TokenizerError(f"{path}: entries must be a list with at least one entry")
    _check_entries(entries, loaded["kind"], path, text)
    return ListTokenizer(loaded["kind"], entries)


def _check_entries(entries: list[Any], kind: str, path: Path, text: str) -> None:
    first: dict[str, int] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, str):
            wrong = f"{entry!r} is not text"
        elif not entry:
            wrong = "it is blank"
        elif entry in first:
            wrong = f"{entry!r} stands already at entry {first[entry]}"
        elif kind == "characters" and len(entry) != 1:
            wrong = f"{entry!r} is not a single character"
        elif kind == "symbols" and entry.split() != [entry]:
            wrong = f"{entry!r} holds white space"
        else:
            first[entry] = place
            continue
        raise TokenizerError(f"{path}, line {_line_of(place, text)}: entry {place} is wrong: {wrong}")


def _line_of(place: int, text: str) -> int:
    """The line of the file on which an entry of the list stands."""
    start = text.index('"entries"')
    start = text.index("[", start) + 1
    values = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\[\]]+').finditer(text, start)
    found = next(itertools.islice(values, place, None))
    return text.count("\n", 0, found.start()) + 1
