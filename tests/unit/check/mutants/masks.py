"""Masks that are given and not obeyed."""

import math

import torch
from torch import nn


def split(x, n):
    return x.view(x.size(0), x.size(1), n, -1).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


class Base(nn.Module):
    """Right but for what the mask does to the scores."""

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.n = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def weigh(self, scores, mask):
        raise NotImplementedError

    def forward(self, q, k, v, mask=None):
        q, k, v = split(self.wq(q), self.n), split(self.wk(k), self.n), split(self.wv(v), self.n)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        return self.wo(merge(self.dropout(self.weigh(scores, mask)) @ v))


class ThrowsTheResultAway(Base):
    """masked_fill without keeping what it returns."""

    mistake = "mask_ignored"

    def weigh(self, scores, mask):
        if mask is not None:
            scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1)


class TinyConstant(Base):
    """-1e-9 where -1e9 was meant."""

    mistake = "mask_ignored"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e-9) * 0 + scores + (mask == 0) * -1e-9
        return scores.softmax(-1)


class NeverLooksAtTheMask(nn.Module):
    """self-attention that takes a mask and forgets it."""

    mistake = "mask_ignored"

    def __init__(self, dim, heads=8):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (split(y, self.heads) for y in self.qkv(x).chunk(3, -1))
        return self.out(merge((q @ k.mT * q.size(-1) ** -0.5).softmax(-1) @ v))


class MultipliesScores(Base):
    """scores * mask: a masked score is 0, and e^0 = 1."""

    mistake = "mask_weak"

    def weigh(self, scores, mask):
        return (scores if mask is None else scores * mask).softmax(-1)


class FillsWithZero(nn.Module):
    """masked_fill(…, 0), in a bare scaled dot-product attention."""

    mistake = "mask_weak"

    def forward(self, query, key, value, mask=None):
        scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, 0.0)
        weights = scores.softmax(dim=-1)
        return weights @ value, weights


class MultipliesWeights(Base):
    """softmax first, then the weights are multiplied by the mask."""

    mistake = "mask_after_softmax"

    def weigh(self, scores, mask):
        weights = scores.softmax(-1)
        return weights if mask is None else weights * mask


class ZeroesWeights(nn.Module):
    """self-attention: masked_fill with 0 after the softmax."""

    mistake = "mask_after_softmax"

    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.n = n_heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(hid_dim, hid_dim) for _ in range(4))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        q, k, v = split(self.fc_q(x), self.n), split(self.fc_k(x), self.n), split(self.fc_v(x), self.n)
        attention = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        if mask is not None:
            attention = attention.masked_fill(mask == 0, 0)
        return self.fc_o(merge(self.drop(attention) @ v)), attention


class FillsWeights(Base):
    """masked_fill with -1e9, but behind the softmax."""

    mistake = "mask_after_softmax"

    def weigh(self, scores, mask):
        weights = scores.softmax(-1)
        return weights if mask is None else weights.masked_fill(mask == 0, -1e9)


class BareMultipliesWeights(nn.Module):
    """the bare attention: weights times mask."""

    mistake = "mask_after_softmax"

    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, Q, K, V, attn_mask=None):
        attn = torch.softmax(torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(Q.size(-1)), -1)
        if attn_mask is not None:
            attn = attn * (1 - attn_mask.to(attn.dtype))
        return torch.matmul(self.dropout(attn), V)


class RepeatsInTheWrongOrder(nn.Module):
    """heads folded into the batch; the mask is repeated, not interleaved: sentences get each other's."""

    mistake = "mask_not_broadcast"

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.n = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def fold(self, x):
        return split(x, self.n).flatten(0, 1)

    def forward(self, q, k, v, mask=None):
        b, t = q.shape[:2]
        q, k, v = self.fold(self.wq(q)), self.fold(self.wk(k)), self.fold(self.wv(v))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask.reshape(b, -1, k.size(1)).repeat(self.n, 1, 1)
            scores = scores.masked_fill(~mask.bool(), -1e9)
        x = torch.bmm(scores.softmax(-1), v)
        return self.wo(merge(x.view(b, self.n, t, -1)))


class BroadcastsOverTheWrongAxis(Base):
    """unsqueeze(0): the batch of the mask lands on the heads of the scores."""

    mistake = "mask_not_broadcast"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask.view(1, -1, *mask.shape[-2:]) == 0, -1e9)
        return scores.softmax(-1)


class OnlyABatchOfOne(Base):
    """the mask of the first sentence is used for all."""

    mistake = "mask_not_broadcast"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask[:1] == 0, -1e9)
        return scores.softmax(-1)


class PlusInfinity(Base):
    """+1e9 where -1e9 was meant: what is masked gets all the weight."""

    mistake = "mask_inverted"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask == 0, 1e9)
        return scores.softmax(-1)


class PaddingMaskTheOtherWay(nn.Module):
    """torch's signature, but True in key_padding_mask keeps."""

    mistake = "mask_inverted"

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.n = num_heads
        self.in_proj, self.out_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        w, b = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
        q, k, v = (
            split(nn.functional.linear(x, w[i], b[i]), self.n) for i, x in enumerate((query, key, value))
        )
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if key_padding_mask is not None:
            scores = scores.masked_fill(~key_padding_mask.bool()[:, None, None], -1e9)
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask.bool(), -1e9)
        weights = self.dropout(scores.softmax(-1))
        return self.out_proj(merge(weights @ v)), weights.mean(1)


class LooksOnlyForward(nn.Module):
    """built-in causal mask with the triangle turned round."""

    mistake = "mask_inverted"

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n = n_head
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x):
        t = x.size(1)
        q, k, v = (split(y, self.n) for y in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        scores = scores.masked_fill(torch.ones(t, t).tril(-1).bool(), float("-inf"))
        return self.proj(merge(scores.softmax(-1) @ v))


class OneStepTooFar(nn.Module):
    """built-in causal mask: tril(diagonal=1) lets the next token through."""

    mistake = "causal_leak"

    def __init__(self, config):
        super().__init__()
        self.n = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size), diagonal=1))

    def forward(self, x):
        t = x.size(1)
        q, k, v = (split(y, self.n) for y in self.c_attn(x).split(x.size(2), dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:t, :t] == 0, float("-inf")).softmax(dim=-1)
        return self.c_proj(merge(att @ v))


class TransposesTheMask(Base):
    """rows and columns of the mask exchanged."""

    mistake = "causal_leak"

    def weigh(self, scores, mask):
        if mask is not None:
            mask = mask if mask.size(-2) == 1 else mask.transpose(-2, -1)
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1)


class OnlyTheLastRowOfTheMask(Base):
    """the mask's last row is used for every query."""

    mistake = "causal_leak"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask[..., -1:, :] == 0, -1e9)
        return scores.softmax(-1)


class MinusInfinity(Base):
    """-inf without a thought for rows that have nothing left."""

    mistake = "nan_on_masked_rows"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1)


class NanInTheGradient(Base):
    """-inf is added, and the NaN wiped away behind the softmax: the output is clean, the gradient is not."""

    mistake = "nan_on_masked_rows"

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores + torch.zeros(mask.shape).masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1).nan_to_num(0.0)


class AddedMinusInfinity(nn.Module):
    """-inf is added where the mask is 0; self-attention."""

    mistake = "nan_on_masked_rows"

    def __init__(self, d_model, nhead):
        super().__init__()
        self.n = nhead
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, src, src_mask=None):
        q, k, v = (split(y, self.n) for y in self.qkv(src).chunk(3, dim=-1))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if src_mask is not None:
            scores = scores + torch.zeros(src_mask.shape).masked_fill(src_mask == 0, float("-inf"))
        return self.out(merge(scores.softmax(-1) @ v))
