"""What can a member of the family do by now? Loss, accuracy, perplexity on held-out text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.bundle import Bundle
from glassformer.config import LABELLED
from glassformer.data.batch import Batch, BatchOrder, collate
from glassformer.errors import DataError
from glassformer.model.families import Reader, only_labels
from glassformer.recipe import TrainConfig
from glassformer.train.family_feed import blocks_batch, masked_batch, tagged_batch
from glassformer.train.objective import READER_OBJECTIVES, LanguageObjective
from glassformer.train.report import Validation

TOGETHER = 8
"""windows in one batch"""


class ReaderValidator:
    """Looks at the model of a bundle whenever it is called, each time at the same text."""

    def __init__(
        self, bundle: Bundle[Reader], pairs: Sequence[tuple[str, str]], config: TrainConfig, block: int
    ) -> None:
        self.bundle = bundle
        self.batches = list(_batches(bundle, pairs, config, block))

    @torch.no_grad()
    def __call__(self) -> Validation:
        task, model = self.bundle.config.task, self.bundle.model
        objective = READER_OBJECTIVES[task](model).eval()
        nll, count, right = 0.0, 0, 0
        for batch in self.batches:
            batch = batch.to(model.output_weight.device)
            losses = objective(batch)
            nll, count = nll + float(losses.nll_sum), count + losses.tokens
            if task in LABELLED:
                states_ND, targets_N = objective.places(batch)
                logits_NV = only_labels(model.output(states_ND), model.vocabulary)
                right += int((logits_NV.argmax(-1) == targets_N).sum())
        return Validation(nll / count, accuracy=right / count if task in LABELLED else None)


def _batches(
    bundle: Bundle[Reader], pairs: Sequence[tuple[str, str]], config: TrainConfig, block: int
) -> Iterable[Batch]:
    tokenizers, vocabulary, task = bundle.tokenizers, bundle.config.vocabulary, bundle.config.task
    sources = tokenizers.source.encode_batch([source for source, _ in pairs])
    if task == "language_model":
        stream = np.array([i for row in sources for i in (*row, vocabulary.eos)], np.int64)
        rows = max(1, config.batch_tokens // block)
        cut = [stream[start : start + block] for start in range(0, len(stream), block)]
        for first in range(0, len(cut), rows):
            yield blocks_batch(cut[first : first + rows], vocabulary)
        return
    targets = sources
    if task in LABELLED:
        targets = tokenizers.target.encode_batch([target for _, target in pairs])
    kept = [pair for pair in zip(sources, targets, strict=True) if len(pair[0]) < bundle.model.max_length]
    lengths = [len(source) for source, _ in kept]
    for places in BatchOrder(lengths, lengths, batch_tokens=config.batch_tokens, seed=0).batches(0):
        chosen = [kept[place] for place in places]
        if task == "masked_language_model":
            texts = [source for source, _ in chosen]
            seed = int(places[0])
            yield masked_batch(texts, tokenizers.source, vocabulary, share=config.masked, seed=seed)
        elif task == "tag":
            yield tagged_batch(chosen, tokenizers.source, vocabulary)
        else:
            yield collate(chosen, vocabulary)


@dataclass(frozen=True)
class Perplexity:
    """How surprised a language model is by a text."""

    nats: float
    """negative log-likelihood of the whole text"""
    tokens: int
    """the model's own, ends of line included"""
    words: int
    """what white space separates, ends of line included: the same for every model"""
    context: int
    """tokens that each token sees before it, at least, but for the first ones"""

    @property
    def per_token(self) -> float:
        return math.exp(self.nats / self.tokens)

    @property
    def per_word(self) -> float:
        return math.exp(min(700.0, self.nats / self.words))

    def text(self) -> str:
        return (
            f"perplexity per token  {self.per_token:9.2f}   ({self.tokens:,} tokens of this model)\n"
            f"perplexity per word   {self.per_word:9.2f}   ({self.words:,} words, ends of line included)\n"
            f"every token saw at least the {self.context} tokens before it, if there were as many"
        )


@torch.no_grad()
def perplexity(bundle: Bundle[Reader], lines: Iterable[str], block: int = 256) -> Perplexity:
    """Of running text, in windows that overlap by half: only the second half of a window counts."""
    kept = [line for line in lines if line.strip()]
    if not kept:
        raise DataError("there is no text to be surprised by")
    block = min(block, bundle.model.max_length)
    stride, eos = max(1, block // 2), bundle.config.vocabulary.eos
    encoded = bundle.tokenizers.source.encode_batch(kept)
    stream = np.array([i for row in encoded for i in (*row, eos)], np.int64)
    objective = _AfterTheFirst(bundle.model, stride).eval()
    nats, windows = 0.0, [stream[at : at + block] for at in range(0, max(1, len(stream) - stride), stride)]
    for first in range(0, len(windows), TOGETHER):
        batch = blocks_batch(windows[first : first + TOGETHER], bundle.config.vocabulary)
        objective.whole = first == 0
        nats += float(objective(batch.to(bundle.model.output_weight.device)).nll_sum)
    words = sum(len(line.split()) + 1 for line in kept)
    return Perplexity(nats, len(stream), words, stride)


class _AfterTheFirst(LanguageObjective):
    """Counts only what the window before has not counted; of the very first window, everything."""

    def __init__(self, model: Reader, counted: int) -> None:
        super().__init__(model)
        self.counted, self.whole = counted, False

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        at_T = torch.arange(batch.target_out_BT.shape[1], device=batch.target_out_BT.device)
        wanted_BT = (at_T >= self.counted) & (at_T < batch.target_lengths_B[:, None])
        if self.whole:
            wanted_BT[0] = at_T < batch.target_lengths_B[0]
        return self.model.states(batch.target_in_BT)[wanted_BT], batch.target_out_BT[wanted_BT]
