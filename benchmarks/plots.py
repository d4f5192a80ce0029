"""The results as pictures: bars of speed, how costs grow, BLEU over time. In docs/images, for the README."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.look.drawing import ACCENT, COLOURS, INK, drawing

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
OTHERS = "#b8bcc2"
DPI = 90


def draw(parts: Mapping[str, Mapping[str, Any]], folder: Path = IMAGES) -> list[Path]:
    """Every picture that the results have the numbers for."""
    drawn = []
    training = {title: part for title, part in parts.items() if title.startswith("training")}
    decoding = {t: p for t, p in parts.items() if t.startswith("decoding") and t.endswith("beam 4")}
    if training:
        drawn.append(bars(training, "target tokens/s", folder / "bench-training.png"))
    if decoding:
        drawn.append(bars(decoding, "sentences/s", folder / "bench-decoding.png"))
    if "growth" in parts:
        drawn.append(growth(parts["growth"], folder / "bench-growth.png"))
    if "time to quality" in parts:
        drawn.append(quality(parts["time to quality"], folder / "bench-quality.png"))
    return drawn


def bars(parts: Mapping[str, Mapping[str, Any]], key: str, to: Path) -> Path:
    """One panel a part: who reached how much. Ours in colour."""
    rows = max(len(part["rows"]) for part in parts.values())
    with drawing() as figure_of:
        figure = figure_of(4.6 * len(parts), 0.7 + 0.28 * rows)
        panels = figure.subplots(1, len(parts), squeeze=False)[0]
        for axes, (title, part) in zip(panels, parts.items(), strict=True):
            quoted = [row for row in part["rows"] if isinstance(row[key], int | float)][::-1]
            names = [row["contestant"] for row in quoted]
            colours = [ACCENT if name.startswith("Glassformer") else OTHERS for name in names]
            shown = axes.barh(names, [row[key] for row in quoted], color=colours)
            axes.bar_label(shown, fmt="{:,.0f}", padding=3, fontsize=8)
            axes.set_title(f"{title}: {key}", fontsize=9)
            axes.tick_params(labelsize=8, length=0)
            axes.set_xticks([])
            axes.margins(x=0.14)
            axes.spines["bottom"].set_visible(False)
        return _saved(figure, to)


def growth(part: Mapping[str, Any], to: Path) -> Path:
    """One panel a quantity: points as measured, the fitted power of it as a line."""
    rows = part["rows"]
    with drawing() as figure_of:
        figure = figure_of(9.6, 2.5 * ((len(rows) + 2) // 3))
        panels = figure.subplots((len(rows) + 2) // 3, 3, squeeze=False).flat
        for axes, row in zip(panels, rows, strict=False):
            points = part["points"][row["against"]]
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            axes.loglog(xs, ys, "o", color=ACCENT, markersize=4)
            # A line of least squares goes through the means, here of logarithms.
            across, up = statistics.geometric_mean(xs), statistics.geometric_mean(ys)
            line = [up * (x / across) ** row["exponent"] for x in xs]
            axes.loglog(xs, line, color=INK, linewidth=0.8, label=f"∝ x^{row['exponent']:.2f}")
            axes.set_xlabel(row["against"], fontsize=8)
            axes.set_ylabel(row["cost"], fontsize=8)
            axes.set_xticks(xs, [f"{x:,}" for x in xs], minor=False)
            axes.set_xticks([], minor=True)
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}" if max(ys) < 10 * min(ys) else "")
            axes.tick_params(labelsize=7, which="both")
            axes.legend(fontsize=8, frameon=False)
        for axes in list(panels)[len(rows) :]:
            axes.set_visible(False)
        return _saved(figure, to)


def quality(part: Mapping[str, Any], to: Path) -> Path:
    """Validation BLEU over the minutes of training."""
    with drawing() as figure_of:
        figure = figure_of(6.0, 3.2)
        axes = figure.subplots()
        for colour, (name, run) in zip(COLOURS, part["runs"].items(), strict=False):
            minutes = [point["seconds"] / 60 for point in run["curve"]]
            axes.plot(
                minutes, [point["bleu"] for point in run["curve"]], "o-", color=colour, label=name, ms=3
            )
        axes.set(xlabel="minutes of training on this machine", ylabel="validation BLEU (greedy)")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8, frameon=False)
        return _saved(figure, to)


def _saved(figure: Any, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=DPI, metadata={"Software": None})
    return to
