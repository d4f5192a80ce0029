"""Figures of the guide: what a small model learns, who sees whom in each family, what a search kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from glassformer.errors import RequestError
from glassformer.look.drawing import ACCENT, INK, cells, drawing, label, numbers
from glassformer.look.pack import unpack
from glassformer.look.six_words import PAIRS, TARGET, learn, predictions, six_words_batch, six_words_model
from glassformer.model.attention import causal_mask, softmax_where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAINT = "#b4b8bd"


def six_words_figure() -> Figure:
    """What should be said, and what is said before and after training: a row for each step."""
    batch, model = six_words_batch(), six_words_model()
    before = predictions(model, batch)
    learn(model, batch)
    after = predictions(model, batch)
    with drawing() as new:
        figure = new(9.6, 5.2)
        panels = figure.subplots(2, 3, height_ratios=[len(each) for each in before])
        for row, (source, target) in enumerate(PAIRS):
            steps = [*target.split(), "end"]
            wanted = torch.eye(6)[[TARGET.index(step) for step in steps]]
            shown = {"wanted": wanted, "untrained": before[row], "trained": after[row]}
            for axes, (title, probs) in zip(panels[row], shown.items(), strict=True):
                numbers(axes, probs, f"{source}: {title}", "Greens", 1)
                axes.set_xticks(range(6), TARGET[:6], rotation=35, ha="right", rotation_mode="anchor")
                axes.set_yticks(range(len(steps)), steps)
                axes.set(xlabel="", ylabel="")
    return figure


def family_figure(source: int = 3, target: int = 4) -> Figure:
    """One attention, three masks: who may see whom in an encoder, a decoder, and both together."""
    size = source + target
    everything = torch.ones(size, size, dtype=torch.bool)
    past = causal_mask(size, torch.device("cpu"))
    both = past.clone()
    both[:source, :source] = True
    with drawing() as new:
        figure = new(9.6, 3.6)
        panels = figure.subplots(1, 3)
        cells(panels[0], everything.float(), "encoder-only: everything", "is seen", "sees")
        cells(panels[1], past.float(), "decoder-only: the past", "is seen", "sees")
        cells(panels[2], both.float(), "encoder–decoder: source, then past", "is seen", "sees")
        names = [*(f"s{n + 1}" for n in range(source)), *(f"t{n + 1}" for n in range(target))]
        panels[2].set_xticks(range(size), names)
        panels[2].set_yticks(range(size), names)
    return figure


def errors_figure(seed: int = 2) -> Figure:
    """A causal mask done right, and two usual ways to do it wrong; the scores are those of `softmax`."""
    q_TK, k_TK = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(seed))
    scores_TT = q_TK @ k_TK.T / 8**0.5
    may_attend = causal_mask(4, torch.device("cpu"))
    zero_TT = scores_TT.masked_fill(~may_attend, 0.0).softmax(-1)
    late_TT = scores_TT.softmax(-1) * may_attend
    with drawing() as new:
        figure = new(9.6, 3.4)
        panels = figure.subplots(1, 3)
        numbers(panels[0], softmax_where(scores_TT, may_attend), "−∞, then softmax: right", "Greens", 1)
        numbers(panels[1], zero_TT, "0, then softmax: the future is seen", "Greens", 1)
        numbers(panels[2], late_TT, "softmax, then 0: rows fall short of 1", "Greens", 1)
    return figure


def word_figure(trace: dict[str, Any], word: str) -> Figure:
    """Where a word of the source looks: a row for each head of the encoder, a panel for each occurrence."""
    text, spans = trace["source"]["text"], trace["source"]["spans"]
    places = [at for at in range(len(text)) if word and text.startswith(word, at)]
    if not places:
        raise RequestError(f"word = {word!r} does not occur in {text!r}")
    pieces = [label(piece) for piece in trace["source"]["pieces"]]
    heads_XSS, rows = _encoder_heads(trace)
    with drawing([*pieces, word]) as new:
        figure = new(1.8 + 0.42 * len(pieces), 0.4 + (1.1 + 0.2 * len(rows)) * len(places))
        panels = figure.subplots(len(places), 1, squeeze=False)[:, 0]
        for axes, start in zip(panels, places, strict=True):
            own = [at for at, (a, b) in enumerate(spans) if a < start + len(word) and b > start]
            image = axes.imshow(heads_XSS[:, own].mean(1), cmap="Greens", vmin=0, vmax=1, aspect="auto")
            axes.set_xticks(range(len(pieces)), pieces, rotation=55, ha="left", rotation_mode="anchor")
            axes.set_yticks(range(len(rows)), rows, fontsize=8)
            axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
            axes.spines[:].set_visible(False)
            for at in own:
                axes.get_xticklabels()[at].set(color=ACCENT, weight="bold")
            axes.set_ylabel("layer.head")
            axes.set_xlabel(f"from {word}" if len(places) == 1 else f"from {word}, character {start + 1}")
        figure.colorbar(image, ax=list(panels), shrink=0.8)
    return figure


def _encoder_heads(trace: dict[str, Any]) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Weights of all heads of the encoder, one on top of the other, and what to call them, counted from 1."""
    layers = [place for place in trace["attention"] if place.startswith("encoder.")]
    weights = [unpack(trace["attention"][place]) for place in layers]
    names = [f"{layer}.{head}" for layer, each in enumerate(weights, 1) for head in range(1, len(each) + 1)]
    return np.concatenate(weights), names


def beam_figure(trace: dict[str, Any]) -> Figure:
    """The beam tree: what was looked at (grey), kept (black), and what won; boxes are finished sentences."""
    nodes = trace["beam"]["nodes"]
    steps, ranks = (1 + max(node[key] for node in nodes) for key in ("step", "rank"))
    with drawing([node["piece"] for node in nodes]) as new:
        figure = new(1 + 1.4 * steps, 0.8 + 0.36 * ranks)
        axes = figure.subplots()
        for node in nodes:
            chosen = node["winner"]
            colour = ACCENT if chosen else INK if node["kept"] or node["closed"] else FAINT
            if node["parent"] >= 0:
                before = nodes[node["parent"]]
                across, down = (before["step"] + 0.34, node["step"] - 0.34), (before["rank"], node["rank"])
                axes.plot(across, down, color=colour, linewidth=2.2 if chosen else 0.7)
            axes.text(
                node["step"],
                node["rank"],
                f"{label(node['piece'])} {node['sum']:.1f}",
                color=colour,
                weight="bold" if chosen else "normal",
                ha="center",
                va="center",
                fontsize=8,
                bbox={"facecolor": "none", "edgecolor": colour, "pad": 2} if node["closed"] else None,
            )
        axes.set(xlim=(-0.5, steps - 0.5), ylim=(ranks - 0.4, -0.6), xlabel="step", ylabel="rank")
        axes.set_xticks(range(steps), [str(step + 1) for step in range(steps)])
        axes.set_yticks(range(ranks), [str(rank + 1) for rank in range(ranks)])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure
