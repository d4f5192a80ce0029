"""Token ids of text pairs in memory-mapped files: larger than memory, and re-used while nothing changed.

A store is a directory: `source.ids` and `target.ids` hold the ids of all pairs one after the other (16 bits
where the vocabulary allows), `*.offsets` say where each pair begins, `*.lengths` how long it is, and
`meta.json`, written last, what it was made from. It is built under a temporary name and renamed, so
a half-written one is never found under the final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from glassformer.errors import DataError
from glassformer.text.corpus import Corpus, Progress, Report
from glassformer.text.tokenizer import TokenizerPair

FORMAT = 1
CHUNK = 4096
"""pairs tokenised together"""
SIDES = ("source", "target")
FILES = [f"{side}.{part}" for side in SIDES for part in ("ids", "offsets", "lengths")]

Ids = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Side:
    """One side of a store: ids[offsets[i] : offsets[i + 1]] is pair i."""

    ids: Ids
    offsets: Ids
    lengths: Ids


class Store:
    """Pairs of token ids without end of sentence, by number."""

    def __init__(self, directory: Path, meta: Mapping[str, Any], source: Side, target: Side) -> None:
        self.directory, self.meta = directory, meta
        self.source, self.target = source, target

    @staticmethod
    def open(directory: str | Path) -> Store:
        """Map a store into memory; one that is incomplete or damaged is refused."""
        directory = Path(directory)
        meta = _read_meta(directory)
        if meta is None:
            raise DataError("there is no complete store here", directory)
        return Store(directory, meta, *(_map_side(directory, side, meta) for side in SIDES))

    def __len__(self) -> int:
        return len(self.source.lengths)

    @property
    def source_lengths(self) -> Ids:
        return self.source.lengths

    @property
    def target_lengths(self) -> Ids:
        return self.target.lengths

    @property
    def groups(self) -> list[tuple[int, float]]:
        """Pairs and weight of each corpus; they stand one corpus after the other."""
        return [(count, weight) for count, weight in self.meta["groups"]]

    def pair(self, index: int) -> tuple[Ids, Ids]:
        source, target = self.source, self.target
        return (
            source.ids[source.offsets[index] : source.offsets[index + 1]],
            target.ids[target.offsets[index] : target.offsets[index + 1]],
        )

    def pairs(self, indices: Iterable[int]) -> list[tuple[Ids, Ids]]:
        return [self.pair(index) for index in indices]


def prepare_store(
    directory: str | Path, corpus: Corpus, tokenizers: TokenizerPair, progress: Progress | None = None
) -> Store:
    """The store of a corpus: the one in `directory` if nothing has changed since, else a new one."""
    data = corpus.data
    parts = [corpus.fingerprint(), tokenizers.fingerprint(), str(data.max_tokens), str(data.truncate)]
    fingerprint = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    return find_store(directory, fingerprint) or build_store(
        directory,
        corpus.by_corpus(),
        tokenizers,
        fingerprint=fingerprint,
        max_tokens=data.max_tokens,
        truncate=data.truncate,
        weights=corpus.weights,
        progress=progress,
    )


def complete_report(report: Report, store: Store, corpus: Corpus) -> Report:
    """The cleaning report with what the store left out or cut, and where that happened first."""
    dropped, truncated = store.meta["too_many_tokens"], store.meta["truncated"]
    first = dict(report.first)
    if store.meta["first_long"]:
        first["too_many_tokens" if dropped else "truncated"] = corpus.find(tuple(store.meta["first_long"]))
    return replace(
        report,
        kept=report.kept - dropped,
        dropped={**report.dropped, "too_many_tokens": dropped},
        truncated=truncated,
        first=first,
    )


def find_store(directory: str | Path, fingerprint: str) -> Store | None:
    """The store in `directory`, if it is complete and was made from just this."""
    meta = _read_meta(Path(directory))
    if meta is None or meta["fingerprint"] != fingerprint:
        return None
    try:
        return Store.open(directory)
    except DataError:
        return None


def build_store(
    directory: str | Path,
    corpora: Iterable[Iterable[tuple[str, str]]],
    tokenizers: TokenizerPair,
    *,
    fingerprint: str = "",
    max_tokens: int = 0,
    truncate: bool = False,
    weights: Sequence[float] = (1.0,),
    progress: Progress | None = None,
) -> Store:
    """Tokenise text pairs into a new store, which takes the place of the one in `directory`.

    Pairs with more than `max_tokens` tokens on a side are left out, or cut there if `truncate` is set; the
    numbers stand in `store.meta` as `too_many_tokens` and `truncated`.
    """
    directory = Path(directory)
    _refuse_foreign(directory)
    _remove_leftovers(directory)
    temporary = directory.with_name(f".{directory.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        with _Writer(temporary, tokenizers, max_tokens, truncate, progress) as writer:
            groups = [writer.add_all(pairs) for pairs in corpora]
        meta = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "pairs": sum(groups),
            "groups": list(zip(groups, weights, strict=True)),
            "tokens": writer.tokens,
            "types": writer.types,
            "too_many_tokens": writer.too_many_tokens,
            "truncated": writer.truncated,
            "first_long": writer.first_long,
        }
        with open(temporary / "meta.json", "w", encoding="utf-8") as stream:
            json.dump(meta, stream, indent=1)
            _sync(stream)
        shutil.rmtree(directory, ignore_errors=True)
        temporary.rename(directory)
    except OSError as error:
        raise DataError(f"can't write the token store: {error.strerror}", directory) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Store.open(directory)


class _Writer:
    """Appends tokenised pairs to the files of a store."""

    def __init__(
        self,
        directory: Path,
        tokenizers: TokenizerPair,
        max_tokens: int,
        truncate: bool,
        progress: Progress | None,
    ) -> None:
        self._progress = progress or (lambda count: None)
        self._tokenizers = (tokenizers.source, tokenizers.target)
        self._limit, self._truncate = max_tokens, truncate
        self.types = ["uint16" if t.size <= 1 << 16 else "uint32" for t in self._tokenizers]
        self.tokens = [0, 0]
        self.too_many_tokens = self.truncated = 0
        self.first_long: tuple[str, str] | None = None
        self._files = {name: open(directory / name, "wb") for name in FILES}  # noqa: SIM115
        for side in SIDES:
            self._files[f"{side}.offsets"].write(np.zeros(1, np.uint64).tobytes())

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        for stream in self._files.values():
            with stream:
                if exception[0] is None:
                    _sync(stream)

    def add_all(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Tokenise and write; how many were written."""
        return sum(self._add(chunk) for chunk in _chunks(pairs))

    def _add(self, chunk: Sequence[tuple[str, str]]) -> int:
        texts = list(zip(*chunk, strict=True))
        encoded = [t.encode_batch(side) for t, side in zip(self._tokenizers, texts, strict=True)]
        if self._limit:
            encoded = self._limited(encoded, chunk)
        for number, (side, rows) in enumerate(zip(SIDES, encoded, strict=True)):
            lengths = np.fromiter(map(len, rows), np.uint32, len(rows))
            ids = np.fromiter(chain.from_iterable(rows), self.types[number], int(lengths.sum()))
            offsets = np.cumsum(lengths, dtype=np.uint64) + np.uint64(self.tokens[number])
            self._files[f"{side}.ids"].write(ids.tobytes())
            self._files[f"{side}.offsets"].write(offsets.tobytes())
            self._files[f"{side}.lengths"].write(lengths.tobytes())
            self.tokens[number] += len(ids)
        self._progress(len(chunk))
        return len(encoded[0])

    def _limited(
        self, encoded: list[list[list[int]]], chunk: Sequence[tuple[str, str]]
    ) -> list[list[list[int]]]:
        fits = [max(map(len, row)) <= self._limit for row in zip(*encoded, strict=True)]
        long = len(fits) - sum(fits)
        if long and self.first_long is None:
            self.first_long = chunk[fits.index(False)]
        if self._truncate:
            self.truncated += long
            return [[row[: self._limit] for row in side] for side in encoded]
        self.too_many_tokens += long
        return [[row for row, fit in zip(side, fits, strict=True) if fit] for side in encoded]


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    chunk: list[tuple[str, str]] = []
    for pair in pairs:
        chunk.append(pair)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _refuse_foreign(directory: Path) -> None:
    """A store may take the place of a store, but never of somebody's files."""
    if directory.is_dir():
        others = sorted({path.name for path in directory.iterdir()} - {*FILES, "meta.json"})
        if others:
            raise DataError(
                f"holds other things than a token store ({others[0]}): choose another place", directory
            )
    elif directory.exists():
        raise DataError("this is a file; a token store is a directory", directory)


def _remove_leftovers(directory: Path) -> None:
    """What processes left behind that ended while they were building this store."""
    for path in directory.parent.glob(f".{directory.name}.*.tmp"):
        number = path.name.split(".")[-2]
        if number.isdigit() and not _alive(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    if process == os.getpid():
        return False  # we have not begun yet: it is of an earlier process with our number
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _sync(stream: IO[Any]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _read_meta(directory: Path) -> dict[str, Any] | None:
    """meta.json, or None where there is no (readable) store of this version."""
    try:
        meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(meta, dict) and meta.get("format") == FORMAT
    return meta if known else None


def _map_side(directory: Path, side: str, meta: Mapping[str, Any]) -> Side:
    number = SIDES.index(side)
    pairs, tokens = meta["pairs"], meta["tokens"][number]
    return Side(
        _map(directory / f"{side}.ids", meta["types"][number], tokens),
        _map(directory / f"{side}.offsets", "uint64", pairs + 1),
        _map(directory / f"{side}.lengths", "uint32", pairs),
    )


def _map(path: Path, kind: str, count: int) -> Ids:
    expected = np.dtype(kind).itemsize * count
    size = path.stat().st_size if path.is_file() else -1
    if size != expected:
        raise DataError(f"the store is damaged: {expected:,} bytes expected, {max(size, 0):,} found", path)
    if not count:
        return np.zeros(0, kind)  # an empty file can't be mapped
    # As a plain array, whose slices are several times cheaper to make than a memmap's; it stays mapped.
    return np.asarray(np.memmap(path, kind, "r", shape=(count,)))
