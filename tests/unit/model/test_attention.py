from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.model.attention import (
    HeadShape,
    MultiHeadAttention,
    SelfAttention,
    attend,
    attend_fused,
    causal_mask,
    merge_heads,
    split_heads,
)
from glassformer.model.positions import Positions
from glassformer.model.record import record


def test_the_tensorflow_tutorials_example() -> None:
    k = torch.tensor([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])
    v = torch.tensor([[1.0, 0], [10, 0], [100, 5], [1000, 6]])
    out, weights = attend(torch.tensor([[0.0, 0, 10]]), k, v)
    assert weights.tolist() == [pytest.approx([0, 0, 0.5, 0.5])]
    assert out.tolist() == [pytest.approx([550, 5.5])]


def test_all_ones_give_sixteen() -> None:
    """Width 4, all weights and inputs 1, no bias: 4 after the first map, 16 after the second."""
    attention = MultiHeadAttention(HeadShape(4, 2, bias=False))
    for parameter in attention.parameters():
        parameter.data.fill_(1.0)
    x = torch.ones(2, 3, 4)
    assert torch.equal(attention(x, x, x), torch.full((2, 3, 4), 16.0))


def test_splitting_and_merging_heads_undo_each_other() -> None:
    x = torch.randn(2, 3, 12)
    split = split_heads(x, 4)
    assert split.shape == (2, 4, 3, 3)
    torch.testing.assert_close(split[1, 2, 0], x[1, 0, 6:9])
    assert torch.equal(merge_heads(split), x)


@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6)),
    widths=st.tuples(st.sampled_from([1, 2, 8]), st.sampled_from([1, 3, 8])),
    mask=st.sampled_from(["none", "some", "rows without any", "causal"]),
    with_bias=st.booleans(),
)
def test_explicit_equals_fused(
    seed: int, shape: tuple[int, int, int, int], widths: tuple[int, int], mask: str, with_bias: bool
) -> None:
    """Outputs and gradients, every kind of mask, rows that may attend nothing included."""
    torch.manual_seed(seed)
    (b, h, t, s), (width, value_width) = shape, widths
    if mask == "causal":
        s = t
    inputs = [
        torch.randn(b, h, n, w, dtype=torch.float64, requires_grad=True)
        for n, w in ((t, width), (s, width), (s, value_width))
    ]
    may_attend = None
    if mask in ("some", "rows without any"):
        may_attend = torch.rand(b, 1, t, s) < (0.7 if mask == "some" else 0.3)
    bias = torch.randn(h, t, s, dtype=torch.float64) if with_bias else None
    causal = mask == "causal"
    explicit_mask = causal_mask(t, torch.device("cpu")) if causal else may_attend
    explicit, weights = attend(*inputs, explicit_mask, bias=bias)
    fused = attend_fused(*inputs, may_attend, bias=bias, causal=causal)
    torch.testing.assert_close(fused, explicit, atol=1e-12, rtol=1e-12)
    assert bool(explicit.isfinite().all())
    total = weights.sum(-1)
    assert bool(((total - 1).abs() < 1e-9).logical_or(total == 0).all())
    direction = torch.randn_like(explicit)
    for mine, theirs in zip(
        torch.autograd.grad(explicit, inputs, direction),
        torch.autograd.grad(fused, inputs, direction),
        strict=True,
    ):
        assert bool(mine.isfinite().all())
        torch.testing.assert_close(theirs, mine, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("watched", [False, True])
def test_half_precision_stays_finite_with_masks(dtype: torch.dtype, watched: bool) -> None:
    torch.manual_seed(0)
    attention = SelfAttention(HeadShape(16, 4), Positions()).to(dtype).eval()
    x = (torch.randn(3, 5, 16) * 30).to(dtype)
    may_attend = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()[:, None, None, :]
    for causal in (False, True):
        if watched:
            with record():
                out = attention(x, may_attend, causal=causal)
        else:
            out = attention(x, may_attend, causal=causal)
        assert bool(out.isfinite().all())


def test_a_row_that_may_attend_nothing_is_zero_and_leaves_the_others_alone() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(HeadShape(8, 2, bias=False)).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    may_attend = torch.ones(2, 1, 3, 3, dtype=torch.bool)
    may_attend[1] = False
    out = attention(x, x, x, may_attend)
    assert torch.equal(out[1], torch.zeros(3, 8, dtype=torch.float64))
    torch.testing.assert_close(out[0], attention(x, x, x)[0])
    out.sum().backward()
    assert bool(x.grad.isfinite().all())  # type: ignore[union-attr]
    assert all(bool(p.grad.isfinite().all()) for p in attention.parameters() if p.grad is not None)


def test_three_inputs_of_three_widths() -> None:
    shape = HeadShape(12, 3, head_width=5, value_width=7)
    attention = MultiHeadAttention(shape, key_width=9, value_width=4).double().eval()
    query, key, value = (torch.randn(2, n, w).double() for n, w in ((3, 12), (6, 9), (6, 4)))
    out = attention(query, key, value)
    assert out.shape == (2, 3, 12)
    with record() as recorder:
        torch.testing.assert_close(attention(query, key, value), out)
    assert recorder.attention["attention"][0].shape == (2, 3, 3, 6)


def test_heads_that_share_keys_equal_heads_with_copied_keys() -> None:
    torch.manual_seed(0)
    grouped = MultiHeadAttention(HeadShape(8, 4, key_value_heads=2)).double()
    plain = MultiHeadAttention(HeadShape(8, 4)).double()
    plain.query.load_state_dict(grouped.query.state_dict())
    plain.output.load_state_dict(grouped.output.state_dict())
    for name in ("key", "value"):
        ours, theirs = getattr(grouped, name), getattr(plain, name)
        theirs.weight.data = ours.weight.data.unflatten(0, (2, 2)).repeat_interleave(2, 0).flatten(0, 1)
        theirs.bias.data = ours.bias.data.unflatten(0, (2, 2)).repeat_interleave(2, 0).flatten()
    x = torch.randn(2, 5, 8).double()
    torch.testing.assert_close(grouped(x, x, x), plain(x, x, x))


def test_dropout_acts_on_the_weights_in_training_only() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(HeadShape(16, 2, dropout=0.5), Positions())
    x = torch.randn(2, 6, 16)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_senseless_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"10.*4"):
        HeadShape(10, 4)
    with pytest.raises(ConfigError, match=r"heads \(4\) must be a multiple of key_value_heads \(3\)"):
        HeadShape(8, 4, key_value_heads=3)
