"""Dropout that never stops."""

import math

import torch
import torch.nn.functional as F
from torch import nn

MISTAKE = "dropout_in_eval"


class FunctionalDropout(nn.Module):
    """F.dropout(x, p) drops whatever the mode is."""

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.o((F.dropout(scores.softmax(-1), self.p) @ v).transpose(1, 2).flatten(2))


class FusedWithDropout(nn.Module):
    """scaled_dot_product_attention(dropout_p=p), in evaluation too."""

    def __init__(self, config):
        super().__init__()
        self.h, self.p = config.n_head, config.dropout
        self.qkv, self.out = (
            nn.Linear(config.n_embd, 3 * config.n_embd),
            nn.Linear(config.n_embd, config.n_embd),
        )

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class MakesDropoutInForward(nn.Module):
    """nn.Dropout made in forward is always in training mode."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.h = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (y.unflatten(-1, (self.h, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        return nn.Dropout(0.1)(self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
