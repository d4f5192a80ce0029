"""Projections that are too narrow, too wide at the end, or do not fit."""

import math

import torch
import torch.nn.functional as F
from torch import nn

MISTAKE = "projection_width"


class ProjectsToHalf(nn.Module):
    """q, k and v are projected to half of d_model, and the heads share that."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        inner = d_model // num_heads // 2 * num_heads  # half of what it should be
        self.q, self.k, self.v = (nn.Linear(d_model, inner) for _ in range(3))
        self.out = nn.Linear(inner, d_model)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, -1).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        x = torch.softmax(scores, dim=-1) @ v
        return self.out(x.transpose(1, 2).reshape(query.size(0), query.size(1), -1))


class ForgetsTheHeadsInTheLinear(nn.Module):
    """nn.Linear(d_model, d_k) instead of (d_model, heads * d_k): the view can't work."""

    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.h, self.d = n_heads, hid_dim // n_heads
        self.fc_q = nn.Linear(hid_dim, self.d)
        self.fc_k = nn.Linear(hid_dim, self.d)
        self.fc_v = nn.Linear(hid_dim, self.d)
        self.fc_o = nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        b = query.shape[0]
        q = self.fc_q(query).view(b, -1, self.h, self.d).permute(0, 2, 1, 3)
        k = self.fc_k(key).view(b, -1, self.h, self.d).permute(0, 2, 1, 3)
        v = self.fc_v(value).view(b, -1, self.h, self.d).permute(0, 2, 1, 3)
        energy = q @ k.permute(0, 1, 3, 2) / math.sqrt(self.d)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        x = self.dropout(energy.softmax(-1)) @ v
        return self.fc_o(x.permute(0, 2, 1, 3).reshape(b, -1, self.h * self.d))


class OutputStaysNarrow(nn.Module):
    """The last projection goes to the width of one head."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim // heads)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))


class FusedTooNarrow(nn.Module):
    """Self-attention: a fused projection to three times a sixth of the width."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.inner = embed_dim // 6
        self.to_qkv = nn.Linear(embed_dim, 3 * self.inner)
        self.to_out = nn.Linear(self.inner, embed_dim)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, self.num_heads, -1).transpose(1, 2) for y in self.to_qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(y.transpose(1, 2).reshape(b, t, self.inner))
