"""What the Transformer replaced: LSTMs that read one word after the other, without and with attention.

    encode   a bidirectional LSTM reads the source                        (Bahdanau et al. 2015)
    start    its two last states, side by side, are the summary, from which the decoder's LSTM begins
    states   h_t = LSTM(y_t, h_(t-1)),   state_t = tanh(W [context_t; h_t])   (Luong et al. 2015)

Without attention, context_t is the summary at every step: D numbers for a sentence of any length, the
bottleneck (Sutskever et al. 2014, Cho et al. 2014). With attention it is a mean of all the encoder's states,
weighted anew at each step: h_t is the query, and the states are keys and values at once.

Everybody gets the same bidirectional encoder, so that attention is the only difference. Its backward half
ends at the first source word, which is what reversing the source was good for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.config import VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.attention import attend
from glassformer.model.layers import Embedding, Output
from glassformer.model.parts import Dropout, linear
from glassformer.model.record import tell
from glassformer.model.scores import Additive, Bilinear, ScaledDot, Score
from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.state import Memory


class RecurrentEncoder(nn.Module):
    """Half of the width reads from left to right, the other half from right to left."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.lstm = lstm(width, width // 2, layers, dropout, bidirectional=True)

    def forward(self, x_BSD: Tensor, lengths_B: Tensor) -> Tensor:
        """states_BSD; padding is not read at all, in neither direction, and its states are zero."""
        packed = pack_padded_sequence(x_BSD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x_BSD.shape[1])[0]


def summary(memory: Memory) -> Tensor:
    """summary_BD: what each direction knows when it has read the whole sentence."""
    half = memory.states_BSD.shape[2] // 2
    rows_B = torch.arange(memory.batch, device=memory.lengths_B.device)
    forwards_BX = memory.states_BSD[rows_B, memory.lengths_B - 1, :half]
    return torch.cat([forwards_BX, memory.states_BSD[:, 0, half:]], dim=-1)


class Bottleneck(nn.Module):
    """No attention: every step gets the same summary, whatever it is about to say."""

    def forward(self, h_BTD: Tensor, memory: Memory) -> Tensor:
        return summary(memory)[:, None].expand_as(h_BTD)


class Glance(nn.Module):
    """Attention in its simplest form: one head, no projections, the encoder's states are keys and values."""

    def __init__(self, score: Score, dropout: float, place: str) -> None:
        super().__init__()
        self.score, self.dropout, self.place = score, Dropout(dropout), place

    def forward(self, h_BTD: Tensor, memory: Memory) -> Tensor:
        states_B1SD = memory.states_BSD[:, None]
        context_B1TD, weights_B1TS = attend(
            h_BTD[:, None],
            states_B1SD,
            states_B1SD,
            memory.may_attend_B11S,
            score=self.score,
            dropout=self.dropout,
        )
        tell("attention", self.place, weights_B1TS)
        return context_B1TD[:, 0]


class RecurrentState:
    """What a step takes and returns: the source, and each layer's h and c for all beams."""

    def __init__(self, memory: Memory, h_LBND: Tensor, c_LBND: Tensor) -> None:
        self.memory, self.h_LBND, self.c_LBND = memory, h_LBND, c_LBND

    def reorder(self, parents_BN: Tensor) -> None:
        """Beam n of sentence b goes on from what beam parents_BN[b, n] of the same sentence held."""
        index_LBND = parents_BN[None, :, :, None].expand_as(self.h_LBND)
        self.h_LBND, self.c_LBND = (x_LBND.gather(2, index_LBND) for x_LBND in (self.h_LBND, self.c_LBND))

    def keep(self, rows: Tensor) -> None:
        """Only these sentences go on, in this order."""
        self.memory = Memory(self.memory.states_BSD[rows], self.memory.lengths_B[rows])
        self.h_LBND, self.c_LBND = (x_LBND[:, rows] for x_LBND in (self.h_LBND, self.c_LBND))


class RecurrentDecoder(nn.Module):
    """An LSTM over the target; its states meet the source in `context`."""

    def __init__(self, width: int, layers: int, context: Bottleneck | Glance, dropout: float) -> None:
        super().__init__()
        self.layers = layers
        self.begin = linear(width, 2 * layers * width)
        self.lstm = lstm(width, width, layers, dropout)
        self.context = context
        self.combine = linear(2 * width, width)
        self.dropout = Dropout(dropout)

    def first(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """h_LBD and c_LBD that the decoder begins with, made from the summary."""
        hc_XBD = self.begin(summary(memory)).unflatten(-1, (2 * self.layers, -1)).transpose(0, 1)
        return hc_XBD[: self.layers].tanh().contiguous(), hc_XBD[self.layers :].contiguous()

    def forward(self, x_BTD: Tensor, memory: Memory) -> Tensor:
        h_BTD, _ = self.lstm(x_BTD, self.first(memory))
        return self._look(h_BTD, memory)

    def start(self, memory: Memory, beams: int) -> RecurrentState:
        h_LBND, c_LBND = (x_LBD[:, :, None].expand(-1, -1, beams, -1) for x_LBD in self.first(memory))
        return RecurrentState(memory, h_LBND, c_LBND)

    def step(self, x_BND: Tensor, state: RecurrentState) -> Tensor:
        """One new token a beam: the twin of `forward`. To the LSTM beams are rows, to the source queries."""
        shape = state.h_LBND.shape
        before = (state.h_LBND.flatten(1, 2).contiguous(), state.c_LBND.flatten(1, 2).contiguous())
        h_X1D, (h_LXD, c_LXD) = self.lstm(x_BND.flatten(0, 1)[:, None], before)
        state.h_LBND, state.c_LBND = h_LXD.view(shape), c_LXD.view(shape)
        return self._look(h_X1D.view(x_BND.shape), state.memory)

    def _look(self, h_BTD: Tensor, memory: Memory) -> Tensor:
        both_BTX = torch.cat([self.context(h_BTD, memory), h_BTD], dim=-1)
        return self.dropout(self.combine(both_BTX).tanh())


class Recurrent(Seq2Seq):
    """LSTM encoder and decoder with the interface of the Transformer. Made by `build_model`."""

    encoder: RecurrentEncoder
    decoder: RecurrentDecoder

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: RecurrentEncoder,
        target_embedding: Embedding,
        decoder: RecurrentDecoder,
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
        x_BSD = self.source_embedding(source_BS, range(source_BS.shape[1]))
        return Memory(self.encoder(x_BSD, lengths_B), lengths_B)

    def states(self, memory: Memory, target_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        x_BTD = self.target_embedding(target_BT, range(target_BT.shape[1]))
        return self.decoder(x_BTD, memory)

    def decode(self, memory: Memory, target_BT: Tensor) -> Tensor:
        return self.output(self.states(memory, target_BT))

    def start(self, memory: Memory, beams: int = 1) -> RecurrentState:
        return self.decoder.start(memory, beams)

    def step(self, last_BN: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        x_BND = self.target_embedding(last_BN, range(1))  # an LSTM needs no positions
        return self.output(self.decoder.step(x_BND, state)).log_softmax(-1), state


def make_context(kind: str, width: int, dropout: float, place: str) -> Bottleneck | Glance:
    """How the decoder looks at the source, by its name in the configuration.

    Luong's dot and bilinear ("general") scores are not divided by √d: an LSTM's states lie between -1 and 1.
    """
    if kind == "none":
        return Bottleneck()
    if kind == "dot":
        return Glance(ScaledDot(width, "init"), dropout, place)
    if kind == "additive":
        return Glance(Additive(1, width, width), dropout, place)
    if kind == "bilinear":
        return Glance(Bilinear(1, width, width, "init"), dropout, place)
    raise ConfigError(f"recurrent_attention = {kind!r}: choose none | dot | additive | bilinear")


class LSTM(nn.LSTM):
    """torch's, but a processor keeps to the weights' float32: only some of them have it in bfloat16."""

    def forward(self, x: Any, before: tuple[Tensor, Tensor] | None = None) -> Any:
        if x.is_cuda:
            return super().forward(x, before)
        exact = next(self.parameters()).dtype
        with torch.autocast("cpu", enabled=False):
            return super().forward(x.to(exact), before and (before[0].to(exact), before[1].to(exact)))


def lstm(width: int, hidden: int, layers: int, dropout: float, *, bidirectional: bool = False) -> LSTM:
    """An LSTM with dropout between its layers.

    Recurrent matrices begin orthogonal, and forget gates open (bias 1, Jozefowicz et al. 2015), so that what
    was read first is not gone before training has begun.
    """
    made = LSTM(
        width,
        hidden,
        layers,
        batch_first=True,
        dropout=dropout if layers > 1 else 0.0,
        bidirectional=bidirectional,
    )
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            gates = parameter.view(4, hidden, -1)  # input, forget, cell, output
            if name.startswith("bias"):
                parameter.zero_()
                if name.startswith("bias_ih"):
                    gates[1] = 1.0
            for gate in gates if name.startswith("weight") else ():
                nn.init.orthogonal_(gate) if name.startswith("weight_hh") else nn.init.xavier_uniform_(gate)
    return made
