"""What a head does, read off its weights: how much of its attention goes where."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SELF = ("previous", "next", "same", "first", "punctuation")
"""patterns of attention within a sentence"""
CROSS = ("diagonal", "first", "punctuation")
"""patterns of attention over the source"""
LABEL_FROM = 0.4
"""share of the attention, averaged over the rows, from which a head is called after a pattern"""


@dataclass(frozen=True)
class Marks:
    """Which tokens of a sentence are punctuation, or its end."""

    punctuation_S: Tensor

    @classmethod
    def of(cls, pieces: Sequence[str]) -> Marks:
        return cls(torch.tensor([is_punctuation(piece) for piece in pieces]))


def is_punctuation(piece: str) -> bool:
    """Only marks and symbols, or the end of the sentence.

    >>> [is_punctuation(piece) for piece in ["▁.", "。", "</s>", "▁don't", "▁"]]
    [True, True, True, False, False]
    """
    text = piece.lstrip("▁")
    return piece == "</s>" or (bool(text) and all(unicodedata.category(c)[0] in "PS" for c in text))


def shares(weights_HTS: Tensor, marks: Marks, *, cross: bool) -> dict[str, Tensor]:
    """For each pattern the share of attention that follows it, row by row, as share_HT.

    Rows where a pattern says nothing are NaN: the first token has none before it, and in a decoder it can
    attend nothing but itself.
    """
    heads, rows, columns = weights_HTS.shape
    found = {"punctuation": weights_HTS[..., marks.punctuation_S.to(weights_HTS.device)].sum(-1)}
    if cross:
        found["first"] = weights_HTS[..., 0]
        found["diagonal"] = (weights_HTS * _band(rows, columns).to(weights_HTS)).sum(-1)
        return found
    nothing_H1 = weights_HTS.new_full((heads, 1), float("nan"))
    found["previous"] = torch.cat([nothing_H1, weights_HTS.diagonal(-1, 1, 2)], 1)
    found["next"] = torch.cat([weights_HTS.diagonal(1, 1, 2), nothing_H1], 1)
    found["same"] = torch.cat([nothing_H1, weights_HTS.diagonal(0, 1, 2)[:, 1:]], 1)
    beyond = min(2, rows)  # for the second token, the first one is also the previous one
    found["first"] = torch.cat([nothing_H1.expand(-1, beyond), weights_HTS[:, beyond:, 0]], 1)
    return found


def _band(rows: int, columns: int) -> Tensor:
    """1 near the line from the first pair of tokens to the last: half a token, and 1/20 of the source."""
    expected_T1 = torch.arange(rows)[:, None] * ((columns - 1) / max(1, rows - 1))
    return ((torch.arange(columns) - expected_T1).abs() <= 0.5 + columns / 20).float()


def entropy(weights_HTS: Tensor) -> Tensor:
    """How widely each row spreads, from 0 (one token) to 1 (all alike), as entropy_HT.

    >>> entropy(torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])).abs().tolist()
    [[0.0, 1.0]]
    """
    columns = weights_HTS.shape[-1]
    nats_HT = -torch.xlogy(weights_HTS, weights_HTS).sum(-1)
    return nats_HT / torch.tensor(float(max(2, columns))).log()


@dataclass(frozen=True)
class Profile:
    """What one head does, averaged over rows (and sentences)."""

    scores: dict[str, float]
    """pattern → share of the attention that follows it"""
    entropy: float
    label: str
    """the strongest pattern, if it is strong; else empty"""

    @property
    def score(self) -> float:
        return self.scores.get(self.label, 0.0)


def profiles(sums: dict[str, Tensor], counts: dict[str, Tensor]) -> list[Profile]:
    """One profile a head, from sums_H and counts_H of each pattern and of the entropy."""
    means = {name: (sums[name] / counts[name].clamp(min=1)).tolist() for name in sums}
    found = []
    for head in range(len(means["entropy"])):
        scores = {name: values[head] for name, values in means.items() if name != "entropy"}
        best = max(scores, key=lambda name: scores[name])
        label = best if scores[best] >= LABEL_FROM else ""
        found.append(Profile(scores, means["entropy"][head], label))
    return found


def tally(weights_HTS: Tensor, marks: Marks, *, cross: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Sums over the rows of one sentence and how many rows each sum holds: tallies of sentences add up."""
    rows = {**shares(weights_HTS, marks, cross=cross), "entropy": entropy(weights_HTS)}
    sums = {name: share_HT.nansum(1) for name, share_HT in rows.items()}
    counts = {name: (~share_HT.isnan()).sum(1) for name, share_HT in rows.items()}
    return sums, counts
