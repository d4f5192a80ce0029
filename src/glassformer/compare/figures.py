"""The comparison in pictures: quality by length, learning over time, speed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.compare.result import Result, Row
from glassformer.look.drawing import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("-", "--", ":", "-.")
"""colours run out before contestants do"""
SMOOTH = 5
"""entries of metrics that share a point of a learning curve"""


def draw(result: Result, directory: Path) -> list[Path]:
    """Every figure that this comparison has numbers for, as PNG files."""
    figures = {"quality": quality_figure(result), "learning": learning_figure(result)}
    if any(row.pass_times for row in result.rows):
        figures["speed"] = speed_figure(result)
    if result.ablations:
        figures["parts"] = parts_figure(result)
    paths = []
    for name, figure in figures.items():
        paths.append(directory / f"{name}.png")
        figure.savefig(paths[-1], dpi=150, facecolor="white")
    return paths


def quality_figure(result: Result) -> Figure:
    """Quality against the length of the source; the dashed line is where training's lengths end."""
    middles = [(group.first + group.last) / 2 for group in result.groups]
    with drawing() as new:
        figure = new(8, 4.2)
        axes = figure.subplots()
        for number, row in enumerate(result.rows):
            if not row.trouble:
                style = DASHES[number // 5 % len(DASHES)]
                axes.plot(middles, row.by_group, style, marker="o", markersize=4, label=row.title)
        if any(group.longer for group in result.groups):
            axes.axvline(result.longest + 0.5, color="#b8bcc2", linestyle="--")
            axes.annotate(
                " longer than any in training",
                (result.longest + 0.5, 1),
                xycoords=("data", "axes fraction"),
                va="top",
                fontsize=8,
            )
        axes.set(xlabel="tokens of the source", ylabel=result.metric_label, ylim=(0, None))
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def learning_figure(result: Result) -> Figure:
    """Training loss against each contestant's own time."""
    with drawing() as new:
        figure = new(8, 4.2)
        axes = figure.subplots()
        for number, row in enumerate(result.rows):
            seconds, losses = _smoothed(row)
            axes.plot(seconds, losses, DASHES[number // 5 % len(DASHES)], label=row.title)
        axes.set(xlabel="seconds of training", ylabel="loss, nats a token", ylim=(0, None))
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _smoothed(row: Row) -> tuple[list[float], list[float]]:
    groups = [row.curve[at : at + SMOOTH] for at in range(0, len(row.curve), SMOOTH)]
    return (
        [group[-1][0] for group in groups],
        [sum(loss for _, loss in group) / len(group) for group in groups],
    )


def speed_figure(result: Result) -> Figure:
    """Left: tokens a second in training. Right: the time of one pass over one sentence, by its length."""
    with drawing() as new:
        figure = new(10, 3.8)
        left, right = figure.subplots(1, 2)
        _bars(left, result, [row.tokens_per_second for row in result.rows])
        left.set(xlabel="target tokens a second, in training")
        for row in result.rows:
            if row.pass_times:
                times = [1000 * seconds for seconds in row.pass_times.values()]
                right.plot(list(row.pass_times), times, marker="o", markersize=4, label=row.title)
        right.set_xscale("log", base=2)
        right.set_yscale("log")
        lengths = [length for row in result.rows for length in row.pass_times]
        right.set_xticks(sorted(set(lengths)), [str(length) for length in sorted(set(lengths))])
        right.set(xlabel="tokens on each side of one sentence", ylabel="milliseconds of one pass")
        right.legend(frameon=False, fontsize=8)
    return figure


def parts_figure(result: Result) -> Figure:
    """What each part is worth: quality without it."""
    with drawing() as new:
        figure = new(8, 0.9 + 0.32 * len(result.rows))
        axes = figure.subplots()
        _bars(axes, result, [row.quality for row in result.rows])
        axes.set(xlabel=f"{result.metric_label}, at the lengths of training")
    return figure


def _bars(axes: Axes, result: Result, values: list[float]) -> None:
    places = range(len(values))[::-1]
    axes.barh(list(places), values, height=0.6)
    axes.set_yticks(list(places), [row.title for row in result.rows], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    for place, value in zip(places, values, strict=True):
        axes.annotate(
            f" {value:,.1f}" if value < 1000 else f" {value:,.0f}", (value, place), va="center", fontsize=8
        )
