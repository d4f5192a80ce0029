"""What the tutorials say, held against the numbers of this very run. No sentence here knows the outcome.

Differences are called clear when a 95% interval over the test sentences leaves out zero, and small below
`SMALL` points. The interval says nothing about other seeds: one run is one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.compare.contestants import TRANSFORMER
from glassformer.compare.measure import Difference, growth
from glassformer.compare.result import Result, Row

SMALL = 2.0
"""points of quality that count as about equal"""
LEARNT = 20.0
"""points below which a contestant has learnt too little to be compared by its quality"""
FALL = 5.0
"""points by which one fall has to be steeper than another to be called steeper"""
FASTER = 1.1
"""ratio of speeds below which nobody is faster"""

Outcome = Literal["seen", "not seen", "contradicted"]
"""as claimed; no clear sign of it; clearly the other way"""


@dataclass(frozen=True)
class Verdict:
    """One claim, and what became of it."""

    claim: str
    outcome: Outcome
    evidence: str


def verdicts(result: Result) -> list[Verdict]:
    """Everything that this run can say about the claims."""
    checks = [*_ablations(result)] if result.ablations else [check(result) for check in ARCHITECTURE_CLAIMS]
    return [verdict for verdict in checks if verdict is not None]


def _ablations(result: Result) -> list[Verdict | None]:
    rows = [row for row in result.rows if row.contestant.expected]
    found: list[Verdict | None] = [_ablation(row, result) for row in rows]
    return [*found, *(_survives(row, result) for row in rows if "positions" in row.contestant.model)]


def _ablation(row: Row, result: Result) -> Verdict | None:
    whole = result.find(TRANSFORMER.name)
    if whole is None or whole.quality < LEARNT or (row.against is None and not row.trouble):
        return None
    expected, why = row.contestant.expected, f" ({row.contestant.says})" if row.contestant.says else ""
    claim = f"{row.contestant.title}: {'worse' if expected == 'worse' else 'about equal'}{why}"
    if row.against is None:
        return Verdict(claim, "seen" if expected == "worse" else "contradicted", "training diverged")
    return Verdict(claim, _as_expected(row.against, expected), _points(row, whole, row.against, result))


def _as_expected(found: Difference, expected: str) -> Outcome:
    if abs(found.points) < SMALL:
        return "seen" if expected == "equal" else "not seen"
    if not found.clear:
        return "not seen"
    return "seen" if expected == "worse" and found.points < 0 else "contradicted"


def _points(row: Row, other: Row, found: Difference, result: Result) -> str:
    return (
        f"{result.metric_label}: {row.quality:.1f} against {other.quality:.1f}, "
        f"{found.points:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
    )


def _survives(row: Row, result: Result) -> Verdict | None:
    """Sentences longer than in training: sinusoids were chosen because they might reach farther."""
    whole = result.find(TRANSFORMER.name)
    if whole is None or row.contestant.model["positions"] == "none" or not row.longer or not whole.longer:
        return None
    if min(whole.known[-1], row.known[-1]) < LEARNT or abs(whole.known[-1] - row.known[-1]) > FALL:
        return None  # they part before that length already
    ours, theirs = whole.longer[0], row.longer[0]
    outcome: Outcome = "seen" if ours > theirs + SMALL else "not seen" if ours >= theirs else "contradicted"
    return Verdict(
        f"sinusoidal positions reach beyond the lengths of training, {row.contestant.title} less far",
        outcome,
        f"just beyond them: {ours:.1f} against {theirs:.1f}; at the end of training's lengths: "
        f"{whole.known[-1]:.1f} and {row.known[-1]:.1f}",
    )


def _bottleneck(result: Result) -> Verdict | None:
    without, best = result.find("lstm"), _best_attending(result)
    if without is None or best is None or len(without.known) < 2:
        return None
    falls = [row.known[0] - row.known[-1] for row in (without, best)]
    steeper = falls[0] - falls[1]
    outcome: Outcome = "seen" if steeper > FALL else "contradicted" if steeper < -FALL else "not seen"
    return Verdict(
        "one vector can't hold a long sentence: without attention quality falls with length, with it less",
        outcome,
        f"from the shortest to the longest sentences, {without.title} falls by {falls[0]:.1f} points "
        f"({without.known[0]:.1f} → {without.known[-1]:.1f}), {best.title} by {falls[1]:.1f} "
        f"({best.known[0]:.1f} → {best.known[-1]:.1f})",
    )


def _in_equal_time(result: Result) -> Verdict | None:
    ours, best = result.find(TRANSFORMER.name), _best_attending(result)
    if ours is None or best is None or best.against is None:
        return None
    found = best.against
    outcome: Outcome = "not seen"
    if found.clear and abs(found.points) >= SMALL:
        outcome = "seen" if found.points < 0 else "contradicted"
    return Verdict(
        "in equal time a Transformer gets farther than an LSTM with attention",
        outcome,
        _points(best, ours, found, result),
    )


def _training_speed(result: Result) -> Verdict | None:
    ours, rows = result.find(TRANSFORMER.name), [row for row in result.rows if row.contestant.recurrent]
    if ours is None or not rows:
        return None
    fastest = max(rows, key=lambda row: row.tokens_per_second)
    ratio = ours.tokens_per_second / fastest.tokens_per_second
    outcome: Outcome = "seen" if ratio > FASTER else "contradicted" if ratio < 1 / FASTER else "not seen"
    return Verdict(
        "a Transformer trains on more tokens a second, because no token waits for the one before it",
        outcome,
        f"{ours.tokens_per_second:,.0f} target tokens/s against {fastest.tokens_per_second:,.0f} of "
        f"{fastest.title}: × {ratio:.2f} with {ours.parameters:,} and {fastest.parameters:,} weights",
    )


def _serial(result: Result) -> Verdict | None:
    ours, rows = result.find(TRANSFORMER.name), [row for row in result.rows if row.contestant.recurrent]
    if ours is None or not ours.pass_times or not any(row.pass_times for row in rows):
        return None
    longest = max(ours.pass_times)
    best = min((row for row in rows if row.pass_times), key=lambda row: row.pass_times[longest])
    powers = [growth(row.pass_times) for row in (ours, best)]
    ratio = best.pass_times[longest] / ours.pass_times[longest]
    outcome: Outcome = "seen" if ratio > FASTER else "contradicted" if ratio < 1 / FASTER else "not seen"
    return Verdict(
        "an LSTM is serial: one pass over a long sentence takes it longer than a Transformer",
        outcome,
        f"over {longest} tokens a side {best.title} takes {1000 * best.pass_times[longest]:.1f} ms, the "
        f"Transformer {1000 * ours.pass_times[longest]:.1f} ms (× {ratio:.2f}); time grows like "
        f"T^{powers[1]:.2f} and T^{powers[0]:.2f} on {result.threads}",
    )


def _scores(result: Result) -> Verdict | None:
    rows = [row for row in result.rows if row.contestant.attends]
    if len(rows) < 2 or max(row.quality for row in rows) < LEARNT:
        return None
    best, worst = (choose(rows, key=lambda row: row.quality) for choose in (max, min))
    apart = best.quality - worst.quality
    return Verdict(
        "dot, additive and bilinear attention do about equally well",
        "seen" if apart < SMALL else "contradicted",
        f"{best.title} {best.quality:.1f}, {worst.title} {worst.quality:.1f}",
    )


def _beyond(result: Result) -> Verdict | None:
    ours, best = result.find(TRANSFORMER.name), _best_attending(result)
    if ours is None or best is None or not ours.longer or not best.longer:
        return None
    if ours.known[-1] < LEARNT:
        return None
    holds = ours.known[-1] - ours.longer[0] < FALL
    return Verdict(
        "sinusoidal positions let a Transformer read sentences longer than any in training (section 3.5)",
        "seen" if holds else "contradicted",
        f"{ours.title} {ours.known[-1]:.1f} → {ours.longer[0]:.1f} just beyond the longest of training; "
        f"{best.title} {best.known[-1]:.1f} → {best.longer[0]:.1f}",
    )


ARCHITECTURE_CLAIMS: Sequence[Callable[[Result], Verdict | None]] = (
    _bottleneck,
    _in_equal_time,
    _training_speed,
    _serial,
    _scores,
    _beyond,
)


def _best_attending(result: Result) -> Row | None:
    """The best recurrent model with attention, if it has learnt anything."""
    rows = [row for row in result.rows if row.contestant.attends and row.quality >= LEARNT]
    return max(rows, key=lambda row: row.quality, default=None)
