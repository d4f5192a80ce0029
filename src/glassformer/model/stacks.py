"""Layers on layers: the encoder and the decoder (section 3.1, figure 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from glassformer.model.attention import CrossAttention, SelfAttention
from glassformer.model.layers import PostNorm, PreNorm
from glassformer.model.packing import Packing
from glassformer.model.record import tell
from glassformer.model.state import CrossCache, DecoderState, Memory, ReaderState, SelfCache

Residual = PostNorm | PreNorm


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual."""

    def __init__(
        self, attention: SelfAttention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.attention_residual = attention, residual()
        self.feed_forward, self.feed_forward_residual = feed_forward, residual()

    def forward(
        self,
        x_BSD: Tensor,
        may_attend: Tensor | None,
        *,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        x_BSD = self.attention_residual(
            x_BSD, lambda x: self.attention(x, may_attend, causal=causal, packing=packing)
        )
        return self.feed_forward_residual(x_BSD, self.feed_forward)

    def step(self, x_BND: Tensor, cache: SelfCache, place: int, may_attend_B1NL: Tensor | None) -> Tensor:
        """One new token a beam: the twin of the causal `forward`, for language models."""
        x_BND = self.attention_residual(
            x_BND, lambda x: self.attention.step(x, cache, place, may_attend_B1NL)
        )
        return self.feed_forward_residual(x_BND, self.feed_forward)


class Encoder(nn.Module):
    """N layers; with norms before the sub-layers, one more norm at the end.

    With a `packing`, the layers see real tokens only, x_RD; padding comes back as zeros.
    """

    layers: Sequence[EncoderLayer]

    def __init__(self, layers: Sequence[EncoderLayer], final_norm: nn.Module, place: str = "encoder") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.final_norm, self.place = final_norm, place

    def forward(
        self,
        x_BSD: Tensor,
        may_attend: Tensor | None,
        *,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        x = packing.pack(x_BSD) if packing else x_BSD
        for number, layer in enumerate(self.layers):
            x = layer(x, may_attend, causal=causal, packing=packing)
            tell("residual", f"{self.place}.{number}", x)
        x = self.final_norm(x)
        return packing.unpack(x) if packing else x

    def step(self, x_BND: Tensor, state: ReaderState) -> Tensor:
        """One new token a beam, which sees what came before it."""
        state.begin_step()
        may_attend_B1NL = state.may_attend_B1NL()
        for number, layer in enumerate(self.layers):
            x_BND = layer.step(x_BND, state.selves[number], state.position, may_attend_B1NL)
            tell("residual", f"{self.place}.{number}", x_BND)
        state.end_step()
        return self.final_norm(x_BND)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the source, feed-forward, each inside a residual."""

    def __init__(
        self,
        attention: SelfAttention,
        cross: CrossAttention,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention, self.attention_residual = attention, residual()
        self.cross, self.cross_residual = cross, residual()
        self.feed_forward, self.feed_forward_residual = feed_forward, residual()

    def forward(
        self,
        x_BTD: Tensor,
        source: CrossCache,
        may_attend_source: Tensor | None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Whole sentences. Padding stands on the right, so causality alone hides it from real tokens."""
        x_BTD = self.attention_residual(x_BTD, lambda x: self.attention(x, causal=True, packing=packing))
        return self._after_self(x_BTD, source, may_attend_source, packing)

    def step(
        self,
        x_BND: Tensor,
        source: CrossCache,
        may_attend_source: Tensor | None,
        cache: SelfCache,
        place: int,
        may_attend_B1NL: Tensor | None,
    ) -> Tensor:
        """One new token a beam: the twin of `forward` for decoding."""
        x_BND = self.attention_residual(
            x_BND, lambda x: self.attention.step(x, cache, place, may_attend_B1NL)
        )
        return self._after_self(x_BND, source, may_attend_source)

    def _after_self(
        self,
        x_BTD: Tensor,
        source: CrossCache,
        may_attend_source: Tensor | None,
        packing: Packing | None = None,
    ) -> Tensor:
        x_BTD = self.cross_residual(x_BTD, lambda x: self.cross(x, source, may_attend_source, packing))
        return self.feed_forward_residual(x_BTD, self.feed_forward)


class Decoder(nn.Module):
    """N layers over the source's states; whole sentences (`forward`) or step by step (`start`, `step`)."""

    layers: Sequence[DecoderLayer]

    def __init__(self, layers: Sequence[DecoderLayer], final_norm: nn.Module, place: str = "decoder") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.final_norm, self.place = final_norm, place

    def forward(self, x_BTD: Tensor, memory: Memory, packing: Packing | None = None) -> Tensor:
        x = packing.pack(x_BTD) if packing else x_BTD
        read = memory.packing.pack(memory.states_BSD) if memory.packing else memory.states_BSD
        for number, layer in enumerate(self.layers):
            source = layer.cross.remember(read, memory.packing)
            x = layer(x, source, memory.may_attend_B11S, packing)
            tell("residual", f"{self.place}.{number}", x)
        x = self.final_norm(x)
        return packing.unpack(x) if packing else x

    def start(self, memory: Memory, beams: int) -> DecoderState:
        return DecoderState(memory, beams, [layer.cross.remember(memory.states_BSD) for layer in self.layers])

    def step(self, x_BND: Tensor, state: DecoderState) -> Tensor:
        state.begin_step()
        may_attend_B1NL = state.may_attend_B1NL()
        for number, layer in enumerate(self.layers):
            source, cache = state.crosses[number], state.selves[number]
            x_BND = layer.step(
                x_BND, source, state.may_attend_source_B11S, cache, state.position, may_attend_B1NL
            )
            tell("residual", f"{self.place}.{number}", x_BND)
        state.end_step()
        return self.final_norm(x_BND)
