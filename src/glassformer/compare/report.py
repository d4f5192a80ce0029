"""The comparison in words and tables: README.md, result.json and the figures, all in one directory."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glassformer.compare.contestants import TRANSFORMER
from glassformer.compare.figures import draw
from glassformer.compare.result import Result, Row
from glassformer.compare.verdicts import Verdict, verdicts
from glassformer.errors import MissingExtraError
from glassformer.train.report import clock

HEADINGS = {"quality": "Quality by length", "learning": "Learning", "speed": "Speed", "parts": "The parts"}

CEILING = 99.0
TOO_EASY = (
    "The whole Transformer is at {quality:.1f}, the ceiling: what a part would add on harder text can't show "
    "on this one. `--data tatoeba-en-es --minutes 60` asks again with real sentences."
)


def write(result: Result, directory: Path) -> tuple[str, list[Path]]:
    """Write everything; return the report's text and the files. Without matplotlib there are no pictures."""
    found = verdicts(result)
    mapping = {**result.to_json(), "verdicts": [asdict(verdict) for verdict in found]}
    paths = [directory / "result.json"]
    paths[0].write_text(json.dumps(_finite(mapping), ensure_ascii=False, indent=1), "utf-8")
    try:
        pictures = draw(result, directory)
        note = ""
    except MissingExtraError as error:
        pictures, note = [], str(error)
    text = report(result, found, pictures, note)
    paths.append(directory / "README.md")
    paths[-1].write_text(text, "utf-8")
    return text, [*paths, *pictures]


def report(result: Result, found: Sequence[Verdict], pictures: Sequence[Path] = (), note: str = "") -> str:
    """Markdown."""
    title = (
        "What each part of the Transformer is worth" if result.ablations else "What the Transformer replaced"
    )
    parts = [f"# {title}", _conditions(result), table(result)]
    whole = result.find(TRANSFORMER.name)
    if result.ablations and whole is not None and whole.quality >= CEILING:
        parts.append(TOO_EASY.format(quality=whole.quality))
    parts += ["## Claims and numbers", *_claims(found)]
    parts += [f"## {HEADINGS[path.stem]}\n\n![{path.stem}]({path.name})" for path in pictures]
    if result.sweep:
        parts += ["## Learning rates that were tried", _sweep(result)]
    if note:
        parts.append(note)
    return "\n\n".join(parts) + "\n"


def _conditions(result: Result) -> str:
    """Under which conditions the numbers were made."""
    machine, seconds = result.machine, max(row.seconds for row in result.rows)
    sentences = sum(len(group.places) for group in result.groups)
    limit = f", at most {result.longest} tokens a side" if result.longest else ""
    return (
        f"Trained on `{result.data}`{limit}. Each contestant had {clock(seconds)} of training, in turns of a "
        f"few seconds one after the other, so that a busy machine was busy for all; learning rates as in the "
        f"last column. {result.metric_label} over {sentences:,} unseen test sentences, greedy search. "
        f"One seed ({machine['seed']}): intervals are over sentences, not over seeds. "
        f"torch {machine['torch']}, {result.threads}, {machine['processor']}. "
        "Speeds are this machine's: a graphics card has far more room for work in parallel."
    )


def table(result: Result) -> str:
    """One row a contestant."""
    heads = ["", result.metric_label]
    heads += [f"{group.label}{' (longer)' if group.longer else ''}" for group in result.groups]
    heads += ["loss", "updates", "tokens/s", "search, sentences/s", "weights", "rate"]
    if result.ablations:
        heads.insert(2, "difference")
    return _markdown([heads, *(_cells(row, result) for row in result.rows)])


def _cells(row: Row, result: Result) -> list[str]:
    cells = [row.title, "diverged" if row.trouble else f"{row.quality:.1f}"]
    if result.ablations:
        one = row.against
        cells.append("" if one is None else f"{one.points:+.1f} [{one.low:+.1f}, {one.high:+.1f}]")
    cells += [f"{value:.1f}" for value in row.by_group] or [""] * len(result.groups)
    cells += [f"{row.loss:.3f}", f"{row.updates:,}", f"{row.tokens_per_second:,.0f}"]
    return [*cells, f"{row.sentences_per_second:,.0f}", f"{row.parameters:,}", f"{row.contestant.rate:g}"]


def _claims(found: Sequence[Verdict]) -> list[str]:
    """What was claimed and what was found; then, once more, where the two do not fit."""
    if not found:
        return ["Too few contestants took part to say anything about the claims of the tutorials."]
    rows = [["claim", "in this run", "numbers"]]
    rows += [[verdict.claim, f"**{verdict.outcome}**", verdict.evidence] for verdict in found]
    against = [verdict for verdict in found if verdict.outcome != "seen"]
    if not against:
        return [_markdown(rows), "Nothing in this run contradicts the tutorials."]
    words = {"contradicted": "Contradicts the tutorials", "not seen": "Claimed, but no clear sign of it here"}
    lines = [f"- {words[verdict.outcome]}: {verdict.claim}. {verdict.evidence}." for verdict in against]
    return [_markdown(rows), "Where this run and the tutorials part:\n\n" + "\n".join(lines)]


def _sweep(result: Result) -> str:
    rates = list(dict.fromkeys(entry["rate"] for entry in result.sweep))
    losses = {(entry["name"], entry["rate"]): entry["loss"] for entry in result.sweep}
    names = list(dict.fromkeys(entry["name"] for entry in result.sweep))
    rows = [["loss on validation pairs", *(f"{rate:g}" for rate in rates)]]
    for name in names:
        tried = [losses[name, rate] for rate in rates]
        best = min((loss for loss in tried if loss is not None), default=None)
        shown = ["diverged" if loss is None else f"{loss:.3f}" for loss in tried]
        marked = [f"**{text}**" if loss == best else text for text, loss in zip(shown, tried, strict=True)]
        rows.append([name, *marked])
    return _markdown(rows)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _finite(value: Any) -> Any:
    """JSON has no word for infinity or "not a number"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value
