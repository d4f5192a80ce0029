from __future__ import annotations

import pytest
import torch

from glassformer.model.parts import Dropout, Linear, RMSNorm


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean_and_the_share(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 101)
    out = Dropout(p)(x)
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert out.mean().item() == pytest.approx(1, abs=0.02 / (1 - p))
    kept = out[out != 0]
    assert kept.min().item() == kept.max().item() == pytest.approx(1 / (1 - p), rel=1e-4)


def test_dropout_draws_are_independent_of_their_neighbours() -> None:
    """Four elements come from one draw of 64 bits: neither they nor rows may go together."""
    torch.manual_seed(0)
    dropped = (Dropout(0.3)(torch.ones(400_000)) == 0).double() - 0.3
    for distance in (1, 2, 3, 4, 5, 8, 64):
        correlation = (dropped[:-distance] * dropped[distance:]).mean() / dropped.var()
        assert abs(correlation.item()) < 0.01


def test_dropout_sends_gradients_through_what_it_kept() -> None:
    x = torch.randn(7, 9, requires_grad=True)
    out = Dropout(0.4)(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out != 0).float() * (out / x).max())


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_is_mask_times_scale_rounded_once(kind: torch.dtype) -> None:
    x = torch.randn(400, 7).to(kind)
    out = Dropout(0.25)(x)
    assert out.dtype == kind
    assert torch.equal(out, torch.where(out == 0, 0, x * (4 / 3)))


def test_dropouts_of_one_seed_differ_from_call_to_call() -> None:
    torch.manual_seed(3)
    layer, x = Dropout(0.5), torch.ones(1000)
    assert 400 < (layer(x) == layer(x)).sum().item() < 600


def test_dropout_follows_the_seed_and_rests_in_evaluation() -> None:
    layer, x = Dropout(0.5), torch.ones(100)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert layer.eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_packed_blocks_start_as_if_they_stood_alone() -> None:
    torch.manual_seed(0)
    layer = Linear(64, [64, 16, 16])
    for block in layer.weight.split([64, 16, 16]):
        bound = (6 / (64 + block.shape[0])) ** 0.5
        assert block.abs().max().item() == pytest.approx(bound, rel=0.02)
    assert not layer.bias.any()


def test_rms_norm_is_its_formula() -> None:
    norm, x = RMSNorm(8), torch.randn(3, 8)
    norm.weight.data.uniform_(0.5, 2)
    torch.testing.assert_close(norm(x), x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight)
