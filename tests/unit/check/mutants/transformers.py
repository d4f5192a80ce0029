"""Whole models with a mistake somewhere inside."""

import math

import torch
from torch import nn


def table(length, width):
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    fill = -1e9

    def forward(self, x, y, mask):
        q, k, v = (
            f(z).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, z in ((self.q, x), (self.k, y), (self.v, y))
        )
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~mask, self.fill)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d, h, f):
        super().__init__()
        self.attention = Attention(d, h)
        self.ff = nn.Sequential(nn.Linear(d, f), nn.ReLU(), nn.Linear(f, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))

    def forward(self, x, mask):
        x = self.norms[0](x + self.attention(x, x, mask))
        return self.norms[1](x + self.ff(x))


class DecoderLayer(nn.Module):
    def __init__(self, d, h, f):
        super().__init__()
        self.attention, self.cross = Attention(d, h), Attention(d, h)
        self.ff = nn.Sequential(nn.Linear(d, f), nn.ReLU(), nn.Linear(f, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))

    def forward(self, x, memory, mask, source_mask):
        x = self.norms[0](x + self.attention(x, x, mask))
        x = self.norms[1](x + self.cross(x, memory, source_mask))
        return self.norms[2](x + self.ff(x))


class Transformer(nn.Module):
    encoder_layer, decoder_layer = EncoderLayer, DecoderLayer

    def __init__(self, src_vocab, tgt_vocab, d_model, n_heads, n_layers, d_ff, pad_idx=0, max_len=64):
        super().__init__()
        self.pad = pad_idx
        self.source, self.target = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.register_buffer("positions", table(max_len, d_model))
        self.encoder = nn.ModuleList(self.encoder_layer(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.decoder = nn.ModuleList(self.decoder_layer(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.out = nn.Linear(d_model, tgt_vocab)

    def source_mask(self, src):
        return (src != self.pad)[:, None, None]

    def target_mask(self, tgt):
        return torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).tril()

    def place(self, x):
        return x + self.positions[: x.size(1)]

    def forward(self, src, tgt):
        source_mask = self.source_mask(src)
        x, y = self.place(self.source(src)), self.place(self.target(tgt))
        for layer in self.encoder:
            x = layer(x, source_mask)
        for layer in self.decoder:
            y = layer(y, x, self.target_mask(tgt), source_mask)
        return self.out(y)


class SeesTheFuture(Transformer):
    """no causal mask in the decoder."""

    mistake = "causal_leak"

    def target_mask(self, tgt):
        return (tgt != self.pad)[:, None, None]


class SeesTheNextToken(Transformer):
    """the causal mask is one diagonal too wide."""

    mistake = "causal_leak"

    def target_mask(self, tgt):
        return torch.ones(tgt.size(1), tgt.size(1)).tril(1).bool()


class NoSourceMask(Transformer):
    """source padding is attended."""

    mistake = "padding_leak"

    def source_mask(self, src):
        return torch.ones(src.size(0), 1, 1, src.size(1), dtype=torch.bool)


class OnlyTheEncoderHidesPadding(Transformer):
    """cross-attention sees the padding."""

    mistake = "padding_leak"

    def forward(self, src, tgt):
        x, y = self.place(self.source(src)), self.place(self.target(tgt))
        for layer in self.encoder:
            x = layer(x, self.source_mask(src))
        for layer in self.decoder:
            y = layer(y, x, self.target_mask(tgt), torch.ones(1, 1, 1, src.size(1), dtype=torch.bool))
        return self.out(y)


class AttendsToPaddingOnly(Transformer):
    """src == pad where src != pad was meant."""

    mistake = "mask_inverted"

    def source_mask(self, src):
        return (src == self.pad)[:, None, None]


class LooksAtTheFutureOnly(Transformer):
    """triu where tril was meant."""

    mistake = "mask_inverted"

    def target_mask(self, tgt):
        return torch.ones(tgt.size(1), tgt.size(1)).triu().bool()


class InfinityAttention(Attention):
    fill = float("-inf")


class InfiniteEncoderLayer(EncoderLayer):
    def __init__(self, d, h, f):
        super().__init__(d, h, f)
        self.attention = InfinityAttention(d, h)


class InfiniteMask(Transformer):
    """-inf in the encoder: a sentence of nothing but padding becomes NaN."""

    mistake = "nan_on_masked_rows"
    encoder_layer = InfiniteEncoderLayer


class NoPositions(Transformer):
    """positions forgotten."""

    mistake = "positions_missing"

    def place(self, x):
        return x


class SamePositionForAll(Transformer):
    """every token gets position 0."""

    mistake = "positions_missing"

    def place(self, x):
        return x + self.positions[0]


class OneLayerForAll(Transformer):
    """[layer] * n in encoder and decoder."""

    mistake = "shared_layers"

    def __init__(self, src_vocab, tgt_vocab, d_model, n_heads, n_layers, d_ff, pad_idx=0):
        super().__init__(src_vocab, tgt_vocab, d_model, n_heads, 1, d_ff, pad_idx)
        self.encoder = nn.ModuleList([self.encoder[0]] * n_layers)
        self.decoder = nn.ModuleList([self.decoder[0]] * n_layers)


class BareEncoderLayer(EncoderLayer):
    def forward(self, x, mask):
        x = self.norms[0](self.attention(x, x, mask))
        return self.norms[1](x + self.ff(x))


class EncoderWithoutResidual(Transformer):
    """no residual around the encoder's attention."""

    mistake = "missing_residual"
    encoder_layer = BareEncoderLayer


class UnnormedDecoderLayer(DecoderLayer):
    def forward(self, x, memory, mask, source_mask):
        x = x + self.attention(x, x, mask)
        x = x + self.cross(x, memory, source_mask)
        return x + self.ff(x)


class DecoderWithoutNorm(Transformer):
    """no norms in the decoder."""

    mistake = "missing_norm"
    decoder_layer = UnnormedDecoderLayer


class DropoutOnEmbeddings(Transformer):
    """functional dropout on the embeddings."""

    mistake = "dropout_in_eval"

    def place(self, x):
        return nn.functional.dropout(super().place(x), 0.1)
