"""What stands around attention in a layer: feed-forward (Eq. 2), residual and norm (section 3.1), embeddings
and the last linear map (section 3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.neighbours import Neighbours
from glassformer.model.parts import Dropout, Linear, RMSNorm, linear
from glassformer.model.positions import Positions
from glassformer.model.record import tell

NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (Eq. 2), or another activation in place of the maximum."""

    def __init__(self, width: int, inner: int, activation: str = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = linear(width, inner)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.outer = linear(inner, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden_BTF = self.activation(self.inner(x_BTD))
        return self.outer(self.dropout(hidden_BTF))


class GatedFeedForward(nn.Module):
    """(silu(x W_g) ⊙ x W_1) W_2: SwiGLU (Shazeer 2020); the gate and the input share one product."""

    def __init__(self, width: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate_inner = Linear(width, [inner, inner])
        self.dropout = Dropout(dropout)
        self.outer = linear(inner, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        gate_BTF, hidden_BTF = self.gate_inner(x_BTD).chunk(2, dim=-1)
        return self.outer(self.dropout(F.silu(gate_BTF) * hidden_BTF))


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's (sections 3.1 and 5.4)."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(x_BTD + self.dropout(sublayer(x_BTD)))


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))): the residual stream stays untouched (Wang et al. 2019)."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x_BTD + self.dropout(sublayer(self.norm(x_BTD)))


RESIDUALS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}


class Embedding(nn.Module):
    """Token ids → vectors that know their place: E[id]·√d_model + PE, then dropout (3.4, 3.5, 5.4).

    The row of the padding is zero and stays zero: it is what the decoder reads first.
    """

    def __init__(
        self,
        weight_VD: nn.Parameter,
        pad: int,
        positions: Positions,
        scaled: bool,
        dropout: float,
        place: str,
        neighbours: Neighbours | None = None,
    ) -> None:
        super().__init__()
        self.weight_VD, self.pad, self.place = weight_VD, pad, place
        self.neighbours = neighbours
        self.positions = positions
        self.factor = math.sqrt(weight_VD.shape[1]) if scaled else 1.0
        self.dropout = Dropout(dropout)

    def forward(self, ids_BT: Tensor, places: range) -> Tensor:
        x_BTD = F.embedding(ids_BT, self.weight_VD, padding_idx=self.pad)
        if self.neighbours is not None:
            x_BTD = x_BTD + self.neighbours(ids_BT)
        if self.factor != 1.0:
            x_BTD = x_BTD * self.factor
        x_BTD = self.dropout(self.positions.embed(x_BTD, places))
        tell("residual", self.place, x_BTD)
        return x_BTD


def embedding_weight(size: int, width: int, pad: int) -> nn.Parameter:
    """Normal with deviation 1/√width, so that scaling by √width gives numbers around one; padding is zero."""
    weight_VD = torch.randn(size, width) / math.sqrt(width)
    weight_VD[pad] = 0.0
    return nn.Parameter(weight_VD)


class Output(nn.Module):
    """The last linear map: states → one logit for each entry of the vocabulary (section 3.4).

    The padding is no word: its logit is -∞ here, in the loss and in the search.
    """

    def __init__(self, weight_VD: nn.Parameter, bias: bool, pad: int) -> None:
        super().__init__()
        self.weight_VD, self.pad = weight_VD, pad
        self.bias_V = nn.Parameter(torch.zeros(weight_VD.shape[0])) if bias else None

    def forward(self, states_BTD: Tensor) -> Tensor:
        logits_BTV = F.linear(states_BTD, self.weight_VD, self.bias_V)
        logits_BTV[..., self.pad] = float("-inf")
        return logits_BTV
