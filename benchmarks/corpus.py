"""The text that all contestants read.

Multi30k (English → German) where its files lie in `shared/data/multi30k` beside the repository; elsewhere the
English–Spanish sentences that `glass data` can fetch. Every result says which it was.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.text.lines import read_lines, write_lines
from glassformer.text.sources import fetch, get_source

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
CACHE = Path(__file__).parent / ".cache"
PUBLIC = "tatoeba-en-es"


@dataclass(frozen=True)
class Text:
    """Pairs of files: train, valid, test."""

    name: str
    languages: tuple[str, str]
    train: tuple[Path, Path]
    valid: tuple[Path, Path]
    test: tuple[Path, Path]

    def read(self, split: str) -> tuple[list[str], list[str]]:
        source, target = getattr(self, split)
        return list(read_lines(source)), list(read_lines(target))

    def as_settings(self) -> dict[str, Any]:
        """The section [data] of a recipe."""
        corpora = [{"source": str(self.train[0]), "target": str(self.train[1])}]
        return {
            "source_language": self.languages[0],
            "target_language": self.languages[1],
            "corpora": corpora,
            "valid": {"source": str(self.valid[0]), "target": str(self.valid[1])},
        }


@functools.cache
def find_text(lower: bool = False) -> Text:
    """The corpus that is there; `lower`: lower-cased and tokenised, if it comes that way too."""
    if not BESIDE.is_dir():
        return _public()
    form = ".lc.norm.tok" if lower else ""
    files = [
        (BESIDE / f"{split}{form}.en", BESIDE / f"{split}{form}.de")
        for split in ("train", "val", "test_2016_flickr")
    ]
    return Text("Multi30k" + " (lower-cased, tokenised)" * lower, ("en", "de"), *files)


def _public() -> Text:
    source = get_source(PUBLIC)
    assert source.languages is not None
    files = []
    for split in ("train", "valid", "test"):
        pair = tuple(CACHE / PUBLIC / f"{split}.{language}" for language in source.languages)
        if not all(path.exists() for path in pair):
            _split(fetch(PUBLIC) / f"{split}.tsv", pair)
        files.append((pair[0], pair[1]))
    return Text(PUBLIC, source.languages, *files)


def _split(table: Path, files: Sequence[Path]) -> None:
    """One file of two columns → two files."""
    rows = [line.split("\t") for line in read_lines(table)]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    for column, file in enumerate(files):
        write_lines(file, [row[column] for row in rows])
