"""Weights that sum to 1 over something else than the keys, or over nothing."""

import math

import torch
from torch import nn

MISTAKE = "softmax_axis"


class OverTheQueries(nn.Module):
    """softmax(dim=-2)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.n, self.d = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        b = query.size(0)
        q = self.q(query).view(b, -1, self.n, self.d).transpose(1, 2)
        k = self.k(key).view(b, -1, self.n, self.d).transpose(1, 2)
        v = self.v(value).view(b, -1, self.n, self.d).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        x = scores.softmax(dim=-2) @ v
        return self.o(x.transpose(1, 2).contiguous().view(b, -1, self.n * self.d))


class SelfOverTheQueries(nn.Module):
    """softmax(dim=2) of (B, heads, T, S), in self-attention."""

    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT / math.sqrt(d // self.h), dim=2)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, d))


class OverTheHeads(nn.Module):
    """softmax(dim=1): the heads share the weight between them."""

    def __init__(self, hid_dim, n_heads, dropout=0.1):
        super().__init__()
        self.h = n_heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(hid_dim, hid_dim) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, x in ((self.fc_q, query), (self.fc_k, key), (self.fc_v, value))
        )
        energy = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        return self.fc_o((self.dropout(torch.softmax(energy, dim=1)) @ v).transpose(1, 2).flatten(2))


class OverTheBatch(nn.Module):
    """softmax(dim=0), in a bare attention."""

    def forward(self, q, k, v, mask=None):
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(k.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        attention = torch.softmax(scores, dim=0)
        return torch.bmm(attention, v), attention


class NoSoftmax(nn.Module):
    """raw scores as weights."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        return self.o(((q @ k.mT / q.size(-1) ** 0.5) @ v).transpose(1, 2).flatten(2))
