from __future__ import annotations

import math

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.model.scores import Additive, Bilinear, Projected, ScaledDot, make_score


@pytest.fixture
def q_k() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 3, 4, 8, dtype=torch.float64), torch.randn(2, 3, 5, 6, dtype=torch.float64)


def test_scaled_dot_is_equation_one() -> None:
    q, k = torch.randn(1, 1, 2, 16), torch.randn(1, 1, 3, 16)
    torch.testing.assert_close(ScaledDot(16)(q, k), q @ k.mT / 4)
    torch.testing.assert_close(ScaledDot(16, "init")(q, k), q @ k.mT)


def test_additive_is_its_formula(q_k: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k = q_k
    score = Additive(3, 8, 6, hidden=7).double()
    got = score(q, k)
    for b, h, t, s in [(0, 0, 0, 0), (1, 2, 3, 4), (0, 1, 2, 3)]:
        hidden = torch.tanh(q[b, h, t] @ score.query_HKJ[h] + k[b, h, s] @ score.key_HKJ[h])
        assert got[b, h, t, s].item() == pytest.approx((hidden @ score.vector_HJ[h]).item())


def test_bilinear_is_its_formula(q_k: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k = q_k
    score = Bilinear(3, 8, 6).double()
    got = score(q, k)
    expected = q[1, 2, 3] @ score.between_HKJ[2] @ k[1, 2, 4] / math.sqrt(6)
    assert got[1, 2, 3, 4].item() == pytest.approx(expected.item())


def test_projected_is_its_formula(q_k: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k = q_k
    score = Projected(3, 8, 6, hidden=9).double()
    got = score(q, k)
    expected = (q[1, 2, 3] @ score.query_HKJ[2]) @ (k[1, 2, 4] @ score.key_HKJ[2]) / 3
    assert got[1, 2, 3, 4].item() == pytest.approx(expected.item())


def test_bilinear_with_the_identity_is_the_dot_product() -> None:
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)
    score = Bilinear(3, 8, 8)
    score.between_HKJ.data.copy_(torch.eye(8).expand(3, 8, 8))
    torch.testing.assert_close(score(q, k), ScaledDot(8)(q, k))


@pytest.mark.parametrize("kind", ["scaled_dot", "bilinear", "projected"])
def test_without_the_root_initial_scores_are_no_larger(kind: str) -> None:
    """T5's way: the scale sits in the initial weights, so that scores start at the same size."""
    torch.manual_seed(0)
    q, k = torch.randn(8, 2, 16, 64), torch.randn(8, 2, 16, 64)
    if kind == "scaled_dot":
        q = q / 8  # what a query projection with a smaller gain gives
    with_root = make_score(kind, 2, 64, 64, "sqrt")(q if kind != "scaled_dot" else q * 8, k).std()
    in_init = make_score(kind, 2, 64, 64, "init")(q, k).std()
    assert in_init.item() == pytest.approx(with_root.item(), rel=0.15)


def test_a_dot_product_of_unequal_widths_is_refused() -> None:
    with pytest.raises(ConfigError, match="not 8 and 6; choose score = additive, bilinear or projected"):
        make_score("scaled_dot", 2, 8, 6)


def test_an_unknown_score_lists_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"'cosine'.*additive"):
        make_score("cosine", 2, 8, 8)
