"""The whole model: encode · states · decode · start · step.

A sentence's way: ids → `encode` → memory; memory and the target so far → `states` → `decode` → logits. In
decoding the same happens one token at a time: `start` once a batch, then `step` by `step`.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.config import VocabularyConfig
from glassformer.model.layers import Embedding, Output
from glassformer.model.packing import Packing
from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.stacks import Decoder, Encoder
from glassformer.model.state import DecoderState, Memory, may_attend_lengths


class Transformer(Seq2Seq):
    """Encoder and decoder with their embeddings (figure 1 of the paper). Made by `build_model`."""

    encoder: Encoder
    decoder: Decoder

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: Encoder,
        target_embedding: Embedding,
        decoder: Decoder,
        output: Output,
        *,
        vocabulary: VocabularyConfig,
        max_length: int,
    ) -> None:
        super().__init__()
        self.source_embedding, self.encoder = source_embedding, encoder
        self.target_embedding, self.decoder = target_embedding, decoder
        self.output = output
        self.vocabulary, self.max_length = vocabulary, max_length

    def encode(self, source_BS: Tensor, lengths_B: Tensor) -> Memory:
        """Read the sources. Padding stands on the right; `lengths_B` says where it begins."""
        may_attend = may_attend_lengths(lengths_B, source_BS.shape[1])
        x_BSD = self.source_embedding(source_BS, range(source_BS.shape[1]))
        packing = Packing.in_training(self.training, lengths_B, *x_BSD.shape[1:])
        return Memory(self.encoder(x_BSD, may_attend, packing=packing), lengths_B, packing)

    def states(self, memory: Memory, target_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """states_BTD after each token of the target, which begins with the start symbol."""
        x_BTD = self.target_embedding(target_BT, range(target_BT.shape[1]))
        return self.decoder(x_BTD, memory, Packing.in_training(self.training, lengths_B, *x_BTD.shape[1:]))

    def decode(self, memory: Memory, target_BT: Tensor) -> Tensor:
        """logits_BTV of the token that follows each token of the target."""
        return self.output(self.states(memory, target_BT))

    def start(self, memory: Memory, beams: int = 1) -> DecoderState:
        """Ready to decode `beams` hypotheses for each sentence."""
        return self.decoder.start(memory, beams)

    def step(self, last_BN: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one token a beam; log_probs_BNV of the next one. The state is changed in place."""
        x_BND = self.target_embedding(last_BN, range(state.position, state.position + 1))
        logits_BNV = self.output(self.decoder.step(x_BND, state))
        return logits_BNV.log_softmax(-1), state
