"""What every model from sequences to sequences can do, whatever it is made of.

Training asks for `encode`, `states` and the output's weights, search for `start` and `step`: nothing else in
this package knows whether the model is a Transformer or what the Transformer replaced.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from glassformer.config import VocabularyConfig
from glassformer.model.layers import Output
from glassformer.model.state import Memory


class Seq2Seq(nn.Module):
    """An encoder that reads a source, and a decoder that says what follows each token of a target."""

    encoder: nn.Module
    decoder: nn.Module
    output: Output
    vocabulary: VocabularyConfig
    max_length: int
    """the longest source or target, in tokens"""

    def encode(self, source_BS: Tensor, lengths_B: Tensor) -> Memory:
        """Read the sources. Padding stands on the right; `lengths_B` says where it begins."""
        raise NotImplementedError

    def states(self, memory: Memory, target_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """states_BTD after each token of the target, which begins with the start symbol.

        Whoever says where padding begins gets anything there.
        """
        raise NotImplementedError

    def decode(self, memory: Memory, target_BT: Tensor) -> Tensor:
        """logits_BTV of the token that follows each token of the target."""
        raise NotImplementedError

    def start(self, memory: Memory, beams: int = 1) -> Any:
        """Ready to decode `beams` hypotheses for each sentence: a state with `reorder` and `keep`."""
        raise NotImplementedError

    def step(self, last_BN: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one token a beam; log_probs_BNV of the next one. The state is changed in place."""
        raise NotImplementedError

    @property
    def output_weight(self) -> nn.Parameter:
        """The last linear map's weight_VD, for a loss that makes logits piece by piece."""
        return self.output.weight_VD

    @property
    def output_bias(self) -> nn.Parameter | None:
        return self.output.bias_V
