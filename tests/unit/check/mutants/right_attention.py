"""Right attention, each in another style: nothing may be said against it."""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

MISTAKE = ""


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


clones.mistake = None


def attention(query, key, value, mask=None, dropout=None):
    """a bare function, returns output and weights; mask == 0 is blocked."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class AnnotatedStyle(nn.Module):
    """(h, d_model, dropout), a list of four linears, mask of (B, 1, S) or (B, T, S)."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears, self.dropout = clones(nn.Linear(d_model, d_model), 4), nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        mask = None if mask is None else mask.unsqueeze(1)
        n = query.size(0)
        query, key, value = (
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, _ = attention(query, key, value, mask, self.dropout)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class FusedCausal(nn.Module):
    """one fused projection, causal by itself, configured by an object."""

    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.dropout = config.n_head, config.dropout

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (y.view(b, t, self.n_head, -1).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True
        )
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class EinsumStyle(nn.Module):
    """raw parameters of shape (heads, width, d_k) and einsum; no biases; True blocks."""

    def __init__(self, dim, heads=8):
        super().__init__()
        self.wq, self.wk, self.wv = (
            nn.Parameter(torch.randn(heads, dim, dim // heads) * 0.02) for _ in range(3)
        )
        self.wo = nn.Parameter(torch.randn(heads, dim // heads, dim) * 0.02)

    def forward(self, x, context, mask=None):
        q = torch.einsum("btd,hdk->bhtk", x, self.wq)
        k, v = (torch.einsum("bsd,hdk->bhsk", context, w) for w in (self.wk, self.wv))
        scores = torch.einsum("bhtk,bhsk->bhts", q, k) * q.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask.bool(), torch.finfo(scores.dtype).min)
        return torch.einsum("bhts,bhsk,hkd->btd", scores.softmax(-1), v, self.wo)


class ManyHeads(nn.Module):
    """a list of single heads, each with its own three linears; returns the weights too."""

    def __init__(self, num_heads, embed_dim):
        super().__init__()
        width = embed_dim // num_heads
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(embed_dim, width) for _ in range(3)) for _ in range(num_heads)
        )
        self.output_linear = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, mask=None):
        outputs, weights = [], []
        for q, k, v in self.heads:
            out, w = attention(q(query), k(key), v(value), mask)
            outputs.append(out)
            weights.append(w)
        return self.output_linear(torch.cat(outputs, dim=-1)), torch.stack(weights, dim=1)


class TimeFirst(nn.Module):
    """(time, batch, width), heads folded into the batch, torch's two masks, True blocks."""

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.h, self.p = num_heads, dropout
        self.in_proj, self.out_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def fold(self, x):
        return x.contiguous().view(x.size(0), x.size(1) * self.h, -1).transpose(0, 1)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        t, b, d = query.shape
        w, bias = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
        q, k, v = (self.fold(F.linear(x, w[i], bias[i])) for i, x in enumerate((query, key, value)))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d // self.h)
        if attn_mask is not None:
            scores = (
                scores + attn_mask if attn_mask.is_floating_point() else scores.masked_fill(attn_mask, -1e9)
            )
        if key_padding_mask is not None:
            scores = (
                scores.view(b, self.h, t, -1)
                .masked_fill(key_padding_mask[:, None, None], -1e9)
                .view_as(scores)
            )
        weights = F.dropout(scores.softmax(-1).nan_to_num(), self.p, self.training)
        x = torch.bmm(weights, v).transpose(0, 1).reshape(t, b, d)
        return self.out_proj(x), weights.view(b, self.h, t, -1).mean(1)


class ResidualInside(nn.Module):
    """(n_head, d_model, d_k, d_v), residual and norm inside, no biases."""

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.dropout, self.layer_norm = nn.Dropout(dropout), nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q, k, v, mask=None):
        residual, b, t, s = q, q.size(0), q.size(1), k.size(1)
        q = self.w_qs(q).view(b, t, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(k).view(b, s, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(v).view(b, s, self.n_head, self.d_v).transpose(1, 2)
        out, weights = attention(q, k, v, None if mask is None else mask.unsqueeze(1), self.dropout)
        out = self.dropout(self.fc(out.transpose(1, 2).contiguous().view(b, t, -1)))
        return self.layer_norm(out + residual), weights


class FourAxes(nn.Module):
    """a bare attention that wants (B, heads, T, d_k) and a temperature."""

    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature, self.dropout = temperature, nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(attn, dim=-1))
        return torch.matmul(attn, v), attn


class KeepMaskFused(nn.Module):
    """scaled_dot_product_attention with a mask whose True keeps; rows without keys become 0."""

    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.n, self.p = n_heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(hid_dim, hid_dim) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.n, -1)).transpose(1, 2)
            for f, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=None if mask is None else mask.bool(),
            dropout_p=self.p if self.training else 0.0,
        )
        return self.o(y.nan_to_num().transpose(1, 2).flatten(2))


class AddedMask(nn.Module):
    """self-attention; a float mask is added to the scores."""

    def __init__(self, d_model, nhead, dropout=0.1):
        super().__init__()
        self.nhead, self.drop = nhead, nn.Dropout(dropout)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, src, src_mask=None):
        b, t, d = src.shape
        q, k, v = self.qkv(src).view(b, t, 3, self.nhead, d // self.nhead).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(d // self.nhead)
        if src_mask is not None:
            scores = scores + src_mask
        return self.out((self.drop(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))


class LengthsAsMask(nn.Module):
    """the mask is given as the length of each sentence."""

    def __init__(self, num_hiddens, num_heads, dropout=0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(num_hiddens, num_hiddens, bias=False) for _ in range(4)
        )

    def split(self, x):
        return (
            x.reshape(*x.shape[:2], self.num_heads, -1)
            .permute(0, 2, 1, 3)
            .reshape(-1, x.shape[1], x.shape[2] // self.num_heads)
        )

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = self.split(self.W_q(queries)), self.split(self.W_k(keys)), self.split(self.W_v(values))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        if valid_lens is not None:
            lens = torch.repeat_interleave(valid_lens, self.num_heads, dim=0)
            scores = scores.masked_fill(torch.arange(k.shape[1])[None, None] >= lens[:, None, None], -1e6)
        out = torch.bmm(self.dropout(scores.softmax(-1)), v)
        out = out.reshape(-1, self.num_heads, *out.shape[1:]).permute(0, 2, 1, 3)
        return self.W_o(out.reshape(*out.shape[:2], -1))


class ValuesFirst(nn.Module):
    """forward(values, keys, query, mask), heads cut before the projections."""

    def __init__(self, embed_size, heads):
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values, self.keys, self.queries = (nn.Linear(embed_size, embed_size) for _ in range(3))
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        n, t = query.shape[:2]
        v = self.values(values).reshape(n, -1, self.heads, self.head_dim)
        k = self.keys(keys).reshape(n, -1, self.heads, self.head_dim)
        q = self.queries(query).reshape(n, t, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        weights = torch.softmax(energy / self.head_dim**0.5, dim=3)
        return self.fc_out(torch.einsum("nhql,nlhd->nqhd", [weights, v]).reshape(n, t, self.embed_size))


class GroupedQueries(nn.Module):
    """four heads share two sets of keys and values."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.h, self.g, self.k = num_heads, num_heads // 2, dim // num_heads
        self.q, self.o = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * self.g * self.k)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.h, self.k).transpose(1, 2)
        k, v = (
            self.kv(x)
            .view(b, t, 2, self.g, self.k)
            .permute(2, 0, 3, 1, 4)
            .repeat_interleave(self.h // self.g, dim=2)
        )
        scores = q @ k.mT / math.sqrt(self.k)
        if mask is not None:
            scores = scores.masked_fill(~mask.bool(), -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class RotaryInside(nn.Module):
    """queries and keys are turned by their position; causal."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n = n_heads
        self.qkv, self.out = (
            nn.Linear(d_model, 3 * d_model, bias=False),
            nn.Linear(d_model, d_model, bias=False),
        )

    def turn(self, x):
        half = x.size(-1) // 2
        angle = torch.arange(x.size(-2))[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.n, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


@dataclass
class Settings:
    hidden_size: int = 768
    num_attention_heads: int = 12
    attention_probs_dropout_prob: float = 0.1


Settings.mistake = None


class BertStyle(nn.Module):
    """configured by a dataclass; an additive mask of (B, 1, 1, S) with large negative numbers."""

    def __init__(self, config: Settings):
        super().__init__()
        self.n, self.size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value = (
            nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3)
        )
        self.dense, self.dropout = nn.Linear(config.hidden_size, config.hidden_size), nn.Dropout(0.1)

    def forward(self, hidden_states, attention_mask=None):
        b, t, d = hidden_states.shape
        q, k, v = (
            f(hidden_states).view(b, t, self.n, self.size).permute(0, 2, 1, 3)
            for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        if attention_mask is not None:
            scores = scores + attention_mask.clamp(min=torch.finfo(torch.float32).min)
        context = self.dropout(scores.softmax(-1)) @ v
        return self.dense(context.permute(0, 2, 1, 3).contiguous().view(b, t, d)), None
