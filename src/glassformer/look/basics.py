"""Figures for the guide's first chapters: forgetting, four words, heads side by side, scores over a plane."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from glassformer.errors import RequestError
from glassformer.look.drawing import drawing, label, numbers
from glassformer.look.pack import unpack
from glassformer.model.attention import HeadShape, SelfAttention, attend
from glassformer.model.positions import Positions
from glassformer.model.scores import Additive, Bilinear, ScaledDot, Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORDS = ("思考", "编程", "很", "有趣")
"""the four words whose embeddings are the numbers 1 to 16"""


def forgetting_figure(length: int = 60, width: int = 64, seed: int = 0) -> Figure:
    """Why seq2seq forgets: how strongly each word still moves the last state, before any training.

    A recurrent network passes every word on through all later steps; attention reaches each in one.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        plain, careful = nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        for name in ("bias_ih_l0", "bias_hh_l0"):  # gates stand in the order input, forget, cell, output
            nn.init.constant_(getattr(careful, name)[width : 2 * width], 0.5)
        attention = SelfAttention(HeadShape(width, heads=1), Positions())
        x_BTD = torch.randn(32, length, width, requires_grad=True)
    lines = {
        "LSTM": plain(x_BTD)[0],
        "LSTM, forget gate's bias 1": careful(x_BTD)[0],
        "self-attention": attention(x_BTD),
    }
    with drawing() as new:
        figure = new(8, 3.6)
        axes = figure.subplots()
        for name, states_BTD in lines.items():
            influence_T = _influence(states_BTD[:, -1], x_BTD)[:-1]
            axes.plot(range(length - 1, 0, -1), influence_T / influence_T[-1], label=name)
        axes.set_yscale("log")
        axes.set(xlabel="words between a word and the end", ylabel="influence (nearest = 1)", ylim=(1e-8, 10))
        axes.legend(frameon=False, loc="lower left")
    return figure


def _influence(last_BD: Tensor, x_BTD: Tensor) -> Tensor:
    """The mean size of the gradient that comes from the last state to each word."""
    (gradient_BTD,) = torch.autograd.grad(last_BD.sum(), x_BTD)
    return gradient_BTD.norm(dim=-1).mean(0)


def words_figure() -> Figure:
    """Four words attend each other: scores → weights → output; embeddings 1 to 16, and a tenth of them."""
    x_TD = torch.arange(1.0, 17).reshape(4, 4)
    with drawing(WORDS) as new:
        figure = new(8.4, 5.4)
        for row, (panels, scale) in enumerate(zip(figure.subplots(2, 3), (1.0, 0.1), strict=True)):
            e_TD = x_TD * scale
            output_TD, weights_TT = attend(e_TD, e_TD, e_TD)
            scores_TT = ScaledDot(4)(e_TD, e_TD)
            of = "1 … 16" if row == 0 else "0.1 … 1.6"
            numbers(panels[0], scores_TT, f"embeddings {of}: scores", "RdBu_r", 1.5 * float(scores_TT.max()))
            numbers(panels[1], weights_TT, "weights: rows add up to 1", "Greens", 1)
            numbers(panels[2], output_TD, "output", "RdBu_r", 30 * scale)
            for panel in panels:
                panel.set_yticks(range(4), WORDS)
                panel.set(xlabel="", ylabel="")
            for panel in panels[:2]:
                panel.set_xticks(range(4), WORDS)
    return figure


def scores_figure(seed: int = 3) -> Figure:
    """Scores of one query with keys all over a plane: dot, bilinear, additive; the last two untrained."""
    side = torch.linspace(-3, 3, 121)
    k_SK = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1).flatten(0, 1)
    q_TK = torch.tensor([[1.5, 0.5]])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        kinds: dict[str, Score] = {
            "dot  q·k / √d": ScaledDot(2),
            "bilinear  q W kᵀ / √d": Bilinear(1, 2, 2),
            "additive  aᵀ tanh(q W + k U)": Additive(1, 2, 2, hidden=8),
        }
    with drawing() as new:
        figure = new(10.2, 3.1)
        for axes, (name, score) in zip(figure.subplots(1, 3), kinds.items(), strict=True):
            map_SS = score(q_TK[None, None], k_SK[None, None]).detach().reshape(121, 121)
            most = float(map_SS.abs().max())
            image = axes.contourf(side, side, map_SS, levels=21, cmap="RdBu_r", vmin=-most, vmax=most)
            axes.annotate("", q_TK[0].tolist(), (0, 0), arrowprops={"arrowstyle": "->", "lw": 1.6})
            axes.text(1.6, 0.6, "q")
            axes.set_title(name, fontsize=10)
            axes.set(xlabel="key, first number", ylabel="key, second number", aspect="equal")
            figure.colorbar(image, ax=axes, shrink=0.66)
    return figure


def heads_figure(trace: dict[str, Any], place: str = "") -> Figure:
    """All heads of one place side by side; by default the encoder's last layer."""
    place = place or [name for name in trace["attention"] if name.startswith("encoder")][-1]
    if place not in trace["attention"]:
        raise RequestError(f"place = {place!r}: there is {', '.join(trace['attention'])}")
    weights_HTS = unpack(trace["attention"][place])
    rows, columns = token_labels(trace, place)
    across = min(4, len(weights_HTS))
    down = math.ceil(len(weights_HTS) / across)
    with drawing([*rows, *columns]) as new:
        figure = new(0.6 + across * (0.4 + 0.22 * len(columns)), 0.4 + down * (0.6 + 0.24 * len(rows)))
        panels = figure.subplots(down, across, sharey=True, squeeze=False).flat
        for number, axes in enumerate(panels):
            axes.set_visible(number < len(weights_HTS))
            if number < len(weights_HTS):
                axes.imshow(weights_HTS[number], cmap="Greens", vmin=0, vmax=1)
                axes.set_title(f"{place}, head {number + 1}", fontsize=9)
                axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
                axes.set_yticks(range(len(rows)), rows, fontsize=8)
                axes.tick_params(length=0)
                axes.spines[:].set_visible(False)
    return figure


def token_labels(trace: dict[str, Any], place: str) -> tuple[list[str], list[str]]:
    """What the rows and the columns of the weights at a place stand for."""
    source, said = ([label(piece) for piece in trace[side]["pieces"]] for side in ("source", "target"))
    read = ["<start>", *said[:-1]]
    columns = read if place.startswith("decoder") and place.endswith(".self") else source
    return source if place.startswith("encoder") else said if place.endswith(".cross") else read, columns


BASICS: dict[str, Callable[[], Figure]] = {
    "forgetting": forgetting_figure,
    "words": words_figure,
    "scores": scores_figure,
}
"""figures that need nothing but their name"""
