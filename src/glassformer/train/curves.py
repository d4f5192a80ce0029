"""Loss, BLEU and learning rate as a picture, from metrics.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.train.report import read_metrics

PANELS = (
    ("loss", (("train", "nll", "training"), ("valid", "loss", "validation"))),
    ("BLEU", (("valid", "bleu", "validation"),)),
    ("learning rate", (("train", "rate", ""),)),
)


def plot_curves(metrics: Path, picture: Path) -> Path | None:
    """Write a PNG; None if matplotlib is not installed or there is nothing to show."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    entries = read_metrics(metrics)
    panels = [(title, found) for title, lines in PANELS if (found := _points(entries, lines))]
    if not panels:
        return None
    figure = Figure(figsize=(7, 2.6 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (title, lines) in zip(axes, panels, strict=True):
        for label, steps, values in lines:
            axis.plot(steps, values, label=label or None, marker="." if len(steps) < 30 else None)
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
        if any(label for label, _, _ in lines):
            axis.legend()
    axes[-1].set_xlabel("updates")
    figure.savefig(picture, dpi=120)
    return picture


def _points(entries: list[dict[str, Any]], lines: Any) -> list[tuple[str, list[int], list[float]]]:
    found = []
    for kind, key, label in lines:
        points = [(e["step"], e[key]) for e in entries if e.get("kind") == kind and e.get(key) is not None]
        if points:
            found.append((label, [step for step, _ in points], [value for _, value in points]))
    return found
