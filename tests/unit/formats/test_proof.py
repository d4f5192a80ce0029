"""What counts as proved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.errors import FormatError
from glassformer.formats.proof import AWKWARD, OurSide, Proof, prove, sample_texts
from tests.foreign import ENGLISH, joint_tokenizers, make_bundle


class Mirror(OurSide):
    """Ours once more, with something wrong."""

    name = "a mirror"
    add = 0.0

    def logits(self, sources: Sequence[Any], targets: Sequence[Any]) -> list[Tensor]:
        return [logits_TV + self.add for logits_TV in super().logits(sources, targets)]


def test_a_mirror_proves_itself() -> None:
    proof = prove(make_bundle(), Mirror(make_bundle()))
    assert proof.holds
    assert str(proof) == "against a mirror: largest logit difference 0.0e+00, 12 of 12 translations agree"
    assert proof.check(force=False) is proof


def test_many_sentences_are_compared_in_batches() -> None:
    proof = prove(make_bundle(), Mirror(make_bundle()), ENGLISH[:70])
    assert (proof.agree, proof.sentences) == (70, 70)


@pytest.mark.parametrize("add", [0.01, math.nan])
def test_logits_that_differ_are_an_error(add: float) -> None:
    mirror = Mirror(make_bundle())
    mirror.add = add
    proof = prove(make_bundle(), mirror)
    assert not proof.holds
    with pytest.raises(FormatError, match="did not prove itself, against a mirror"):
        proof.check(force=False)
    assert proof.check(force=True) is proof


def test_other_ids_and_other_words_are_an_error() -> None:
    class Reader(Mirror):
        def encode(self, texts: Sequence[str]) -> list[list[int]]:
            return [
                [9] if text == "A girl" else ids
                for text, ids in zip(texts, super().encode(texts), strict=True)
            ]

    class Speaker(Mirror):
        def translate(self, sources: Sequence[Any], beams: int) -> list[list[int]]:
            return [[5, 5, 5, 5, 5], *super().translate(sources, beams)[1:]]

    proof = prove(make_bundle(), Reader(make_bundle()), ["A girl", "He"])
    assert (proof.agree, proof.sentences) == (1, 2)
    assert "'A girl' is read as" in proof.examples[0]
    proof = prove(make_bundle(), Speaker(make_bundle()), ["A girl", "He"])
    assert (proof.agree, proof.sentences) == (1, 2)
    assert "'A girl' becomes" in proof.examples[0]
    with pytest.raises(FormatError, match="not the same: 'A girl' becomes"):
        proof.check(force=False)


def test_texts_of_all_lengths_and_awkward_ones() -> None:
    texts = sample_texts(joint_tokenizers().source)
    assert texts[-len(AWKWARD) :] == AWKWARD
    lengths = [len(joint_tokenizers().source.encode(text)) for text in texts[: -len(AWKWARD)]]
    assert min(lengths) <= 3
    assert max(lengths) > 12
    assert sample_texts(joint_tokenizers().source) == texts


def test_the_logit_of_the_padding_does_not_count() -> None:
    class Padding(Mirror):
        def logits(self, sources: Sequence[Any], targets: Sequence[Any]) -> list[Tensor]:
            found = super().logits(sources, targets)
            for logits_TV in found:
                logits_TV[:, -1] = -1e4
            return found

    assert prove(make_bundle(), Padding(make_bundle())).difference == 0
    assert Proof("x", 0.0, 1, 1).holds
    assert not Proof("x", torch.nan, 1, 1).holds
