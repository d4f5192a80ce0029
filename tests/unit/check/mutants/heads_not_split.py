"""num_heads is taken and then forgotten: one attention over the whole width."""

import math

import torch
from torch import nn

MISTAKE = "heads_not_split"


class HeadsOnlyInTheName(nn.Module):
    """No view at all: scores over the whole width."""

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.d_k = d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        scores = torch.bmm(self.w_q(q), self.w_k(k).transpose(1, 2)) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.w_o(torch.bmm(self.dropout(scores.softmax(-1)), self.w_v(v)))


class SumsTheHeads(nn.Module):
    """Scores of all heads are summed before the softmax, so every head attends alike."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.reshape(b, t, self.heads, -1) for y in self.to_qkv(x).chunk(3, dim=-1))
        scores = torch.einsum("bthk,bshk->bts", q, k) * d**-0.5
        mixed = torch.einsum("bts,bshk->bthk", scores.softmax(-1), v)
        return self.to_out(mixed.reshape(b, t, d))


class SameHeadAgain(nn.Module):
    """A list of heads that holds one and the same head several times."""

    def __init__(self, n_heads, d_model):
        super().__init__()
        self.d_k = d_model // n_heads
        one = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(3)])
        self.heads = nn.ModuleList([one] * n_heads)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, query, key, value):
        outputs = []
        for wq, wk, wv in self.heads:
            weights = torch.softmax(wq(query) @ wk(key).mT / self.d_k**0.5, dim=-1)
            outputs.append(weights @ wv(value))
        return self.out(torch.cat(outputs, dim=-1))
