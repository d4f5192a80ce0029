"""Scores that are not divided, or divided by something else."""

import math

import torch
from torch import nn

MISTAKE = "scale"


class NoScaling(nn.Module):
    """q @ k without any division."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def factor(self, head_width, width, length):
        return 1.0

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        scores = q @ k.mT * self.factor(q.size(-1), query.size(-1), key.size(1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class RootOfTheModelWidth(NoScaling):
    """√d_model, the width of all heads together."""

    def factor(self, head_width, width, length):
        return 1 / math.sqrt(width)


class WithoutTheRoot(NoScaling):
    """d_k instead of √d_k."""

    def factor(self, head_width, width, length):
        return 1 / head_width


class Multiplies(NoScaling):
    """multiplied by √d_k."""

    def factor(self, head_width, width, length):
        return math.sqrt(head_width)


class FusedByTheModelWidth(nn.Module):
    """fused self-attention, causal, scaled by √d_model."""

    def __init__(self, config):
        super().__init__()
        self.h = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (y.view(b, t, self.h, c // self.h).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        att = (q @ k.mT / math.sqrt(c)).masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.c_proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class BareWithoutScaling(nn.Module):
    """a bare dot-product attention that forgets the division."""

    def forward(self, query, key, value, mask=None):
        scores = torch.matmul(query, key.transpose(-2, -1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(scores, dim=-1)
        return torch.matmul(weights, value), weights
