"""Four uses of one set of weights, trained together on sums of two digits; and the figure that shows them.

The sentences are "3 + 4 = 7": left to right the answer follows from the question, and a hidden digit follows
from the other two. Nothing but the ranks of the tokens, and so the mask, is different between the uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.look.drawing import cells, drawing
from glassformer.model.build import build_reader
from glassformer.model.families import Reader
from glassformer.model.masks import (
    hidden_ranks,
    left_to_right_ranks,
    may_attend_ranks,
    permuted_ranks,
    prefix_ranks,
    read_in_order,
)
from glassformer.train.loss import smoothed_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS = ["</s>", "<unk>", *map(str, range(19)), "+", "=", "<pad>"]
LENGTH, ANSWER = 5, 4
"""tokens of a sum, and where its answer stands"""
USES = ("hidden words", "left to right", "prefix", "permuted order")


def sums() -> Tensor:
    """ids_BT of all hundred sums of two digits."""
    rows = [f"{a} + {b} = {a + b}".split() for a in range(10) for b in range(10)]
    return torch.tensor([[SYMBOLS.index(symbol) for symbol in row] for row in rows])


def new_model(seed: int = 0) -> Reader:
    torch.manual_seed(seed)
    last = len(SYMBOLS) - 1
    vocabulary = VocabularyConfig(len(SYMBOLS), len(SYMBOLS), source_pad=last, target_pad=last, start=last)
    shape = ModelConfig(
        encoder_layers=2,
        width=64,
        feed_forward=128,
        heads=4,
        norm="pre",
        dropout=0.0,
        attention_dropout=0.0,
        positions="learned",
        max_length=LENGTH,
    )
    return build_reader("masked_language_model", shape, vocabulary)


def draw_ranks(use: str, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ranks for a batch, and which tokens are to be guessed, True."""
    if use == "hidden words":
        place_B1 = torch.randint(0, 3, (batch, 1), generator=generator) * 2  # a digit or the answer
        hidden_BT = torch.zeros(batch, LENGTH, dtype=torch.bool).scatter(1, place_B1, True)
        return hidden_ranks(hidden_BT), hidden_BT
    if use == "prefix":
        ranks_BT = prefix_ranks([ANSWER] * batch, LENGTH)
        return ranks_BT, ranks_BT > 0
    ranks_BT = left_to_right_ranks(batch, LENGTH)
    if use == "permuted order":
        ranks_BT = permuted_ranks(batch, LENGTH, generator)
    return ranks_BT, torch.ones_like(ranks_BT, dtype=torch.bool)


def learn(model: Reader, steps: int = 600, seed: int = 0) -> None:
    """Train all four uses together: each update takes a quarter of its sentences from every one."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    every = sums()
    model.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.004 * min(1, (step + 1) / 50) * (1 - step / steps)
        ids_BT = every[torch.randint(0, len(every), (128,), generator=generator)]
        drawn = [draw_ranks(use, 32, generator) for use in USES]
        ranks_BT, wanted_BT = (torch.cat(parts) for parts in zip(*drawn, strict=True))
        guesses_BTD = read_in_order(model, ids_BT, ranks_BT)[1]
        weight, pad = model.output_weight, model.vocabulary.target_pad
        states_ND, targets_N = guesses_BTD[wanted_BT], ids_BT[wanted_BT]
        loss, _ = smoothed_loss(states_ND, weight, None, targets_N, smoothing=0.0, excluded=pad)
        optimizer.zero_grad()
        (loss / wanted_BT.sum()).backward()
        optimizer.step()
    model.eval()


@torch.no_grad()
def log_probs(model: Reader, ids_BT: Tensor, ranks_BT: Tensor) -> Tensor:
    """log_probs_BT of each token, guessed from those of lower rank."""
    guesses_BTD = read_in_order(model, ids_BT, ranks_BT)[1]
    return model.output(guesses_BTD).log_softmax(-1).gather(-1, ids_BT[..., None])[..., 0]


def uses_figure() -> Figure:
    """Above: who sees whom in each use. Below: how likely the model finds each token of 3 + 4 = 7."""
    model = new_model()
    learn(model)
    ids_BT = sums()[34:35]
    names = [SYMBOLS[i] for i in ids_BT[0]]
    hidden_BT = torch.tensor([[False, False, True, False, False]])
    ranks = {
        "hidden words": hidden_ranks(hidden_BT),
        "left to right": left_to_right_ranks(1, LENGTH),
        "prefix": prefix_ranks([ANSWER], LENGTH),
        "permuted order": torch.tensor([[3, 1, 2, 0, 4]]),
    }
    guessed = {**dict.fromkeys(ranks, torch.ones(LENGTH, dtype=torch.bool)), "hidden words": hidden_BT[0]}
    guessed["prefix"] = ranks["prefix"][0] > 0
    with drawing() as new:
        figure = new(13, 6.2)
        panels = figure.subplots(2, 4, height_ratios=[3, 1])
        for column, (use, ranks_BT) in enumerate(ranks.items()):
            may_QQ = may_attend_ranks(ranks_BT)[0, 0].float()
            cells(panels[0, column], may_QQ, use, "is seen", "sees")
            labels = [*names, *(f"{name}?" for name in names)]
            panels[0, column].set_xticks(range(2 * LENGTH), labels, fontsize=7)
            panels[0, column].set_yticks(range(2 * LENGTH), labels, fontsize=7)
            shown = log_probs(model, ids_BT, ranks_BT)[0].exp().masked_fill(~guessed[use], 0.0)
            panels[1, column].bar(range(LENGTH), shown.tolist())
            panels[1, column].set_xticks(
                range(LENGTH), [name if guessed[use][at] else f"({name})" for at, name in enumerate(names)]
            )
            panels[1, column].set(ylim=(0, 1.05), ylabel="probability" if column == 0 else "")
    return figure
