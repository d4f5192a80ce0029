"""The rest of the family, from the same stacks: only the mask, the head and the objective differ.

    LanguageModel         decoder-only: each token sees those before it; the next token
    MaskedLanguageModel   encoder-only: each token sees all others; the hidden tokens
    Classifier            encoder-only: one label for a text (the mean of its states)
    Tagger                encoder-only: one label for each word (the state of its first token)
    ImageClassifier       encoder-only: patches are the tokens; one label for an image

All of them are a `Reader`, an embedding and a stack of `EncoderLayer`s under one pair of names, so that
weights learnt for one task are found again by another (`train.start_from`). The symbol that hides a token is
the padding, whose embedding is zero: all that is left of the token is its place.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import VocabularyConfig
from glassformer.errors import RequestError
from glassformer.model.layers import Embedding, Output
from glassformer.model.packing import Packing
from glassformer.model.parts import Dropout, linear
from glassformer.model.positions import Positions
from glassformer.model.record import tell
from glassformer.model.stacks import Encoder
from glassformer.model.state import ReaderState, may_attend_lengths


class Reader(nn.Module):
    """Ids in, states out; and a last linear map whose entries are tokens or labels."""

    def __init__(
        self,
        embedding: Embedding | PatchEmbedding,
        encoder: Encoder,
        output: Output,
        *,
        vocabulary: VocabularyConfig,
        max_length: int,
    ) -> None:
        super().__init__()
        self.embedding, self.encoder, self.output = embedding, encoder, output
        self.vocabulary, self.max_length = vocabulary, max_length

    def states(self, ids_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """states_BTD, each of which has seen the whole text: a bidirectional encoder."""
        may_attend = may_attend_lengths(lengths_B, ids_BT.shape[1])
        return self.read(ids_BT, may_attend, lengths_B=lengths_B)

    def read(
        self,
        ids_BT: Tensor,
        may_attend: Tensor | None = None,
        *,
        causal: bool = False,
        lengths_B: Tensor | None = None,
    ) -> Tensor:
        """states_BTD under any mask: who sees whom is all that tells an encoder from a language model.

        Whoever says where padding begins gets anything there.
        """
        x_BTD = self.embedding(ids_BT, range(ids_BT.shape[1]))
        packing = Packing.in_training(self.training, lengths_B, *x_BTD.shape[1:])
        return self.encoder(x_BTD, may_attend, causal=causal, packing=packing)

    @property
    def output_weight(self) -> nn.Parameter:
        """The last linear map's weight_VD, for a loss that makes logits piece by piece."""
        return self.output.weight_VD

    @property
    def output_bias(self) -> nn.Parameter | None:
        return self.output.bias_V


class LanguageModel(Reader):
    """What comes next? The decoder without a source (Radford et al. 2018)."""

    def states(self, ids_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """states_BTD after each token. Padding stands on the right, so causality alone hides it."""
        return self.read(ids_BT, causal=True, lengths_B=lengths_B)

    def decode(self, ids_BT: Tensor) -> Tensor:
        """logits_BTV of the token that follows each token; the text begins with the start symbol."""
        return self.output(self.states(ids_BT))

    def start(self, batch: int, beams: int = 1) -> ReaderState:
        """Ready to write `beams` continuations of each of so many texts."""
        return ReaderState(batch, beams, len(self.encoder.layers), self.output_weight.device)

    def step(self, last_BN: Tensor, state: ReaderState) -> tuple[Tensor, ReaderState]:
        """Read one token a beam; log_probs_BNV of the next one. The state is changed in place."""
        x_BND = self.embedding(last_BN, range(state.position, state.position + 1))
        logits_BNV = self.output(self.encoder.step(x_BND, state))
        return logits_BNV.log_softmax(-1), state


class MaskedLanguageModel(Reader):
    """What was hidden here? (Devlin et al. 2018; the head is the tied embedding alone)"""

    @property
    def hidden(self) -> int:
        """The symbol that stands where a token was hidden."""
        return self.vocabulary.source_pad

    def decode(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        """logits_BSV of the token that belongs at each place."""
        return self.output(self.states(ids_BS, lengths_B))


class Classifier(Reader):
    """Which label? The mean of the states of all real tokens decides."""

    def pooled(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        """pooled_BD: one vector for a whole text."""
        states_BSD = self.states(ids_BS, lengths_B)
        real_BS = torch.arange(states_BSD.shape[1], device=ids_BS.device) < lengths_B[:, None]
        return (states_BSD * real_BS[..., None]).sum(1) / lengths_B[:, None]

    def decide(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        """logits_BV of the labels; the special entries are no labels and get -∞."""
        return only_labels(self.output(self.pooled(ids_BS, lengths_B)), self.vocabulary)


class Tagger(Reader):
    """Which label has each word? The state of its first token decides."""

    def decide(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        """logits_BSV at every token; whoever asks picks those that begin a word."""
        return only_labels(self.output(self.states(ids_BS, lengths_B)), self.vocabulary)


class ImageClassifier(Classifier):
    """A small vision Transformer (Dosovitskiy et al. 2020): the patches of an image are its tokens.

    An image is a line of numbers, row by row; each number is a symbol of the source vocabulary, so that
    files, batches and bundles are those of text. The end of sentence behind the pixels is not part of the
    image.
    """

    embedding: PatchEmbedding

    def states(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        x_BPD = self.embedding(ids_BS[:, :-1])
        return self.encoder(x_BPD, None)

    def pooled(self, ids_BS: Tensor, lengths_B: Tensor) -> Tensor:
        return self.states(ids_BS, lengths_B).mean(1)


class PatchEmbedding(nn.Module):
    """Pixels → one vector for each square patch that knows its place: a linear map and positions."""

    levels_V: Tensor

    def __init__(
        self, pixels: int, width: int, patch: int, positions: Positions, dropout: float, place: str
    ) -> None:
        super().__init__()
        self.patch, self.place = patch, place
        self.project = linear(patch * patch, width)
        self.positions, self.dropout = positions, Dropout(dropout)
        # How bright each entry of the vocabulary is: part of the weights, for only the tokenizer knows.
        self.register_buffer("levels_V", torch.zeros(pixels))

    def forward(self, ids_BS: Tensor) -> Tensor:
        patches_BPX = patches(self.levels_V[ids_BS], self.patch)
        x_BPD = self.project(patches_BPX)
        x_BPD = self.dropout(self.positions.embed(x_BPD, range(x_BPD.shape[1])))
        tell("residual", self.place, x_BPD)
        return x_BPD


def patches(image_BS: Tensor, patch: int) -> Tensor:
    """A square image as a line of pixels → its patches, row by row, each as a line of pixels.

    >>> patches(torch.arange(16.0)[None], 2)[0].int().tolist()
    [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    """
    side = math.isqrt(image_BS.shape[1])
    if side * side != image_BS.shape[1] or side % patch:
        raise RequestError(
            f"an image of {image_BS.shape[1]} pixels can't be cut into squares of {patch} × {patch}: "
            "it must be as high as wide, and a multiple of model.patch"
        )
    return F.unfold(image_BS.view(-1, 1, side, side), patch, stride=patch).transpose(1, 2)


def only_labels(logits: Tensor, vocabulary: VocabularyConfig) -> Tensor:
    """The logits with -∞ at the entries that are no labels: end of sentence, unknown, padding."""
    logits[..., [vocabulary.eos, vocabulary.unk, vocabulary.target_pad]] = float("-inf")
    return logits


FAMILY: dict[str, type[Reader]] = {
    "language_model": LanguageModel,
    "masked_language_model": MaskedLanguageModel,
    "classify": Classifier,
    "tag": Tagger,
    "image": ImageClassifier,
}
