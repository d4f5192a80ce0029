"""Functions that make the wrong mask."""

import torch


def one_step_too_far(size):
    """tril(diagonal=1)."""
    return torch.ones(size, size).tril(diagonal=1).bool()


one_step_too_far.mistake = "causal_leak"


def triu_from_two(sz):
    """-inf from the second diagonal on."""
    return torch.zeros(sz, sz).masked_fill(torch.ones(sz, sz).triu(2).bool(), float("-inf"))


triu_from_two.mistake = "causal_leak"


def blocks_itself(size):
    """triu(diagonal=0) as what is blocked: the first position has nothing to see."""
    return torch.zeros(1, size, size).masked_fill(torch.ones(size, size).triu(0) == 1, float("-inf"))


blocks_itself.mistake = "nan_on_masked_rows"


def strictly_before(size):
    """tril(-1)."""
    return torch.tril(torch.ones((1, size, size)), diagonal=-1) == 1


strictly_before.mistake = "nan_on_masked_rows"


def future_only(size):
    """-inf on the past."""
    return torch.zeros(size, size).masked_fill(torch.ones(size, size).tril(-1).bool(), float("-inf"))


future_only.mistake = "mask_inverted"


def pads_only(seq, pad=0):
    """-inf at the real tokens."""
    return torch.zeros(seq.shape).masked_fill(seq != pad, float("-inf"))[:, None, None, :]


pads_only.mistake = "mask_inverted"


def marks_queries(seq_q, seq_k):
    """the padding of the queries is marked along the keys' axis."""
    return seq_q.eq(0).unsqueeze(2).expand(-1, -1, seq_k.size(1))


marks_queries.mistake = "mask_not_broadcast"


def wrong_pad(src, pad=1):
    """padding is taken to be token 1."""
    return (src != 1).unsqueeze(1).unsqueeze(2)


wrong_pad.mistake = "padding_leak"


def only_the_first_pad(ids):
    """only the first padding token of each sentence is found."""
    padding = ids == 0
    return ~(padding & (padding.long().cumsum(1) == 1))


only_the_first_pad.mistake = "padding_leak"
