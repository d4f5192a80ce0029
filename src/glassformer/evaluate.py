"""How good are these translations? Scores with signatures, intervals and a test between two systems.

Every metric is a function of sums: each sentence gives a row of counts, and the score comes from the rows'
total. That one view serves the corpus score, the score of a single sentence, the bootstrap and the paired
test, whatever the metric.

    report = evaluate(hypotheses, references, metrics=["bleu", "chrf"], target_language="de")
    print(report.text())

A reference is a string, or a list of strings of which any counts as right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError, RequestError
from glassformer.metrics import METRICS, Metric, References, Rows, build_metric

Reference = str | Sequence[str]
DEFAULT_METRICS = ("bleu", "chrf", "ter")
SEED = 12345  # sacreBLEU's own, so that its confidence intervals and ours are the same numbers


@dataclass(frozen=True)
class Score:
    """One metric over a whole corpus. `low` and `high` bound 95% of the bootstrap's resamples."""

    name: str
    value: float
    signature: str = ""
    label: str = ""
    higher_is_better: bool = True
    low: float | None = None
    high: float | None = None
    note: str = ""

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.label or self.name} {self.value:.2f}{interval}"


@dataclass(frozen=True)
class Comparison:
    """Two systems under one metric: `difference` is the first minus the second, `p_value` two-sided."""

    name: str
    label: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.label}: {self.first:.2f} against {self.second:.2f}, difference {self.difference:+.2f} "
            f"[{self.low:+.2f}, {self.high:+.2f}], p = {self.p_value:.4f}"
        )


@dataclass(frozen=True)
class Sentence:
    """One line: what was said, what counts as right, and its own scores."""

    line: int
    hypothesis: str
    references: tuple[str, ...]
    scores: dict[str, float]
    against: str | None = None
    against_scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """Everything found out. `text()` is for people, `to_json()` for scripts, `save()` keeps the sentences."""

    scores: tuple[Score, ...]
    sentences: tuple[Sentence, ...]
    against: tuple[Score, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    bootstrap: int = 0
    seed: int = SEED
    ignored: str = ""

    def __getitem__(self, name: str) -> Score:
        return {score.name: score for score in self.scores}[name]

    @property
    def notes(self) -> list[str]:
        ignored = [f"what matches {self.ignored} does not count"] if self.ignored else []
        return ignored + list(dict.fromkeys(score.note for score in self.scores if score.note))

    def text(self) -> str:
        """Plain lines without colour, for pipes and logs."""
        lines = [f"{score}\t{score.signature}".rstrip() for score in self.scores]
        lines += [str(comparison) for comparison in self.comparisons]
        lines.append(f"{len(self.sentences)} sentences")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; the sentences are left to `save`."""
        return {
            "sentences": len(self.sentences),
            "bootstrap": {"resamples": self.bootstrap, "seed": self.seed},
            "ignored": self.ignored,
            "scores": [asdict(score) for score in self.scores],
            "against": [asdict(score) for score in self.against],
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
        }

    def save(self, path: Path) -> None:
        """One row a sentence: .jsonl, or .tsv with tabs, line ends and backslashes escaped."""
        check_sentence_file(path)
        if path.suffix == ".jsonl":
            rows = [json.dumps(asdict(sentence), ensure_ascii=False) for sentence in self.sentences]
        else:
            rows = self._tsv_rows()
        try:
            path.write_text("".join(row + "\n" for row in rows), encoding="utf-8", newline="\n")
        except OSError as error:
            raise DataError(f"can't be written: {error.strerror}", path) from error

    def _tsv_rows(self) -> list[str]:
        names = [score.name for score in self.scores]
        paired = bool(self.against)
        header = ["line", "hypothesis", *(["against"] if paired else []), "references", *names]
        rows = ["\t".join(header + [f"against_{name}" for name in names if paired])]
        for s in self.sentences:
            cells = [str(s.line), escape(s.hypothesis), *([escape(s.against or "")] if paired else [])]
            cells.append(" ||| ".join(escape(reference) for reference in s.references))
            cells += [f"{s.scores[name]:.4f}" for name in names]
            rows.append("\t".join(cells + [f"{s.against_scores[name]:.4f}" for name in names if paired]))
        return rows


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Reference],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    target_language: str = "",
    tokenize: str = "",
    lowercase: bool = False,
    ignore: str = "",
    against: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = SEED,
    names: Sequence[str] = ("hypotheses", "references", "against"),
) -> Report:
    """Score a corpus; with `against`, test a second system on the same sentences.

    `tokenize` is BLEU's tokenizer; left empty, it follows the target language. What matches the regular
    expression `ignore` is taken out of all sides. `names` are what the three inputs are called in an error,
    such as their files.
    """
    cut = without(ignore)
    hypotheses, against = list(map(cut, hypotheses)), None if against is None else list(map(cut, against))
    alternatives = [list(map(cut, right)) for right in _as_lists(references)]
    _check_counts(hypotheses, alternatives, names[0], names[1])
    if against is not None:
        _check_counts(against, alternatives, names[2], names[1])
    if bootstrap < 0:
        raise RequestError(f"bootstrap = {bootstrap} must not be negative; 0 leaves the intervals out")

    def measured(lines: Sequence[str]) -> list[_Measured]:
        return [
            _measure(name, lines, alternatives, target_language, tokenize, lowercase, bootstrap, seed)
            for name in _names(metrics)
        ]

    ours = measured(hypotheses)
    theirs = [] if against is None else measured(against)
    return Report(
        scores=tuple(part.score() for part in ours),
        sentences=_sentences(hypotheses, alternatives, ours, against, theirs),
        against=tuple(part.score() for part in theirs),
        comparisons=tuple(map(_compare, ours, theirs)) if bootstrap else (),
        bootstrap=bootstrap,
        seed=seed,
        ignored=ignore,
    )


def without(pattern: str) -> Callable[[str], str]:
    """What takes all that matches a regular expression out of a text.

    >>> without("[0-2]")("AH0 B AH1 V")
    'AH B AH V'
    """
    if not pattern:
        return str
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise RequestError(f"ignore = '{pattern}' is no regular expression: {error}") from None
    return lambda text: found.sub("", text)


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[Reference], target_language: str = "", tokenize: str = ""
) -> Score:
    """sacreBLEU with the tokenizer that is right for the target language."""
    report = evaluate(
        hypotheses,
        references,
        metrics=["bleu"],
        target_language=target_language,
        tokenize=tokenize,
        bootstrap=0,
    )
    return report["bleu"]


def check_sentence_file(path: Path) -> None:
    """Sentences are saved in a format that the file's name tells: refuse other names."""
    if path.suffix not in (".jsonl", ".tsv"):
        raise RequestError(f"{path}: sentences are saved as .jsonl or .tsv; give the file such a name")


def escape(text: str) -> str:
    r"""Text that fits one cell of a .tsv file: \ becomes \\, and tab, line feed and return \t, \n, \r."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


@dataclass(frozen=True)
class _Measured:
    """One system under one metric: its rows, and its value in each resample (if any were asked for)."""

    name: str
    metric: Metric
    note: str
    rows: Rows
    resampled: Rows

    @property
    def value(self) -> float:
        return self.metric.value(self.rows.sum(0))

    def score(self) -> Score:
        low, high = _interval(self.resampled) if len(self.resampled) else (None, None)
        return Score(
            name=self.name,
            value=self.value,
            signature=self.metric.signature(),
            label=METRICS[self.name],
            higher_is_better=self.metric.higher_is_better,
            low=low,
            high=high,
            note=self.note,
        )


def _measure(
    name: str,
    hypotheses: Sequence[str],
    references: References,
    target_language: str,
    tokenize: str,
    lowercase: bool,
    bootstrap: int,
    seed: int,
) -> _Measured:
    metric, note = build_metric(name, target_language, tokenize, lowercase)
    rows = metric.rows(hypotheses, references)
    return _Measured(name, metric, note, rows, _resample(metric, rows, bootstrap, seed))


def _resample(metric: Metric, rows: Rows, times: int, seed: int) -> Rows:
    """The values of `times` corpora drawn from this one with replacement; a seed fixes the draws."""
    random, count = np.random.default_rng(seed), len(rows)
    values = np.empty(times)
    for place in range(times):
        drawn = np.bincount(random.choice(count, size=count, replace=True), minlength=count)
        values[place] = metric.value(drawn @ rows)
    return values


def _interval(values: Rows) -> tuple[float, float]:
    """The middle 95%."""
    ordered = np.sort(values)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[len(ordered) - outside - 1])


def _compare(ours: _Measured, theirs: _Measured) -> Comparison:
    """Paired bootstrap (Koehn 2004), two-sided.

    The resampled differences scatter around the one that was seen; moved to a mean of zero they show how
    large a difference chance alone makes.
    """
    seen, differences = ours.value - theirs.value, ours.resampled - theirs.resampled
    by_chance = np.abs(differences - differences.mean()) >= abs(seen)
    low, high = _interval(differences)
    return Comparison(
        name=ours.name,
        label=METRICS[ours.name],
        first=ours.value,
        second=theirs.value,
        difference=seen,
        low=low,
        high=high,
        p_value=float((by_chance.sum() + 1) / (len(differences) + 1)),
    )


def _sentences(
    hypotheses: Sequence[str],
    references: References,
    ours: Sequence[_Measured],
    against: Sequence[str] | None,
    theirs: Sequence[_Measured],
) -> tuple[Sentence, ...]:
    def scores(parts: Sequence[_Measured], place: int) -> dict[str, float]:
        return {part.name: part.metric.sentence_value(part.rows[place]) for part in parts}

    return tuple(
        Sentence(
            line=place + 1,
            hypothesis=hypothesis,
            references=tuple(references[place]),
            scores=scores(ours, place),
            against=None if against is None else against[place],
            against_scores=scores(theirs, place),
        )
        for place, hypothesis in enumerate(hypotheses)
    )


def _names(metrics: Sequence[str]) -> list[str]:
    wrong = [name for name in metrics if name.lower() not in METRICS]
    if wrong or not metrics:
        problem = f"unknown metric {', '.join(wrong)}" if wrong else "no metric was asked for"
        raise RequestError(f"{problem}: there are {', '.join(METRICS)}")
    return list(dict.fromkeys(name.lower() for name in metrics))


def _as_lists(references: Sequence[Reference]) -> list[list[str]]:
    return [[reference] if isinstance(reference, str) else list(reference) for reference in references]


def _check_counts(said: Sequence[str], right: References, said_name: str, right_name: str) -> None:
    if len(said) != len(right):
        raise DataError(
            f"{said_name} has {len(said)} lines, {right_name} has {len(right)}: "
            "each line of one belongs to the same line of the other"
        )
    if not said:
        raise DataError(f"{said_name} and {right_name} are empty: there is nothing to score")
    for line, alternatives in enumerate(right, start=1):
        if not alternatives:
            raise DataError("no reference for this sentence", right_name, line)
