"""The figures that people know from the tutorials, each by one function and one command.

    plot("positions", "positions.svg")        # or: glass plot positions --out positions.svg
    attention_figure(trace, place="decoder.0.cross", head=2).savefig("head.png")

Every function returns a matplotlib Figure and draws on no screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from glassformer.errors import RequestError
from glassformer.look.basics import BASICS, heads_figure, token_labels
from glassformer.look.drawing import cells, drawing, numbers
from glassformer.look.lessons import beam_figure, errors_figure, family_figure, six_words_figure, word_figure
from glassformer.look.pack import unpack
from glassformer.look.uses import uses_figure
from glassformer.model.attention import attend, causal_mask
from glassformer.model.positions import sinusoids
from glassformer.model.state import may_attend_lengths
from glassformer.train.curves import plot_curves
from glassformer.train.optim import build_schedule, noam

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def positions_figure(width: int = 20, length: int = 100, dimensions: Sequence[int] = (4, 5, 6, 7)) -> Figure:
    """Sinusoidal positions (section 3.5): each dimension is a wave of its own length."""
    table_TD = sinusoids(length, width)
    with drawing() as new:
        figure = new(8, 3.6)
        axes = figure.subplots()
        for dimension in dimensions:
            axes.plot(table_TD[:, dimension].numpy(), label=f"dimension {dimension}")
        axes.set(xlabel="position", ylabel="PE(position, dimension)", xlim=(0, length - 1))
        figure.legend(loc="outside upper center", ncols=len(dimensions), frameon=False)
    return figure


def positions_map_figure(width: int = 128, length: int = 100) -> Figure:
    """The whole table of positions: slow waves on the right, fast ones on the left."""
    with drawing() as new:
        figure = new(8, 4.2)
        axes = figure.subplots()
        image = axes.imshow(sinusoids(length, width).numpy(), cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        axes.set(xlabel="dimension", ylabel="position")
        figure.colorbar(image, ax=axes)
    return figure


def masks_figure(lengths: Sequence[int] = (7, 5, 3), size: int = 7) -> Figure:
    """Who may attend whom: padding hides what is no sentence, causality hides the future."""
    padding = may_attend_lengths(torch.tensor(lengths), size)
    padding_BS = torch.ones(len(lengths), size) if padding is None else padding[:, 0, 0].float()
    causal_TT = causal_mask(size, torch.device("cpu"))
    both_TT = causal_mask(size, torch.device("cpu"), padding_BS[1].bool())
    with drawing() as new:
        figure = new(9, 3.2)
        panels = figure.subplots(1, 3)
        cells(panels[0], padding_BS, "padding: one row a sentence", "key", "sentence")
        cells(panels[1], causal_TT.float(), "causal: one row a query", "key", "query")
        cells(panels[2], both_TT.float(), f"both, sentence of {lengths[1]}", "key", "query")
    return figure


def softmax_figure(seed: int = 2) -> Figure:
    """4×4 scores → mask → softmax: what is masked gets exactly nothing."""
    generator = torch.Generator().manual_seed(seed)
    q_TK, k_TK = torch.randn(2, 4, 8, generator=generator)
    scores_TT = q_TK @ k_TK.T / 8**0.5
    may_attend = causal_mask(4, torch.device("cpu"))
    weights_TT = attend(q_TK, k_TK, k_TK, may_attend)[1]
    with drawing() as new:
        figure = new(9.6, 3.4)
        panels = figure.subplots(1, 3)
        masked_TT = scores_TT.masked_fill(~may_attend, float("-inf"))
        numbers(panels[0], scores_TT, "scores  QKᵀ/√d_k", "RdBu_r", 2)
        numbers(panels[1], masked_TT, "masked", "RdBu_r", 2)
        numbers(panels[2], weights_TT, "softmax: rows add up to 1", "Greens", 1)
    return figure


def attention_figure(trace: dict[str, Any], place: str = "", head: int | None = None) -> Figure:
    """The attention of a sentence: one head, or the mean of all; by default the decoder's over the source,
    last layer but one."""
    crosses = [name for name in trace["attention"] if name.endswith(".cross")]
    place = place or crosses[max(0, len(crosses) - 2)]
    if place not in trace["attention"]:
        raise RequestError(f"place = {place!r}: there is {', '.join(trace['attention'])}")
    weights_HTS = unpack(trace["attention"][place])
    if head is not None and not 0 <= head < len(weights_HTS):
        raise RequestError(f"head = {head}: {place} has the heads 0 to {len(weights_HTS) - 1}")
    weights_TS = weights_HTS.mean(0) if head is None else weights_HTS[head]
    rows, columns = token_labels(trace, place)
    with drawing([*rows, *columns]) as new:
        figure = new(1.6 + 0.42 * len(columns), 1.5 + 0.38 * len(rows))
        axes = figure.subplots()
        image = axes.imshow(weights_TS, cmap="Greens", vmin=0, vmax=1)
        axes.set_xticks(range(len(columns)), columns, rotation=55, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(f"{place}, {'mean of heads' if head is None else f'head {head + 1}'}")
        figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def schedules_figure(steps: int = 20_000) -> Figure:
    """Learning rates: Eq. 3 for three widths and warm-ups, and the other schedules."""
    at = range(1, steps + 1, max(1, steps // 1000))
    with drawing() as new:
        figure = new(9.6, 3.4)
        left, right = figure.subplots(1, 2)
        for width, warmup in ((512, 4000), (512, 8000), (256, 4000)):
            rate = noam(width, warmup)
            left.plot(at, [rate(step, 0.0) for step in at], label=f"width {width}, warm-up {warmup}")
        left.set_title("noam (Eq. 3)", fontsize=10)
        for name in ("inverse_sqrt", "cosine", "linear", "constant"):
            rate = build_schedule(name, peak=0.002, warmup=steps // 10, final=0.0, width=512)
            right.plot(at, [rate(step, step / steps) for step in at], label=name)
        right.set_title("others, peak 0.002", fontsize=10)
        for axes in (left, right):
            axes.set(xlabel="update", ylabel="learning rate", ylim=(0, None))
            axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
        left.legend(frameon=False)
        right.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.13, 0.0))
    return figure


def saturation_figure(keys: int = 16, trials: int = 400, seed: int = 0) -> Figure:
    """Why √d_k: dot products grow with the width, the softmax saturates, and its gradient dies."""
    generator = torch.Generator().manual_seed(seed)
    widths = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
    largest: dict[str, list[float]] = {"q·k": [], "q·k / √d_k": []}
    slope: dict[str, list[float]] = {"q·k": [], "q·k / √d_k": []}
    for width in widths:
        q_BK = torch.randn(trials, 1, width, generator=generator)
        k_BSK = torch.randn(trials, keys, width, generator=generator)
        scores_BS = (q_BK @ k_BSK.mT)[:, 0]
        for name, factor in (("q·k", 1.0), ("q·k / √d_k", width**-0.5)):
            p_BS = (scores_BS * factor).softmax(-1)
            largest[name].append(float(p_BS.amax(-1).mean()))
            slope[name].append(float((p_BS * (1 - p_BS)).sum(-1).mean()))
    with drawing() as new:
        figure = new(9.6, 3.4)
        left, right = figure.subplots(1, 2)
        for name in largest:
            left.plot(widths, largest[name], marker="o", label=name)
            right.plot(widths, slope[name], marker="o", label=name)
        left.set_title(f"largest of {keys} weights", fontsize=10)
        right.set_title("slope of the softmax, Σ p (1 − p)", fontsize=10)
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set(xlabel="d_k", ylim=(0, 1.02))
            axes.legend(frameon=False)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "positions": positions_figure,
    "positions_map": positions_map_figure,
    "masks": masks_figure,
    "softmax": softmax_figure,
    "schedules": schedules_figure,
    "saturation": saturation_figure,
    **BASICS,
    "six_words": six_words_figure,
    "family": family_figure,
    "errors": errors_figure,
    "uses": uses_figure,
}
"""figures that need nothing but their name"""
NAMES = (*FIGURES, "attention", "heads", "word", "beam", "training")
SUFFIXES = (".png", ".svg", ".pdf")


def plot(
    name: str,
    out: str | Path,
    *,
    trace: dict[str, Any] | None = None,
    place: str = "",
    head: int | None = None,
    word: str = "",
    metrics: str | Path | None = None,
) -> Path:
    """Draw one figure into a file; .png, .svg or .pdf, by its name.

    `attention`, `heads`, `word` and `beam` need a trace, `training` the metrics.jsonl of a run.
    """
    out = Path(out)
    if name not in NAMES:
        raise RequestError(f"there is no figure {name!r}; there is {', '.join(NAMES)}")
    if out.suffix.lower() not in SUFFIXES:
        raise RequestError(f"{out}: figures are written as {', '.join(SUFFIXES)}")
    if name == "training":
        if metrics is None or not Path(metrics).is_file():
            raise RequestError(f"training curves need the metrics.jsonl of a run; there is none at {metrics}")
        with drawing():
            if plot_curves(Path(metrics), out) is None:
                raise RequestError(f"{metrics} holds nothing to draw yet")
        return out
    if name in FIGURES:
        figure = FIGURES[name]()
    elif trace is None:
        raise RequestError(f"{name} needs a sentence: glass plot {name} --text '…'")
    else:
        drawn = {
            "attention": lambda: attention_figure(trace, place, head),
            "heads": lambda: heads_figure(trace, place),
            "word": lambda: word_figure(trace, word),
            "beam": lambda: beam_figure(trace),
        }
        figure = drawn[name]()
    figure.savefig(out, dpi=150, facecolor="white")
    return out
