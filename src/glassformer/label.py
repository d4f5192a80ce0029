"""Texts or images in, labels out: what `glass classify`, `glass tag` and the server do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.bundle import Bundle, load_reader
from glassformer.data.batch import collate
from glassformer.errors import RequestError
from glassformer.model.families import Classifier, ImageClassifier, Reader, Tagger, patches
from glassformer.text.words import word_starts

TOGETHER = 64
"""texts in one batch"""


@dataclass(frozen=True)
class Label:
    """What the model says, and how sure it is."""

    name: str
    probability: float


@dataclass(frozen=True)
class TaggedWord:
    """A word of a text and its label."""

    word: str
    label: Label


class Labeller:
    """Labels texts, words or images with one bundle. Safe to use from several threads."""

    def __init__(self, bundle: Bundle[Reader]) -> None:
        self.bundle, self.model = bundle, bundle.model.eval()

    @classmethod
    def load(cls, path: str | Path, tasks: Sequence[str] = ("classify", "image", "tag")) -> Labeller:
        return cls(load_reader(path, tasks))

    def classify(self, texts: Sequence[str], n_best: int = 1) -> list[list[Label]]:
        """The likeliest labels of each text (or image: a line of numbers), best first."""
        if not isinstance(self.model, Classifier):
            raise RequestError(f"task = '{self.bundle.config.task}' gives no label to a whole text")
        if n_best < 1:
            raise RequestError(f"n_best = {n_best} must be at least 1")
        found: list[list[Label]] = []
        for first in range(0, len(texts), TOGETHER):
            rows = [self._ids(text) for text in texts[first : first + TOGETHER]]
            logits_BV = self._decide(rows)
            most = min(n_best, logits_BV.shape[-1] - 3)
            probabilities, ids = logits_BV.softmax(-1).topk(most)
            found += [self._labels(*row) for row in zip(probabilities, ids, strict=True)]
        return found

    def tag(self, texts: Sequence[str]) -> list[list[TaggedWord]]:
        """Each word of each text, white space between them, with its label."""
        if not isinstance(self.model, Tagger):
            raise RequestError(f"task = '{self.bundle.config.task}' gives no labels to words")
        found: list[list[TaggedWord]] = []
        for text in texts:
            words = text.split()
            if not words:
                found.append([])
                continue
            ids = self._ids(" ".join(words))
            starts = word_starts(self.bundle.tokenizers.source, ids)
            probabilities, best = self._decide([ids])[0].softmax(-1)[starts].max(-1)
            labels = self._labels(probabilities, best)
            found.append([TaggedWord(*pair) for pair in zip(words, labels, strict=True)])
        return found

    def _ids(self, text: str) -> list[int]:
        ids = self.bundle.tokenizers.source.encode(text)
        if isinstance(self.model, ImageClassifier):
            patches(torch.zeros(1, len(ids)), self.model.embedding.patch)  # says what is wrong, if anything
            if strange := self.bundle.tokenizers.source.unknown(text):
                raise RequestError(f"'{strange[0]}' is no brightness that this model has seen")
        if not ids:
            raise RequestError("there is nothing to label: the text is empty")
        if len(ids) >= self.model.max_length:
            raise RequestError(
                f"the text has {len(ids)} tokens; this model reads {self.model.max_length - 1}"
            )
        return ids

    @torch.inference_mode()
    def _decide(self, rows: Sequence[list[int]]) -> Tensor:
        batch = collate([(ids, []) for ids in rows], self.model.vocabulary)
        batch = batch.to(self.model.output_weight.device)
        assert isinstance(self.model, (Classifier, Tagger))
        return self.model.decide(batch.source_BS, batch.source_lengths_B)

    def _labels(self, probabilities: Tensor, ids: Tensor) -> list[Label]:
        names = self.bundle.tokenizers.target.pieces(ids.tolist())
        return [Label(name, share) for name, share in zip(names, probabilities.tolist(), strict=True)]


@dataclass(frozen=True)
class Accuracy:
    """How often the labels are right."""

    right: int
    count: int
    per_label: dict[str, tuple[int, int]]
    """right and all, for each label that should have come"""

    def text(self) -> str:
        mean = sum(right / count for right, count in self.per_label.values()) / len(self.per_label)
        return (
            f"accuracy              {self.right / self.count:7.2%}   ({self.right:,} of {self.count:,})\n"
            f"mean over the labels  {mean:7.2%}   ({len(self.per_label)} labels)"
        )


def accuracy(labeller: Labeller, pairs: Sequence[tuple[str, str]]) -> Accuracy:
    """Of texts and what their labels should be: one a text, or one a word."""
    texts = [text for text, _ in pairs]
    if isinstance(labeller.model, Tagger):
        said = [[tagged.label.name for tagged in row] for row in labeller.tag(texts)]
        wanted = [label.split() for _, label in pairs]
        for number, (one, other) in enumerate(zip(said, wanted, strict=True), start=1):
            if len(one) != len(other):
                raise RequestError(f"pair {number} has {len(one)} words, but {len(other)} tags")
    else:
        said = [[labels[0].name] for labels in labeller.classify(texts)]
        wanted = [[label.strip()] for _, label in pairs]
    counts: dict[str, tuple[int, int]] = {}
    for one, other in zip(said, wanted, strict=True):
        for guess, label in zip(one, other, strict=True):
            right, count = counts.get(label, (0, 0))
            counts[label] = (right + (guess == label), count + 1)
    if not counts:
        raise RequestError("there is nothing to score: no pairs")
    return Accuracy(sum(r for r, _ in counts.values()), sum(c for _, c in counts.values()), counts)
