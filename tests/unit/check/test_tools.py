"""The instruments themselves: is what they measure what they say?"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from glassformer.check.build import Sizes, build
from glassformer.check.mask_forms import forms
from glassformer.check.positions import fit_sinusoids
from glassformer.check.tools import (
    CannotCallError,
    gap,
    no_biases,
    no_dropout,
    numbers,
    randomise,
    rank,
    safe_copy,
    same,
    tensors,
)
from glassformer.model.positions import sinusoids


def test_the_papers_positions_are_recognised() -> None:
    assert fit_sinusoids(sinusoids(12, 8)).right
    row = [0.14112, -0.98999, 0.29552, 0.95534, 0.0299955, 0.99955, 0.003, 0.9999955]
    assert sinusoids(4, 8)[3].tolist() == pytest.approx(row, abs=1e-5)
    assert fit_sinusoids(sinusoids(13, 8)[1:]).note == "interleaved, from position 1"
    assert not fit_sinusoids(torch.randn(12, 8).double()).sinusoidal
    half = torch.cat([sinusoids(12, 8)[:, 0::2], sinusoids(12, 8)[:, 1::2]], dim=1)
    assert (fit_sinusoids(half).right, fit_sinusoids(half).note) == (True, "halves")
    angles = torch.arange(12)[:, None] * 10000 ** -(torch.arange(4) / 3)
    spaced = fit_sinusoids(torch.cat([angles.sin(), angles.cos()], dim=1).double())
    assert (spaced.right, spaced.note) == (True, "halves, tensor2tensor's frequencies")


def test_dropout_is_silenced_and_comes_back() -> None:
    x = torch.ones(100)
    q = torch.randn(1, 1, 4, 8)
    with no_dropout():
        assert torch.equal(F.dropout(x, 0.5), x)
        assert torch.equal(nn.Dropout(0.5)(x), x)
        assert torch.equal(torch.dropout(x, 0.5, True), x)
        with_dropout = F.scaled_dot_product_attention(q, q, q, None, 0.5, is_causal=True)
        assert torch.equal(with_dropout, F.scaled_dot_product_attention(q, q, q, is_causal=True))
        assert torch.equal(F.scaled_dot_product_attention(q, q, q, None, 0.5, True), with_dropout)
    assert not torch.equal(F.dropout(x, 0.5), x)


def test_biases_are_silenced_and_come_back() -> None:
    layer = nn.Linear(8, 8)
    bias = layer.bias.detach().clone()
    with no_biases(layer, 8):
        assert same(layer(torch.zeros(1, 8)), torch.zeros(1, 8))
    assert torch.equal(layer.bias, bias)


def test_randomising_spares_gains_and_what_is_not_trained() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    module.fixed = nn.Parameter(torch.zeros(8, 8), requires_grad=False)
    randomise(module, 8)
    assert bool((module[1].weight == 1).all())
    assert bool((module.fixed == 0).all())
    assert module[0].weight.std().item() == pytest.approx(1 / math.sqrt(8), rel=0.3)


def test_ranks_gaps_and_members() -> None:
    assert rank(numbers(6, 2) @ numbers(2, 6, seed=1), 1e-6) == 2
    assert rank(torch.zeros(3, 3), 1e-6) == 0
    assert gap(torch.tensor([math.nan]), torch.tensor([0.0])) == math.inf
    assert gap(torch.tensor([10.0]), torch.tensor([11.0])) == pytest.approx(1 / 11)
    one = torch.zeros(1)
    assert len(tensors({"a": [one, (one, None)], "b": 3})) == 2


def test_a_module_that_can_not_be_copied_is_said() -> None:
    module = nn.Linear(2, 2)
    module.cache = (module.weight * 2).sum()
    with pytest.raises(CannotCallError, match=r"copy\.deepcopy of the module fails"):
        safe_copy(module)


def test_constructors_are_guessed() -> None:
    def made(target: type) -> dict:
        return next(build(target, Sizes(), {})).arguments

    class A:
        def __init__(self, hid_dim, n_heads, dropout, device): ...

    class B:
        def __init__(self, dim, heads=8, dim_head=64, qkv_bias=False): ...

    class C:
        def __init__(
            self, src_vocab_size, trg_vocab_size, N, d_model, d_ff, h, max_seq_length, src_pad_idx
        ): ...

    assert made(A) == {"hid_dim": 24, "n_heads": 4, "dropout": 0.3, "device": torch.device("cpu")}
    assert made(B) == {"dim": 24, "heads": 4, "dim_head": 6}
    assert list(made(C).values()) == [17, 17, 2, 24, 40, 4, 32, 0]


def test_mask_forms_say_what_they_can() -> None:
    padding = (torch.arange(4) < torch.tensor([[2], [4]]))[:, None].expand(2, 3, 4)
    causal = torch.ones(3, 3).tril().bool().expand(2, 3, 3)
    made = {str(form): form.make(padding, 2) for form in forms()}
    assert made["lengths (B,)"].tolist() == [2, 4]
    assert made["(B, S) True = blocked"].dtype == torch.long  # the last of the two that block
    assert made["(T, S) True = may attend"] is None
    shapes = {form.shape: form.make(causal, 2) for form in forms()}
    assert shapes["(B, S)"] is None
    assert shapes["(B·H, T, S)"].shape == (4, 3, 3)
    assert shapes["lengths"] is None
