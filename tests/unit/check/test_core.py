"""Instances, options, `assert_attention`, our own modules, and torch's."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import glassformer
from glassformer.check import assert_attention, check
from glassformer.compat import MultiheadAttention
from glassformer.model.attention import HeadShape, MultiHeadAttention, SelfAttention
from glassformer.model.positions import Alibi, Positions, Rotary


class Plain(nn.Module):
    """True in the mask blocks."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f, x in ((self.q, q), (self.k, k), (self.v, v))
        )
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 1, -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    "target",
    [
        nn.MultiheadAttention,
        nn.MultiheadAttention(40, 5, batch_first=True),
        nn.MultiheadAttention(64, 4, bias=False),
        MultiHeadAttention,
        MultiheadAttention,
        MultiheadAttention(32, 4, batch_first=True),
        SelfAttention(HeadShape(32, 4), Positions()),
        SelfAttention(HeadShape(32, 4), Rotary(8)),
        SelfAttention(HeadShape(32, 8, key_value_heads=2), Positions()),
        Plain(48, 3),
    ],
    ids=lambda target: getattr(target, "__name__", type(target).__name__),
)
def test_ours_and_torchs_pass(target) -> None:
    report = check(target)
    assert report.kind == "attention"
    assert report.ok, report.text()
    assert_attention(target)


def test_biases_by_distance_are_no_mistake() -> None:
    report = check(SelfAttention(HeadShape(32, 4), Alibi(4)))
    assert report.ok
    assert "distance counts" in report.text()


@pytest.mark.parametrize("target", [nn.TransformerEncoderLayer(32, 4), nn.TransformerDecoderLayer(32, 4)])
def test_torchs_layers_pass(target) -> None:
    report = check(target)
    assert (report.kind, report.mistakes) == ("layer", [])


def test_an_instance_is_left_as_it_was() -> None:
    module = Plain(24, 4).train()
    before = copy.deepcopy(module.state_dict())
    check(module)
    assert module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())


def test_an_instance_tells_its_heads_if_it_is_asked() -> None:
    assert "it behaves like 4 heads" in check(Plain(24, 4)).text()
    assert check(Plain(24, 1), heads=4).mistakes == ["heads_not_split"]


def test_the_meaning_of_true_can_be_promised() -> None:
    assert check(Plain, mask="block").ok
    assert check(Plain, mask="keep").mistakes == ["mask_inverted"]


def test_constructor_arguments_can_be_given() -> None:
    class Odd(Plain):
        def __init__(self, flavour, width, heads):
            if flavour != "vanilla":
                raise ValueError(f"no {flavour}")
            super().__init__(width, heads)

    assert check(Odd).mistakes == ["cannot_call"]
    assert "its constructor fails: ValueError: no 24" in check(Odd).text()
    assert check(Odd, arguments={"flavour": "vanilla"}).ok


def test_what_can_not_be_checked_is_said() -> None:
    report = check(42)
    assert report.mistakes == ["cannot_call"]
    assert not report.ok
    with pytest.raises(AssertionError, match="it could not be called"):
        assert_attention(nn.Linear)


def test_assert_attention_shows_the_report() -> None:
    class Unscaled(Plain):
        def forward(self, q, k, v):
            return super().forward(q * 10, k, v)

    with pytest.raises(AssertionError, match="scores not scaled by 1/√d_k") as failure:
        assert_attention(Unscaled)
    assert "expected 0.408 = 1/√6" in str(failure.value)


def test_the_padding_token_of_a_loss_can_be_said() -> None:
    assert check(nn.CrossEntropyLoss(), pad=0).mistakes == ["loss_counts_padding"]
    assert check(nn.CrossEntropyLoss(ignore_index=0), pad=0).ok
    assert not check(nn.CrossEntropyLoss()).ok  # it may well be -100: nothing is said against it
    assert check(nn.CrossEntropyLoss()).mistakes == []


def test_it_is_one_call_from_the_package() -> None:
    assert glassformer.check(Plain).ok
    assert glassformer.check(Plain).ok  # the second time `glassformer.check` is the package itself
    glassformer.assert_attention(Plain)


def test_rotary_positions_are_not_judged() -> None:
    class Turn(nn.Module):
        def forward(self, x):
            half = x.size(-1) // 2
            angle = torch.arange(x.size(1))[:, None] * 10000.0 ** (-torch.arange(half) / half)
            a, b = x[..., :half], x[..., half:]
            return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    report = check(Turn())
    assert report.kind == "positions"
    assert report.mistakes == []
    assert "rotary" in report.text()
