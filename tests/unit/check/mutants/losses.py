"""Losses that are shown the answer, or count padding."""

import torch
import torch.nn.functional as F
from torch import nn


def same_in_and_out(model, source, target):
    """the target is fed and compared without a shift."""
    logits = model(source, target)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)


same_in_and_out.mistake = "target_not_shifted"


def cuts_the_wrong_end(model, src, tgt):
    """both sides lose their first token, so they are equal again."""
    tgt_in, tgt_out = tgt[:, 1:], tgt[:, 1:]
    logits = model(src, tgt_in)
    loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), tgt_out.reshape(-1), reduction="none")
    real = (tgt_out.reshape(-1) != 0).float()
    return (loss * real).sum() / real.sum()


cuts_the_wrong_end.mistake = "target_not_shifted"


def no_ignore_index(model, source, target):
    """cross_entropy over everything."""
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), target[:, 1:])


no_ignore_index.mistake = "loss_counts_padding"


def masks_but_divides_by_all(model, source, target):
    """padding is multiplied away, but counted in the mean."""
    logits, wanted = model(source, target[:, :-1]), target[:, 1:]
    loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
    return (loss * (wanted.flatten() != 0)).mean()


masks_but_divides_by_all.mistake = "loss_counts_padding"


class SmoothsOverPadding(nn.Module):
    """label smoothing that forgets the padding."""

    mistake = "loss_counts_padding"

    def __init__(self, size, padding_idx, smoothing=0.1):
        super().__init__()
        self.size, self.smoothing = size, smoothing

    def forward(self, x, target):
        truth = torch.full_like(x, self.smoothing / (self.size - 1))
        truth.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        return F.kl_div(x.log_softmax(-1), truth, reduction="sum")


class _Copier(nn.Module):
    """A tiny causal decoder over target embeddings; its loss is its own affair."""

    def __init__(self, vocab_size, d_model, pad_idx=0):
        super().__init__()
        self.pad, self.vocab = pad_idx, vocab_size
        self.source, self.target = nn.Embedding(vocab_size, d_model), nn.Embedding(vocab_size, d_model)
        self.mix = nn.GRU(d_model, d_model, batch_first=True)
        self.out = nn.Linear(d_model, vocab_size)

    def logits(self, source, target_in):
        start = self.source(source).mean(1)[None].contiguous()
        return self.out(self.mix(self.target(target_in), start)[0])


class ReturnsAnUnshiftedLoss(_Copier):
    """a model that returns its own loss, without a shift."""

    mistake = "target_not_shifted"

    def forward(self, source, target):
        logits = self.logits(source, target)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=self.pad)


class ReturnsALossWithPadding(_Copier):
    """a model that returns its own loss, padding included."""

    mistake = "loss_counts_padding"

    def forward(self, source, target):
        logits = self.logits(source, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
