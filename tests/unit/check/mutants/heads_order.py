"""Heads split or merged with the axes in the wrong order."""

import math

import torch
import torch.nn.functional as F
from torch import nn

MISTAKE = "heads_order"


class SplitsWithoutTranspose(nn.Module):
    """view(B, heads, T, d_k) straight away, and the same way back."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.n, self.d = num_heads, d_model // num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        b = query.size(0)
        q = self.wq(query).view(b, self.n, -1, self.d)
        k = self.wk(key).view(b, self.n, -1, self.d)
        v = self.wv(value).view(b, self.n, -1, self.d)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.wo((scores.softmax(-1) @ v).view(b, -1, self.n * self.d))


class MergesWithoutTranspose(nn.Module):
    """Split rightly, but (B, heads, T, d_k) is reshaped to (B, T, d_model) as it is."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        b = query.size(0)
        q, k, v = (
            linear(x).view(b, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        x = torch.matmul(self.dropout(scores.softmax(dim=-1)), v)
        return self.linears[-1](x.reshape(b, -1, self.h * self.d_k))


class SelfMergesWithoutTranspose(nn.Module):
    """The same in self-attention with one fused projection."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            y.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for y in self.c_attn(x).split(c, 2)
        )
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).contiguous().view(b, t, c))


class AttendsAcrossHeads(nn.Module):
    """(B, T, heads, d_k) is never transposed: the heads of a token attend to each other."""

    def __init__(self, embed_size, heads):
        super().__init__()
        self.heads = heads
        self.values, self.keys, self.queries, self.fc_out = (
            nn.Linear(embed_size, embed_size) for _ in range(4)
        )

    def forward(self, values, keys, query, mask=None):
        b, t, e = query.shape
        q = self.queries(query).reshape(b, t, self.heads, e // self.heads)
        k = self.keys(keys).reshape(b, -1, self.heads, e // self.heads)
        v = self.values(values).reshape(b, -1, self.heads, e // self.heads)
        attention = torch.softmax(q @ k.transpose(-2, -1) / (e // self.heads) ** 0.5, dim=-1)
        return self.fc_out((attention @ v).reshape(b, t, e))


class ForgetsContiguous(nn.Module):
    """transpose(1, 2).view(…): torch refuses."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.n, self.d = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        q = self.q(q).view(b, -1, self.n, self.d).transpose(1, 2)
        k = self.k(k).view(b, -1, self.n, self.d).transpose(1, 2)
        v = self.v(v).view(b, -1, self.n, self.d).transpose(1, 2)
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(self.d), -1)
        return self.o((weights @ v).transpose(1, 2).view(b, -1, self.n * self.d))


class SplitsWidthAndHeadsTheWrongWayRound(nn.Module):
    """view(B, T, d_k, heads): six heads of four numbers, where four heads of six were meant."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n, self.d = n_heads, d_model // n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = (
            f(x).view(x.size(0), x.size(1), self.d, self.n).transpose(1, 2)
            for f, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        x = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.n), -1) @ v
        return self.o(x.transpose(1, 2).flatten(2))
