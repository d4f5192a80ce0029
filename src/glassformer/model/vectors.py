"""Pretrained word vectors → an embedding: GloVe's and word2vec's text format, plain, .gz or .bz2.

    words = words_of(tokenizer.pieces(range(tokenizer.size)))
    print(load_vectors("glove.6B.300d.txt", words, model.source_embedding.weight_VD, pad=tokenizer.pad))

A line is a word and its numbers; word2vec and fastText put a line with count and width before them. Such
files are larger than memory: they are read once, line by line, and only wanted words have numbers parsed.
"""

from __future__ import annotations

import bz2
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.text.lines import BOM, open_bytes

LONGEST_LINE = 1 << 20
"""a thousand numbers take 20 kB: a megabyte without an end is no line of vectors"""


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary a file of vectors knows. `print` it."""

    path: Path
    found: int
    """rows of the embedding that were filled"""
    missing: tuple[str, ...]
    """words that are not in the file; their rows are as they were"""
    width: int
    """numbers of a vector"""
    vectors: int
    """vectors in the file"""
    duplicates: int
    """wanted words that stand in the file again; the first one counts"""

    @property
    def total(self) -> int:
        return self.found + len(self.missing)

    def __str__(self) -> str:
        share = self.found / self.total if self.total else 0.0
        lines = [
            f"found {self.found:,} of {self.total:,} words ({share:.1%}) "
            f"among {self.vectors:,} vectors of width {self.width} in {self.path}"
        ]
        if self.missing:
            more = f" and {len(self.missing) - 10:,} more" if len(self.missing) > 10 else ""
            lines.append(f"missing: {' '.join(self.missing[:10])}{more}")
        if self.duplicates:
            lines.append(f"{self.duplicates:,} duplicates in the file were passed over: the first one counts")
        return "\n".join(lines)


def words_of(pieces: Sequence[str]) -> list[str]:
    """SentencePiece's pieces as a file of vectors would spell them: without ▁, the mark of a word's start.

    What is no text, such as <unk> or the byte <0x0A>, becomes "", which no vector is loaded for.

    >>> words_of(["</s>", "▁the", "ing", "▁", "<0x0A>", "<"])
    ['', 'the', 'ing', '', '', '<']
    """
    plain = [piece.removeprefix("▁") for piece in pieces]
    return ["" if len(word) > 2 and word[0] == "<" and word[-1] == ">" else word for word in plain]


def load_vectors(
    path: str | Path,
    words: Sequence[str],
    weight_VD: Tensor,
    *,
    pad: int | None = None,
    factor: float = 1.0,
) -> Coverage:
    """Fill the rows of an embedding with the vectors of their words; row n stands for words[n].

    Rows of words that the file has not, of "" and of `pad` stay as they are; so does everything if the file
    turns out to be wrong. `factor` multiplies the vectors: 1/√width undoes what a model with
    `scale_embeddings` multiplies them by.
    """
    path, width = Path(path), weight_VD.shape[1]
    if len(words) > len(weight_VD):
        raise DataError(f"{len(words):,} words for an embedding of {len(weight_VD):,} rows")
    rows_of: dict[bytes, list[int]] = {}
    for row, word in enumerate(words):
        if word and row != pad:
            rows_of.setdefault(word.encode("utf-8"), []).append(row)
    filled: dict[bytes, Tensor] = {}
    vectors = duplicates = 0
    for number, known, numbers in _entries(path, width):
        vectors += 1
        if known in filled:
            duplicates += 1
        elif known in rows_of:
            filled[known] = _vector(numbers, path, number)
    with torch.no_grad():
        for known, vector in filled.items():
            weight_VD[rows_of[known]] = (vector * factor).to(weight_VD)
    missing = sorted(row for wanted, rows in rows_of.items() if wanted not in filled for row in rows)
    found = sum(len(rows_of[known]) for known in filled)
    return Coverage(path, found, tuple(words[row] for row in missing), width, vectors, duplicates)


def _entries(path: Path, width: int) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Line number, word and numbers of each vector; the numbers are counted but not yet read."""
    promised, read = 0, 0
    for number, line in _lines(path):
        fields = line.split()  # bytes: a no-break space inside a word is no separator here
        if number == 1 and len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            promised = int(fields[0])
            if int(fields[1]) != width:
                raise _other_width(int(fields[1]), width, path, number)
            continue
        if not fields:
            continue
        read += 1
        word_fields = len(fields) - width
        if word_fields == 0 and line[:1].isspace():
            continue  # the word itself is white space
        # GloVe's largest file has words with spaces in them, ". . ." for one.
        if word_fields < 1 or (word_fields > 1 and all(map(_is_number, fields[1:word_fields]))):
            if read == 1 and len(fields) > 1 and all(map(_is_number, fields[1:])):
                raise _other_width(len(fields) - 1, width, path, number)
            raise DataError(f"{len(fields) - 1} numbers instead of {width}{_hint(line)}", path, number)
        yield number, b" ".join(fields[:word_fields]), fields[word_fields:]
    if not read:
        raise DataError("there are no vectors in this file", path)
    if read < promised:
        raise DataError(
            f"its first line promises {promised:,} vectors, but there are {read:,}: it may be cut short; "
            "fetch it again, or correct that line",
            path,
        )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines, without the byte order mark; a damaged archive is reported as such."""
    number = 0
    try:
        with closing(_open(path)) as stream:
            while line := stream.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise DataError("a line of more than 1 MiB: is this text?", path, number)
                yield number, line.removeprefix(BOM) if number == 1 else line
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"cut short or damaged after {number:,} lines: {error}", path) from None


def _open(path: Path) -> IO[bytes]:
    stream = open_bytes(path)  # unpacks gzip
    start = stream.peek(4)[:4] if isinstance(stream, io.BufferedReader) else b""
    if start.startswith(b"BZh"):
        stream.close()
        return bz2.open(path)
    if start == b"PK\x03\x04":
        stream.close()
        raise DataError("this is a zip archive: unpack it, and give the .txt file inside", path)
    return stream


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _vector(numbers: list[bytes], path: Path, line: int) -> Tensor:
    for text in numbers:
        if not _is_number(text) or not math.isfinite(float(text)):
            shown = text.decode("utf-8", "replace")
            raise DataError(f"{shown!r} is not a number that an embedding can hold", path, line)
    return torch.tensor([float(text) for text in numbers])


def _other_width(found: int, width: int, path: Path, line: int) -> DataError:
    return DataError(
        f"its vectors have {found} numbers, but the embedding has {width}: set model.width = {found}, "
        f"or take vectors of width {width}",
        path,
        line,
    )


def _hint(line: bytes) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    return "; is this word2vec's binary form? Save it as text" if "\0" in text else ""
