"""Text pairs → clean text pairs: what was read, what was left out and why, what is held out for validation.

Everything streams. A pair is decided on by itself and by the hashes seen so far, so every pass over the
same files gives the same pairs, and the memory needed grows by eight bytes a pair.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import compress, islice, pairwise
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.text.hashes import HashSet, hash_text
from glassformer.text.lines import open_file
from glassformer.text.pairs import Pair, count_pairs, files_of, read_pairs

CLEANING = 1
"""goes up when the same text and settings give other pairs or another report: what is kept is then old"""
CHUNK = 1 << 15
SHORT = 40
"""characters; a pair with no longer side never has an odd ratio: "Ja." is a translation of many things"""
BUCKETS = (0, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)
"""lower bounds of the length histogram, in characters"""
FILTERS = {
    "empty": "a side is empty",
    "identical": "both sides are the same",
    "too_long": "a side is too long",
    "odd_ratio": "one side is much longer",
    "duplicate": "seen before",
    "too_many_tokens": "too many tokens",
}
HOLD_OUT_KEY = b"hold out"

Progress = Callable[[int], None]


@dataclass
class Report:
    """What cleaning did."""

    read: int = 0
    """pairs in the files"""
    kept: int = 0
    """pairs left for training"""
    held_out: int = 0
    """pairs put aside for validation"""
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FILTERS, 0))
    """how many each filter left out"""
    first: dict[str, str] = field(default_factory=dict)
    """where each filter first struck: file and line"""
    truncated: int = 0
    """pairs cut at max_tokens"""
    in_validation: int = 0
    """pairs left whose source is also in the validation file"""
    source_lengths: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    """pairs left, by the characters of their source: see BUCKETS"""
    target_lengths: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    """the same for targets"""

    def drop(self, reason: str, where: str) -> None:
        self.dropped[reason] += 1
        self.first.setdefault(reason, where)

    def keep(self, source: str, target: str) -> None:
        self.kept += 1
        self.source_lengths[_bucket(len(source))] += 1
        self.target_lengths[_bucket(len(target))] += 1

    def table(self) -> str:
        """The report as lines of plain text."""
        rows = [("pairs read", self.read, "")]
        rows += [
            (f"- {FILTERS[name]}", count, f"first: {self.first[name]}" if name in self.first else "")
            for name, count in self.dropped.items()
            if count
        ]
        rows += [("held out for validation", self.held_out, "")] if self.held_out else []
        if self.truncated:
            rows += [("cut at max_tokens", self.truncated, f"first: {self.first.get('truncated', '')}")]
        rows += [("pairs kept", self.kept, "")]
        rows += [("- source also in validation", self.in_validation, "")] if self.in_validation else []
        return "\n".join(f"{name:<28}{count:>12,}  {note}".rstrip() for name, count, note in rows)

    def histogram(self) -> str:
        """How long the kept sides are, as lines of plain text."""
        most = max(*self.source_lengths, *self.target_lengths, 1)
        lines = [f"{'characters':>12}{'source':>12}  {'':20}{'target':>12}"]
        ends = [f"{start:,}–{end - 1:,}" for start, end in pairwise(BUCKETS)]
        for name, source, target in zip(
            [*ends, f"{BUCKETS[-1]:,}+"], self.source_lengths, self.target_lengths, strict=True
        ):
            if source or target:
                bars = ["█" * -(-20 * count // most) for count in (source, target)]
                lines.append(f"{name:>12}{source:>12,}  {bars[0]:<20}{target:>12,}  {bars[1]}".rstrip())
        return "\n".join(lines)


def _bucket(length: int) -> int:
    return bisect.bisect_right(BUCKETS, length) - 1


@dataclass(frozen=True)
class Scan:
    """What one pass over a corpus finds out."""

    report: Report
    threshold: int
    """sources whose hash is below this are held out"""
    valid: list[Pair]
    """the validation pairs: held out, or from a file of their own"""


class Corpus:
    """The training text of a recipe. Named corpora must be resolved to files before (`sources.resolve`)."""

    def __init__(self, data: DataConfig) -> None:
        if not data.corpora:
            raise ConfigError(
                "data.corpora is empty: say source and target, or pairs, or the name of a corpus"
            )
        self.data = data
        self._scan: Scan | None = None

    def count(self) -> int:
        """Lines of all corpora; files that do not pair up are refused."""
        return sum(count_pairs(corpus) for corpus in self.data.corpora)

    @property
    def weights(self) -> list[float]:
        return [corpus.weight for corpus in self.data.corpora]

    def scan(self, cache: Path | None = None, progress: Progress | None = None) -> Scan:
        """Check, count and clean everything once, and choose what is held out.

        `cache` is a file that keeps the result for as long as the text and the filters are the same.
        """
        if self._scan is None:
            fingerprint = self.fingerprint()
            self._scan = _load_scan(cache, fingerprint)
            if self._scan is None:
                self._scan = self._look(progress)
                if cache is not None:
                    _save_scan(cache, fingerprint, self._scan)
        return self._scan

    def pairs(self) -> Iterator[Pair]:
        """All pairs to train on, one corpus after the other."""
        for part in self.by_corpus():
            yield from part

    def by_corpus(self) -> Iterator[Iterator[Pair]]:
        """The same, apart; each corpus must be read to its end before the next."""
        threshold = self.scan().threshold
        seen = HashSet()
        for corpus in self.data.corpora:
            clean = self._clean(corpus, seen, Report(), None)
            yield (pair for pair in clean if not threshold or _held_out_hash(pair) >= threshold)

    def find(self, wanted: Pair) -> str:
        """File and line of a pair: for reports that meet it further on."""
        for corpus in self.data.corpora:
            for number, pair in enumerate(read_pairs(corpus, self.data.errors), start=1):
                if pair == wanted:
                    return f"{files_of(corpus)[0].name}, line {number}"
        return "not found"

    def fingerprint(self) -> str:
        """Changes whenever a file or a filter does."""
        settings = dataclasses.asdict(self.data)
        for key in ("source_language", "target_language", "max_tokens", "truncate"):
            del settings[key]
        files = [path for corpus in (*self.data.corpora, self.data.valid) for path in files_of(corpus)]
        content = json.dumps([CLEANING, settings, [_file_fingerprint(path) for path in files]])
        return hashlib.sha256(content.encode()).hexdigest()

    def _look(self, progress: Progress | None) -> Scan:
        self.count()
        report = Report()
        given = self._given_valid()
        known = {hash_text(source) for source, _ in given}
        chosen = _Smallest(0 if self.data.valid.given else self.data.hold_out)
        seen = HashSet()
        for corpus in self.data.corpora:
            for pair in self._clean(corpus, seen, report, progress):
                report.keep(*pair)
                if known:
                    report.in_validation += hash_text(pair[0]) in known
                elif chosen.limit:
                    chosen.add(_held_out_hash(pair), pair)
        if self.data.valid.given:
            return Scan(report, 0, given)
        threshold, valid = chosen.below(min(self.data.hold_out, report.kept // 10))
        report.held_out = len(valid)
        report.kept -= len(valid)
        return Scan(report, threshold, valid)

    def _given_valid(self) -> list[Pair]:
        if not self.data.valid.given:
            return []
        count_pairs(self.data.valid)
        pairs = read_pairs(self.data.valid, self.data.errors)
        return [(source, target) for source, target in pairs if source.strip() and target.strip()]

    def _clean(
        self, corpus: CorpusConfig, seen: HashSet, report: Report, progress: Progress | None
    ) -> Iterator[Pair]:
        """Pairs that pass every filter."""
        name = files_of(corpus)[0].name
        pairs = enumerate(read_pairs(corpus, self.data.errors), start=1)
        while chunk := list(islice(pairs, CHUNK)):
            report.read += len(chunk)
            passed = []
            for number, pair in chunk:
                if reason := self._wrong(*pair):
                    report.drop(reason, f"{name}, line {number}")
                else:
                    passed.append((pair, number))
            if self.data.drop_duplicates:
                new = seen.add(hash_text(f"{source}\n{target}") for (source, target), _ in passed)
                for _, number in compress(passed, ~new):
                    report.drop("duplicate", f"{name}, line {number}")
                passed = list(compress(passed, new))
            yield from (pair for pair, _ in passed)
            if progress:
                progress(len(chunk))

    def _wrong(self, source: str, target: str) -> str | None:
        """Which filter leaves this pair out, looking at nothing else."""
        data = self.data
        if data.drop_empty and not (source.strip() and target.strip()):
            return "empty"
        if data.drop_identical and source.strip() == target.strip():
            return "identical"
        shorter, longer = sorted((len(source), len(target)))
        if data.max_characters and longer > data.max_characters:
            return "too_long"
        if data.max_ratio and longer > SHORT and longer > data.max_ratio * shorter:
            return "odd_ratio"
        return None


def _held_out_hash(pair: Pair) -> int:
    """Of the source alone, so that all its translations fall on one side; keyed, so that it is not the order
    in which another hash was sorted."""
    return hash_text(pair[0], HOLD_OUT_KEY)


class _Smallest:
    """The pairs with the smallest hashes, `limit` of them and one more, in constant memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._found: list[tuple[int, Pair]] = []
        self._bound = 1 << 64

    def add(self, number: int, pair: Pair) -> None:
        if number >= self._bound:
            return
        self._found.append((number, pair))
        if len(self._found) > 2 * self.limit + 64:
            self._trim()
            self._bound = self._found[-1][0]

    def below(self, count: int) -> tuple[int, list[Pair]]:
        """A threshold with at most `count` pairs below it, and these: sources come whole or not at all."""
        self._trim()
        if not count or len(self._found) <= count:
            return 0, []
        threshold = self._found[count][0]
        return threshold, [pair for number, pair in self._found if number < threshold]

    def _trim(self) -> None:
        self._found.sort(key=lambda entry: entry[0])
        del self._found[self.limit + 1 :]


def _file_fingerprint(path: Path) -> list[Any]:
    """Where a file is, how large, how old, and a hash of its first and last megabyte."""
    edge = 1 << 20
    with open_file(path) as stream:
        status = os.fstat(stream.fileno())
        digest = hashlib.sha256(stream.read(edge))
        stream.seek(max(0, status.st_size - edge))
        digest.update(stream.read(edge))
    return [str(path.resolve()), status.st_size, status.st_mtime_ns, digest.hexdigest()]


def _load_scan(cache: Path | None, fingerprint: str) -> Scan | None:
    try:
        kept = json.loads(cache.read_text(encoding="utf-8")) if cache else {}
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("fingerprint") != fingerprint:
        return None
    return Scan(Report(**kept["report"]), kept["threshold"], [(s, t) for s, t in kept["valid"]])


def _save_scan(cache: Path, fingerprint: str, scan: Scan) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache.with_name(f".{cache.name}.{os.getpid()}.tmp")
    content = {"fingerprint": fingerprint, **dataclasses.asdict(scan)}
    temporary.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    temporary.replace(cache)
