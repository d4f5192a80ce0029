"""Results as text: `results/README.md` with everything, and a short table between marks in the READMEs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import plots, results_file

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- speed: written by `python -m benchmarks report` -->", "<!-- /speed -->"
READMES = ("README.md", "README.zh.md")
NOTHING = "–"

Parts = Mapping[str, Mapping[str, Any]]
Cell = Callable[[Parts, str], str]


def write(folder: Path = results_file.RESULTS) -> list[Path]:
    """Everything that is made of the results: tables, pictures, the marked part of the READMEs.

    Results in another folder than ours keep their pictures to themselves, and the READMEs stay as they are.
    """
    whole = results_file.newest(folder)
    public = folder == results_file.RESULTS
    drawn = plots.draw(whole["parts"], plots.IMAGES if public else folder)
    page = folder / "README.md"
    page.write_text(full(whole, [os.path.relpath(path, folder) for path in drawn]), "utf-8")
    written = [page, *drawn]
    for name in READMES if public else ():
        path = ROOT / name
        if BEGIN in path.read_text("utf-8"):
            inside = short(whole, [os.path.relpath(image, ROOT) for image in drawn])
            path.write_text(between_marks(path.read_text("utf-8"), inside), "utf-8")
            written.append(path)
    return written


def between_marks(text: str, inside: str) -> str:
    """A text with what stands between the two marks replaced."""
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return marked.sub(lambda _: f"{BEGIN}\n{inside}\n{END}", text, count=1)


def full(whole: Mapping[str, Any], pictures: Sequence[str]) -> str:
    """All tables."""
    versions = ", ".join(f"{name} {version}" for name, version in whole["versions"].items())
    lines = [
        "# Results",
        "",
        "Written by `python -m benchmarks report` from the JSON files beside it, which hold every round.",
        f"Machine: {whole['machine']}. Versions: {versions}.",
        "",
        "Contestants run in turn, each in its own process; a ratio is the median of the ratios of each",
        "round, with a 95% bootstrap interval. The sources of `benchmarks/` say what each number means.",
    ]
    for title, part in sorted(whole["parts"].items()):
        about = [
            f"{key}: {_cell(value)}" for key, value in part.items() if isinstance(value, int | float | str)
        ]
        lines += [
            "",
            f"## {title[0].upper()}{title[1:]}",
            "",
            "; ".join(about) + ".",
            "",
            table(part["rows"]),
        ]
    if pictures:
        lines += ["", "## Pictures", ""]
        lines += [f"![{Path(picture).stem}]({picture})" for picture in pictures]
    return "\n".join(lines) + "\n"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table.

    >>> print(table([{"who": "ours", "speed": 1234.5}]))
    | who | speed |
    |---|---|
    | ours | 1,234 |
    """
    heads = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(_cell(row.get(head, "")) for head in heads) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def short(whole: Mapping[str, Any], pictures: Sequence[str] = ()) -> str:
    """What the README shows: a line a question, tiny and base; and the pictures, in a row."""
    parts = whole["parts"]
    lines = [f"| {whole['machine']} | tiny | base |", "|---|---|---|"]
    for question, cell in QUESTIONS.items():
        cells = [cell(parts, preset) for preset in ("tiny", "base")]
        if any(found != NOTHING for found in cells):
            lines.append(f"| {question} | {' | '.join(cells)} |")
    if pictures:
        lines += ["", "| " + " | ".join(f"![{Path(picture).stem}]({picture})" for picture in pictures) + " |"]
        lines.append("|" + "---|" * len(pictures))
    return "\n".join(lines)


def best_peer(parts: Parts, preset: str, tuned: bool) -> str:
    """How many times as fast our training is as the fastest peer's."""
    ratios = parts.get(f"training, {preset}", {}).get("ratios", {})
    peers = {name: found for name, found in ratios.items() if name.endswith(", tuned") == tuned}
    if not peers:
        return NOTHING
    name = min(peers, key=lambda name: float(peers[name][0]))
    return f"{_ratio(peers[name])} ({name.removesuffix(', tuned')})"


def decoding(parts: Parts, preset: str, beams: int, who: str, against: str) -> str:
    rows = parts.get(f"decoding, {preset}, beam {beams}", {}).get("ratios", {})
    found = rows.get(who, {}).get(against)
    return NOTHING if found is None else _ratio(found)


def share_of_peak(parts: Parts, preset: str) -> str:
    rows = parts.get(f"training, {preset}", {}).get("rows", [])
    return str(rows[0].get("share of peak", NOTHING)) if rows else NOTHING


def quality(parts: Parts, preset: str) -> str:
    runs = parts.get("time to quality", {}).get("runs", {})
    if preset != "tiny" or not runs:
        return NOTHING
    return "; ".join(f"{name} {run['bleu']:.1f}" for name, run in runs.items())


def seconds(parts: Parts, what: str) -> str:
    rows = {row["what"]: row for row in parts.get("start-up", {}).get("rows", [])}
    return f"{rows[what]['seconds']:.2f} s" if what in rows else NOTHING


def _ratio(found: Sequence[float]) -> str:
    """
    >>> _ratio([1.456, 1.4, 1.5])
    '1.46×'
    """
    return f"{found[0]:.2f}×"


HF, CT2 = "Hugging Face generate", "CTranslate2 directly"
DEFAULT, DEFAULT_INT8, TORCH = (
    "Glassformer, default engine",
    "Glassformer, default engine, int8",
    "Glassformer, torch engine",
)
QUESTIONS: dict[str, Cell] = {
    "training, against the best peer as installed": lambda p, size: best_peer(p, size, tuned=False),
    "training, against the best peer with its allocator tuned": lambda p, size: best_peer(
        p, size, tuned=True
    ),
    "training, share of the machine's matrix-product peak": share_of_peak,
    "decoding with beam 4, default engine against Hugging Face": lambda p, s: decoding(p, s, 4, DEFAULT, HF),
    "… in int8": lambda p, s: decoding(p, s, 4, DEFAULT_INT8, HF),
    "… our own torch engine against Hugging Face": lambda p, s: decoding(p, s, 4, TORCH, HF),
    "… default engine against CTranslate2 called directly": lambda p, s: decoding(p, s, 4, DEFAULT, CT2),
    "validation BLEU after equal minutes on Multi30k": quality,
    "`glass --help`": lambda p, size: seconds(p, "glass --help") if size == "tiny" else NOTHING,
    "first translation from cold": lambda p, size: (
        seconds(p, "first translation, new process") if size == "tiny" else NOTHING
    ),
}
