"""Positional encodings with a mistake."""

import math

import numpy as np
import torch
from torch import nn


def paper(max_len, d_model):
    position = torch.arange(max_len, dtype=torch.float).unsqueeze(1)
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.zeros(max_len, d_model)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * rates), torch.cos(position * rates)
    return table


class CosineFirst(nn.Module):
    """even columns are cosines, odd ones sines."""

    mistake = "sine_cosine_swapped"

    def __init__(self, d_model, max_len=100):
        super().__init__()
        table = paper(max_len, d_model)
        self.register_buffer("pe", table.view(max_len, -1, 2).flip(-1).reshape(1, max_len, d_model))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


def cosine_half_first(length, width):
    """concatenated halves, cosines before sines."""
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(width // 2) * 2 / width)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


cosine_half_first.mistake = "sine_cosine_swapped"


class DoublesTheExponent(nn.Module):
    """i already steps by 2, and is doubled once more: 10000^(2·2i/d)."""

    mistake = "wrong_frequencies"

    def __init__(self, d_model, max_seq_len=80):
        super().__init__()
        pe = torch.zeros(max_seq_len, d_model)
        for pos in range(max_seq_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = math.sin(pos / (10000 ** ((2 * i) / d_model)))
                pe[pos, i + 1] = math.cos(pos / (10000 ** ((2 * (i + 1)) / d_model)))
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x * math.sqrt(x.size(-1)) + self.pe[:, : x.size(1)]


class ForgetsToDivideByTheWidth(nn.Module):
    """exp(-2i·ln 10000) without the division by d."""

    mistake = "wrong_frequencies"

    def __init__(self, d_model, dropout=0.1, max_len=100):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.exp(torch.arange(0, d_model, 2) * -math.log(10000.0))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * rates), torch.cos(position * rates)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


def every_column_its_own(n_position, d_hid):
    """exponent j/d for every column j: sine and cosine of a pair do not fit each other."""
    table = np.array([[pos / np.power(10000, j / d_hid) for j in range(d_hid)] for pos in range(n_position)])
    table[:, 0::2], table[:, 1::2] = np.sin(table[:, 0::2]), np.cos(table[:, 1::2])
    return torch.FloatTensor(table)


every_column_its_own.mistake = "wrong_frequencies"


class PlainAttribute(nn.Module):
    """self.pe = pe: no buffer."""

    mistake = "positions_not_buffer"

    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.pe = paper(max_len, d_model)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class ListOfRows(nn.Module):
    """returns rows of a plain tensor, (time, batch, width)."""

    mistake = "positions_not_buffer"

    def __init__(self, emb_size, dropout, maxlen=100):
        super().__init__()
        self.table = paper(maxlen, emb_size).unsqueeze(1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_embedding):
        return self.dropout(token_embedding + self.table[: token_embedding.size(0), :])


class SinesAsParameter(nn.Module):
    """sines and cosines in an nn.Parameter: they are trained away."""

    mistake = "positions_trained"

    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.pe = nn.Parameter(paper(max_len, d_model).unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class SinesInAnEmbedding(nn.Module):
    """an nn.Embedding filled with sines and left trainable."""

    mistake = "positions_trained"

    def __init__(self, max_len, d_model):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.embedding.weight.data.copy_(paper(max_len, d_model))

    def forward(self, x):
        return x + self.embedding(torch.arange(x.size(1), device=x.device))


class RandomAndFixed(nn.Module):
    """a learned table that was made a buffer: it stays random."""

    mistake = "positions_trained"

    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.register_buffer("pe", torch.randn(1, max_len, d_model) * 0.02)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class DropsInEvaluation(nn.Module):
    """positions whose dropout never stops."""

    mistake = "dropout_in_eval"

    def __init__(self, d_model, dropout=0.1, max_len=100):
        super().__init__()
        self.p = dropout
        self.register_buffer("pe", paper(max_len, d_model))

    def forward(self, x):
        return nn.functional.dropout(x + self.pe[: x.size(1)], self.p)
