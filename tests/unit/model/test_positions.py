from __future__ import annotations

import math

import pytest
import torch

from glassformer.errors import RequestError
from glassformer.model.positions import Alibi, Learned, Positions, Rotary, Sinusoidal, alibi_slopes, sinusoids


def test_sinusoids_are_the_papers() -> None:
    """Width 8, position 3: the numbers of section 3.5."""
    expected = [0.14112, -0.98999, 0.29552, 0.95534, 0.0299955, 0.99955, 0.003, 0.9999955]
    assert sinusoids(4, 8)[3].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_shift_is_a_rotation() -> None:
    """PE(p + k) = R(k)·PE(p) for every p: what the paper says lets the model learn relative positions."""
    width, shift = 16, 5
    table = sinusoids(200, width)
    rotation = torch.zeros(width, width, dtype=torch.float64)
    for pair in range(width // 2):
        angle = shift / 10000 ** (2 * pair / width)
        # (sin, cos) of p + k from (sin, cos) of p
        rotation[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
    torch.testing.assert_close(table[:-shift] @ rotation.T, table[shift:], atol=1e-12, rtol=0)


def test_sinusoids_grow_past_their_table() -> None:
    positions = Sinusoidal(8, length=4)
    x = torch.zeros(1, 100, 8)
    grown = positions.embed(x, range(100))
    torch.testing.assert_close(grown[0], sinusoids(100, 8).float(), atol=0, rtol=0)
    torch.testing.assert_close(positions.embed(x[:, :1], range(77, 78)), grown[:, 77:78], atol=0, rtol=0)


def test_every_precision_sees_the_same_table() -> None:
    double = Sinusoidal(8, length=4).double()
    assert torch.equal(
        double.embed(torch.zeros(1, 50, 8).double(), range(50))[0].float(), sinusoids(50, 8).float()
    )


def test_learned_positions_end_with_a_clear_error() -> None:
    positions = Learned(8, 4)
    assert positions.embed(torch.zeros(1, 4, 8), range(4)).shape == (1, 4, 8)
    with pytest.raises(RequestError, match=r"5 tokens is longer than the 4 positions.*max_length"):
        positions.embed(torch.zeros(1, 5, 8), range(5))


def test_rotary_scores_depend_on_distance_alone() -> None:
    rotary = Rotary(8, length=2).double()
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def score(query_place: int, key_place: int) -> float:
        turned_q = rotary.turn(q, range(query_place, query_place + 1))
        turned_k = rotary.turn(k, range(key_place, key_place + 1))
        return float((turned_q * turned_k).sum())

    assert score(3, 1) == pytest.approx(score(50, 48), rel=1e-5)
    assert score(0, 0) == pytest.approx(float((q * k).sum()))
    assert score(3, 1) != pytest.approx(score(4, 1), rel=1e-3)


def test_rotary_keeps_lengths() -> None:
    x = torch.randn(2, 3, 5, 8)
    turned = Rotary(8).turn(x, range(5))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 16])
def test_alibi_has_a_falling_slope_for_each_head(heads: int) -> None:
    slopes = alibi_slopes(heads)
    assert len(slopes) == heads
    assert len(set(slopes.tolist())) == heads
    assert bool((slopes > 0).all())
    assert bool((slopes <= 1).all())


def test_alibi_is_minus_slope_times_distance() -> None:
    bias = Alibi(2).bias(range(3), range(3))
    slope = alibi_slopes(2)[1].item()
    assert bias[1].tolist() == [[0, -slope, -2 * slope], [-slope, 0, -slope], [-2 * slope, -slope, 0]]


def test_no_positions_change_nothing() -> None:
    x = torch.randn(2, 3, 4)
    none = Positions()
    assert none.embed(x, range(3)) is x
    assert none.turn(x, range(3)) is x
    assert none.bias(range(3), range(3)) is None


def test_what_translating_has_grown_serves_training() -> None:
    """A table that grew in inference mode must still let gradients through."""
    for positions in (Sinusoidal(8, length=2), Rotary(8, length=2)):
        with torch.inference_mode():
            positions.embed(torch.zeros(1, 9, 8), range(9))
            positions.turn(torch.zeros(1, 1, 9, 8), range(9))
        x = torch.randn(1, 1, 9, 8, requires_grad=True)
        (positions.turn(x, range(9)) + positions.embed(x[0], range(9))).sum().backward()
        assert x.grad is not None
