"""What is minimised: one nn.Module a task, forward(batch) → sums over the batch.

Sums, not means: pieces of a batch, accumulated batches and shares of several processes then simply add up,
and the loop divides once by the number of tokens in the whole update. DDP and torch.compile wrap this module
and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.data.batch import Batch
from glassformer.model.families import Classifier, LanguageModel, Reader
from glassformer.model.seq2seq import Seq2Seq
from glassformer.train.loss import smoothed_loss


class Losses(NamedTuple):
    """Sums over the real target tokens of a batch."""

    loss_sum: Tensor
    """what is minimised"""
    nll_sum: Tensor
    """plain negative log-likelihood in nats, without gradient: comparable between any two settings"""
    tokens: int
    """target tokens, ends of sentence included, padding not"""


class ReaderObjective(nn.Module):
    """What the rest of the family minimises: the same loss, over the places that have a target.

    `target_out_BT` holds -1 where nothing is to be said: at words that were not hidden, at the second and
    later pieces of a word that has a tag.
    """

    def __init__(self, model: Reader, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, batch: Batch) -> Losses:
        states_ND, targets_N = self.places(batch)
        loss, nll = smoothed_loss(
            states_ND,
            self.model.output_weight,
            self.model.output_bias,
            targets_N,
            smoothing=self.smoothing,
            excluded=self.model.vocabulary.target_pad,
        )
        return Losses(loss, nll, len(targets_N))

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The states that have something to say, and what that is."""
        wanted_BT = batch.target_out_BT >= 0
        states_BTD = self.model.states(batch.source_BS, batch.source_lengths_B)
        return states_BTD[wanted_BT], batch.target_out_BT[wanted_BT]


class LanguageObjective(ReaderObjective):
    """Predict each token from those before it."""

    model: LanguageModel

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        real_BT = _real(batch)
        states_BTD = self.model.states(batch.target_in_BT, batch.target_lengths_B)
        return states_BTD[real_BT], batch.target_out_BT[real_BT]


class LabelObjective(ReaderObjective):
    """Predict one label for a whole text or image: the first token of the target."""

    model: Classifier

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.model.pooled(batch.source_BS, batch.source_lengths_B), batch.target_out_BT[:, 0]


READER_OBJECTIVES: dict[str, type[ReaderObjective]] = {
    "language_model": LanguageObjective,
    "masked_language_model": ReaderObjective,
    "classify": LabelObjective,
    "tag": ReaderObjective,
    "image": LabelObjective,
}


class TranslationObjective(nn.Module):
    """Predict each target token from the source and the target tokens before it (teacher forcing)."""

    def __init__(self, model: Seq2Seq, smoothing: float = 0.0, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smoothing, self.r_drop = smoothing, r_drop

    def forward(self, batch: Batch) -> Losses:
        if self.r_drop and self.training:
            return self._two_passes(batch)
        states_ND, targets_N = self._places(batch)
        loss, nll = self._loss(states_ND, targets_N)
        return Losses(loss, nll, len(targets_N))

    def _two_passes(self, batch: Batch) -> Losses:
        """½(CE₁ + CE₂ + α·D): half of R-Drop's loss, so that it stays comparable with one pass alone.

        Every sentence stands in the batch twice, with a dropout each: this costs twice the time.
        """
        states_MD, targets_M = self._places(batch.rows([*range(len(batch))] * 2))
        states_ND, targets_N = (
            torch.stack(both.chunk(2), 1).flatten(0, 1) for both in (states_MD, targets_M)
        )
        loss, nll = self._loss(states_ND, targets_N, self.r_drop)
        return Losses(0.5 * loss, 0.5 * nll, len(targets_N) // 2)

    def _places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The states that have something to say, and what that is."""
        memory = self.model.encode(batch.source_BS, batch.source_lengths_B)
        states_BTD = self.model.states(memory, batch.target_in_BT, batch.target_lengths_B)
        real_BT = _real(batch)
        return states_BTD[real_BT], batch.target_out_BT[real_BT]

    def _loss(self, states_ND: Tensor, targets_N: Tensor, pull: float = 0.0) -> tuple[Tensor, Tensor]:
        return smoothed_loss(
            states_ND,
            self.model.output_weight,
            self.model.output_bias,
            targets_N,
            smoothing=self.smoothing,
            excluded=self.model.vocabulary.target_pad,
            pull=pull,
        )


def make_objective(task: str, model: nn.Module, smoothing: float, r_drop: float = 0.0) -> nn.Module:
    """What is minimised for a task."""
    if task == "translate":
        return TranslationObjective(model, smoothing, r_drop)  # type: ignore[arg-type]
    return READER_OBJECTIVES[task](model, smoothing)  # type: ignore[arg-type]


def _real(batch: Batch) -> Tensor:
    """True where there is a target token, by the lengths."""
    places_T = torch.arange(batch.target_out_BT.shape[1], device=batch.target_out_BT.device)
    return places_T < batch.target_lengths_B[:, None]
