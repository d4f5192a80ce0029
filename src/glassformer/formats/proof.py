"""Every conversion proves itself: both sides read the same sentences, and what they say is compared."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig
from glassformer.engine import TorchEngine
from glassformer.errors import FormatError
from glassformer.search.scoring import SearchOptions
from glassformer.text.tokenizer import Tokenizer

Ids = Sequence[int]

TOLERANCE = 1e-4
"""of the largest logit: what rounding in float32 explains, even in a deep model with wild weights"""
LEAST_TOLERANCE = 1e-3
LONGEST = 20
"""tokens of a translation in a proof"""
BEAMS = 4
TOGETHER = 32
"""sentences in a batch: logits of many would fill the memory"""

# Where conversions go wrong besides the weights: nothing at all, composed and decomposed letters, scripts
# without a piece of their own, and text that looks like a special token.
AWKWARD = ["", "Straße, cafe\u0301, café", "你好，世界", "👩‍👩‍👧 😀", "a </s> b <pad> c"]


class Side(Protocol):
    """One of the two that are compared. Ids have no end of sentence and no start."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The source side's ids."""

    def translate(self, sources: Sequence[Ids], beams: int) -> list[list[int]]:
        """At most LONGEST tokens for each source, the end included; without length penalty's frills."""

    def logits(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """logits_TV after each token of the targets; fewer rows where a side can't read a given target."""


@dataclass(frozen=True)
class Proof:
    """What came out. `str(proof)` is what a conversion prints."""

    other: str
    """who stood on the other side"""
    difference: float
    """the largest logit difference; the padding's logit excepted, which no search may choose"""
    agree: int
    """sentences whose source ids and translations are the same"""
    sentences: int
    tolerance: float = LEAST_TOLERANCE
    """how large the difference may be"""
    examples: tuple[str, ...] = ()
    """some that do not agree"""
    remarks: tuple[str, ...] = ()
    """what else is worth knowing"""

    @property
    def holds(self) -> bool:
        return self.difference <= self.tolerance and self.agree == self.sentences

    def __str__(self) -> str:
        lines = [
            f"against {self.other}: largest logit difference {self.difference:.1e}, "
            f"{self.agree} of {self.sentences} translations agree",
            *self.remarks,
        ]
        return "\n".join(lines)

    def check(self, force: bool) -> Proof:
        """Itself if it holds or is overruled; else the conversion is an error."""
        if self.holds or force:
            return self
        reasons = [] if self.difference <= self.tolerance else [f"logits may differ by {self.tolerance:g}"]
        reasons += [f"not the same: {example}" for example in self.examples]
        raise FormatError(f"the conversion did not prove itself, {self} (--force overrules)", reasons)


class OurSide:
    """A bundle with our own model and search."""

    name = "glassformer"

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._engine = TorchEngine(bundle.model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.bundle.tokenizers.source.encode_batch(texts)

    def translate(self, sources: Sequence[Ids], beams: int) -> list[list[int]]:
        found = self._engine.translate_ids(
            sources, SearchOptions(beams=beams), max_lengths=[LONGEST] * len(sources)
        )
        return [hypotheses[0].tokens for hypotheses in found]

    def logits(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        vocabulary, model = self.bundle.config.vocabulary, self.bundle.model
        source_BS = padded([[*source, vocabulary.eos] for source in sources], vocabulary.source_pad)
        target_BT = padded([[vocabulary.start, *target] for target in targets], vocabulary.target_pad)
        lengths_B = torch.tensor([len(source) + 1 for source in sources])
        device = model.output_weight.device
        with torch.inference_mode():
            memory = model.encode(source_BS.to(device), lengths_B.to(device))
            logits_BTV = model.decode(memory, target_BT.to(device)).cpu()
        return rows_of(logits_BTV, targets)


def prove(bundle: Bundle, theirs: Side, texts: Sequence[str] | None = None) -> Proof:
    """Compare a bundle with another side on these texts, or on some made of the tokenizer's own pieces."""
    ours = OurSide(bundle)
    texts = list(texts) if texts else sample_texts(bundle.tokenizers.source)
    difference, largest, examples = 0.0, 0.0, list[str]()
    for start in range(0, len(texts), TOGETHER):
        apart, logit, found = _compare(ours, theirs, texts[start : start + TOGETHER], bundle.config)
        difference = float(np.maximum(difference, apart))  # unlike max, NaN wins
        largest = max(largest, logit)
        examples += found
    tolerance = max(LEAST_TOLERANCE, TOLERANCE * largest)
    agree = len(texts) - len(examples)
    return Proof(theirs.name, difference, agree, len(texts), tolerance, tuple(examples[:5]))


def _compare(
    ours: Side, theirs: Side, texts: Sequence[str], config: BundleConfig
) -> tuple[float, float, list[str]]:
    """The largest logit difference, the largest logit, and texts that are read or translated in two ways."""
    read, they_read = ours.encode(texts), theirs.encode(texts)
    sources = [ids[: config.model.max_length - 1] for ids in read]
    targets = ours.translate(sources, beams=1)
    our_logits, their_logits = ours.logits(sources, targets), theirs.logits(sources, targets)
    difference = _largest_difference(our_logits, their_logits, config.vocabulary.target_pad)
    largest = max(logits_TV.max().item() for logits_TV in our_logits)
    said, they_said = ours.translate(sources, BEAMS), theirs.translate(sources, BEAMS)
    examples = []
    for place, text in enumerate(texts):
        if read[place] != they_read[place]:
            examples.append(f"{text!r} is read as {read[place]} here, {they_read[place]} there")
        elif said[place] != they_said[place]:
            examples.append(f"{text!r} becomes {said[place]} here, {they_said[place]} there")
    return difference, largest, examples


def sample_texts(tokenizer: Tokenizer, count: int = 7, seed: int = 0) -> list[str]:
    """Texts in the tokenizer's own script: random pieces, 1 to 13 of them; then awkward ones."""
    generator = random.Random(seed)
    specials = (tokenizer.eos, tokenizer.unk, tokenizer.pad)
    ids = [i for i in range(tokenizer.size) if i not in specials]
    rows = [generator.choices(ids, k=1 + 2 * n) for n in range(count)]
    return [*tokenizer.decode_batch(rows), *AWKWARD]


def padded(rows: Sequence[Ids], pad: int) -> Tensor:
    """Rows of ids as one tensor, filled up on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def rows_of(logits_BTV: Tensor, targets: Sequence[Ids]) -> list[Tensor]:
    """The logits of each sentence without those after its end."""
    return [logits_TV[: len(target) + 1] for logits_TV, target in zip(logits_BTV, targets, strict=True)]


def _largest_difference(ours: Sequence[Tensor], theirs: Sequence[Tensor], pad: int) -> float:
    largest = 0.0
    for our_TV, their_TV in zip(ours, theirs, strict=True):
        apart_TV = (our_TV[: len(their_TV)].double() - their_TV.double()).abs()
        apart_TV[:, pad] = 0.0
        if bool(apart_TV.isnan().any()):
            return math.nan
        largest = max(largest, apart_TV.max().item())
    return largest
