"""Right positions, masks, layers, models and losses: nothing may be said against them."""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

MISTAKE = ""


class Heads(nn.Module):
    """Attention for the layers below; a mask of (B, T, S) or (B, 1, S), or with an axis for the heads."""

    mistake = None

    def __init__(self, h, d_model):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList(copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4))

    def forward(self, query, key, value, mask=None, causal=False):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill((mask if mask.dim() == 4 else mask.unsqueeze(1)) == 0, -1e9)
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -1e9)
        return self.linears[-1]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class ExpPositions(nn.Module):
    """exp(-2i ln 10000 / d), a buffer, (time, batch, width), dropout."""

    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


def numpy_positions(n_position, d_hid):
    """10000^(2·(j//2)/d), row by row, with numpy."""
    table = np.array(
        [[pos / np.power(10000, 2 * (j // 2) / d_hid) for j in range(d_hid)] for pos in range(n_position)]
    )
    table[:, 0::2], table[:, 1::2] = np.sin(table[:, 0::2]), np.cos(table[:, 1::2])
    return table


class PowerPositions(nn.Module):
    """1 / 10000^(2i/d), computed when it is called, halves side by side."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        rate = 1.0 / 10000 ** (torch.arange(0, self.dim, 2, device=x.device).float() / self.dim)
        angle = torch.arange(x.size(1), device=x.device).float()[:, None] * rate
        return x + torch.cat([angle.sin(), angle.cos()], dim=-1)


class LearnedPositions(nn.Module):
    """an nn.Embedding of positions."""

    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, x):
        return x + self.table(torch.arange(x.size(1), device=x.device))


def subsequent_mask(size):
    """True keeps."""
    return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0


def generate_square_subsequent_mask(sz):
    """-inf on the future."""
    return torch.zeros(sz, sz).masked_fill(torch.ones(sz, sz).triu(1).bool(), float("-inf"))


def get_attn_pad_mask(seq_q, seq_k):
    """True blocks, (B, T, S)."""
    return seq_k.eq(0).unsqueeze(1).expand(seq_q.size(0), seq_q.size(1), seq_k.size(1))


def make_std_mask(tgt, pad):
    """padding and causal at once."""
    return (tgt != pad).unsqueeze(-2) & subsequent_mask(tgt.size(-1))


class PreNormLayer(nn.Module):
    """an encoder layer, norms first."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention = Heads(num_heads, d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        )
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, mask)
        return x + self.ff(self.norm2(x))


class PostNormDecoder(nn.Module):
    """a stack of decoder layers, norms last; (x, memory, src_mask, tgt_mask)."""

    class Layer(nn.Module):
        def __init__(self, d_model, num_heads, d_ff):
            super().__init__()
            self.self_attn, self.cross_attn = (Heads(num_heads, d_model) for _ in range(2))
            self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
            self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

        def forward(self, x, memory, src_mask, tgt_mask):
            x = self.norms[0](x + self.self_attn(x, x, x, tgt_mask))
            x = self.norms[1](x + self.cross_attn(x, memory, memory, src_mask))
            return self.norms[2](x + self.ff(x))

    def __init__(self, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.layers = nn.ModuleList(self.Layer(d_model, num_heads, d_ff) for _ in range(num_layers))

    def forward(self, x, memory, src_mask, tgt_mask):
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return x


class ValueKeyQueryBlock(nn.Module):
    """a decoder block of (x, value, key, src_mask, trg_mask) around a block of (value, key, query, mask)."""

    class Block(nn.Module):
        def __init__(self, width, heads, expansion):
            super().__init__()
            self.attention = Heads(heads, width)
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.feed_forward = nn.Sequential(
                nn.Linear(width, expansion * width), nn.ReLU(), nn.Linear(expansion * width, width)
            )

        def forward(self, value, key, query, mask):
            x = self.norm1(self.attention(query, key, value, mask) + query)
            return self.norm2(self.feed_forward(x) + x)

    def __init__(self, embed_size, heads, forward_expansion, dropout, device):
        super().__init__()
        self.attention, self.norm = Heads(heads, embed_size), nn.LayerNorm(embed_size)
        self.block, self.dropout = self.Block(embed_size, heads, forward_expansion), nn.Dropout(dropout)

    def forward(self, x, value, key, src_mask, trg_mask):
        query = self.dropout(self.norm(self.attention(x, x, x, trg_mask) + x))
        return self.block(value, key, query, src_mask)


class StatesAndMasks(nn.Module):
    """a model that returns states, and wants both its masks."""

    def __init__(self, src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8, dropout=0.1):
        super().__init__()
        self.source, self.target = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.encoder = nn.ModuleList(PreNormLayer(d_model, h, d_ff, dropout) for _ in range(N))
        self.decoder, self.norm = PostNormDecoder(d_model, h, d_ff, N), nn.LayerNorm(d_model)

    def place(self, x):
        return x + torch.as_tensor(numpy_positions(x.size(1), x.size(2))).to(x)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.place(self.source(src))
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        return self.decoder(self.place(self.target(tgt)), self.norm(memory), src_mask, tgt_mask)


class TorchModel(nn.Module):
    """embeddings around torch.nn.Transformer, time first, masks from outside."""

    def __init__(
        self,
        num_encoder_layers,
        num_decoder_layers,
        emb_size,
        nhead,
        src_vocab_size,
        tgt_vocab_size,
        dim_feedforward=512,
        dropout=0.1,
    ):
        super().__init__()
        self.transformer = nn.Transformer(
            emb_size, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward, dropout
        )
        self.generator = nn.Linear(emb_size, tgt_vocab_size)
        self.src_tok_emb, self.tgt_tok_emb = (
            nn.Embedding(src_vocab_size, emb_size),
            nn.Embedding(tgt_vocab_size, emb_size),
        )
        self.positions = ExpPositions(emb_size, dropout)

    def forward(
        self,
        src,
        trg,
        src_mask=None,
        tgt_mask=None,
        src_padding_mask=None,
        tgt_padding_mask=None,
        memory_key_padding_mask=None,
    ):
        out = self.transformer(
            self.positions(self.src_tok_emb(src)),
            self.positions(self.tgt_tok_emb(trg)),
            src_mask,
            tgt_mask,
            None,
            src_padding_mask,
            tgt_padding_mask,
            memory_key_padding_mask,
        )
        return self.generator(out)


class GPT(nn.Module):
    """a language model of causal layers; (logits, loss)."""

    class Block(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
            self.attn = Heads(config.n_head, config.n_embd)
            self.mlp = nn.Sequential(
                nn.Linear(config.n_embd, 4 * config.n_embd),
                nn.GELU(),
                nn.Linear(4 * config.n_embd, config.n_embd),
            )

        def forward(self, x):
            y = self.ln_1(x)
            x = x + self.attn(y, y, y, causal=True)
            return x + self.mlp(self.ln_2(x))

    def __init__(self, config):
        super().__init__()
        self.wte, self.wpe = (
            nn.Embedding(config.vocab_size, config.n_embd),
            nn.Embedding(config.block_size, config.n_embd),
        )
        self.h = nn.ModuleList([self.Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1]]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def shifted_loss(model, source, target):
    """target[:, :-1] in, target[:, 1:] out, padding 0 ignored."""
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)


class LabelSmoothing(nn.Module):
    """over log-probabilities; rows of padding are emptied."""

    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.size, self.padding_idx, self.smoothing = size, padding_idx, smoothing

    def forward(self, x, target):
        truth = torch.full_like(x, self.smoothing / (self.size - 2))
        truth.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        truth[:, self.padding_idx] = 0
        truth[target == self.padding_idx] = 0
        return F.kl_div(x, truth, reduction="sum")
