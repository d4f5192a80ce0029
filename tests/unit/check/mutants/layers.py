"""Encoder and decoder layers with a part missing, or used twice."""

import copy
import math

import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, d_model, n):
        super().__init__()
        self.n = n
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.n, -1)).transpose(1, 2)
            for f, x in ((self.q, q), (self.k, k), (self.v, v))
        )
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


class EncoderBase(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention, self.ff = Heads(d_model, num_heads), FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)


class NoResidualAroundAttention(EncoderBase):
    """norm(attention(x))."""

    mistake = "missing_residual"

    def forward(self, x, mask=None):
        x = self.norm1(self.dropout(self.attention(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.ff(x)))


class NoResidualAroundFeedForward(EncoderBase):
    """pre-norm: x = feed_forward(norm(x))."""

    mistake = "missing_residual"

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.dropout(self.attention(y, y, y, mask))
        return self.dropout(self.ff(self.norm2(x)))


class NoResidualAroundCross(nn.Module):
    """a decoder layer that forgets x + around its cross-attention."""

    mistake = "missing_residual"

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn, self.cross_attn = Heads(d_model, num_heads), Heads(d_model, num_heads)
        self.ff = FeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, enc_output, src_mask=None, tgt_mask=None):
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask))
        x = self.norm2(self.cross_attn(x, enc_output, enc_output, src_mask))
        return self.norm3(x + self.ff(x))


class NoNormAtAll(EncoderBase):
    """residuals only."""

    mistake = "missing_norm"

    def forward(self, x, mask=None):
        x = x + self.dropout(self.attention(x, x, x, mask))
        return x + self.dropout(self.ff(x))


class NoNormBeforeFeedForward(EncoderBase):
    """pre-norm, but the feed-forward reads x itself."""

    mistake = "missing_norm"

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, mask)
        return x + self.ff(x)


class OneNormForTwo(EncoderBase):
    """post-norm behind the feed-forward only."""

    mistake = "missing_norm"

    def forward(self, x, mask=None):
        x = x + self.dropout(self.attention(x, x, x, mask))
        return self.norm2(x + self.dropout(self.ff(x)))


class NoLastNorm(EncoderBase):
    """post-norm behind the attention only."""

    mistake = "missing_norm"

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, x, x, mask)))
        return x + self.dropout(self.ff(x))


class Layer(EncoderBase):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.ff(x)))


class TimesN(nn.Module):
    """nn.ModuleList([layer] * n)."""

    mistake = "shared_layers"

    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([Layer(d_model, num_heads, d_ff)] * num_layers)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class CopiesTheListNotTheLayer(nn.Module):
    """copy.copy of a layer: a new object, the same parameters."""

    mistake = "shared_layers"

    def __init__(self, d_model, nhead, d_ff, N):
        super().__init__()
        layer = Layer(d_model, nhead, d_ff)
        self.layers = nn.ModuleList([copy.copy(layer) for _ in range(N)])

    def forward(self, src, src_mask=None):
        for layer in self.layers:
            src = layer(src, src_mask)
        return src


class SharedAttention(nn.Module):
    """a decoder layer that uses one attention for both its sub-layers."""

    mistake = "shared_layers"

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention, self.ff = Heads(d_model, num_heads), FeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        x = self.norm1(x + self.attention(x, x, x, tgt_mask))
        x = self.norm2(x + self.attention(x, memory, memory, src_mask))
        return self.norm3(x + self.ff(x))


class PlainList(nn.Module):
    """layers in a plain list: nobody trains them."""

    mistake = "shared_layers"

    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.first = Layer(d_model, num_heads, d_ff)
        self.layers = [Layer(d_model, num_heads, d_ff) for _ in range(num_layers)]

    def forward(self, x, mask=None):
        x = self.first(x, mask)
        for layer in self.layers:
            x = layer(x, mask)
        return x


class EncoderIgnoresItsMask(EncoderBase):
    """takes a mask and does not hand it on."""

    mistake = "mask_ignored"

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x))
        return self.norm2(x + self.ff(x))


class MeanOverTheWholeSentence(EncoderBase):
    """adds the mean of all tokens, padding included."""

    mistake = "padding_leak"

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask) + x.mean(1, keepdim=True))
        return self.norm2(x + self.ff(x))


class DecoderWithoutCausalMask(nn.Module):
    """the target mask never reaches the self-attention."""

    mistake = "causal_leak"

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn, self.cross_attn = Heads(d_model, num_heads), Heads(d_model, num_heads)
        self.ff = FeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        x = self.norm1(x + self.self_attn(x, x, x))
        x = self.norm2(x + self.cross_attn(x, memory, memory, src_mask))
        return self.norm3(x + self.ff(x))


class DecoderIgnoresSourceMask(nn.Module):
    """the source mask never reaches the cross-attention."""

    mistake = "padding_leak"

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn, self.cross_attn = Heads(d_model, num_heads), Heads(d_model, num_heads)
        self.ff = FeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, trg, enc_src, trg_mask=None, src_mask=None):
        x = self.norm1(trg + self.self_attn(trg, trg, trg, trg_mask))
        x = self.norm2(x + self.cross_attn(x, enc_src, enc_src))
        return self.norm3(x + self.ff(x))


class DropoutInAnEncoder(EncoderBase):
    """functional dropout around the sub-layers."""

    mistake = "dropout_in_eval"

    def forward(self, x, mask=None):
        x = self.norm1(x + torch.dropout(self.attention(x, x, x, mask), 0.1, True))
        return self.norm2(x + nn.functional.dropout(self.ff(x), 0.1))
