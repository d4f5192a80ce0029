"""One set of weights, four uses: each of them works, and every order agrees on the probability of a whole."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.look import uses
from glassformer.model.families import Reader
from glassformer.model.masks import hidden_ranks, left_to_right_ranks, permuted_ranks, prefix_ranks


@pytest.fixture(scope="module")
def model() -> Reader:
    made = uses.new_model()
    uses.learn(made)
    return made


def test_all_four_uses_know_their_sums(model: Reader) -> None:
    ids_BT = uses.sums()
    b = len(ids_BT)
    answer_BT = torch.zeros(b, uses.LENGTH, dtype=torch.bool)
    answer_BT[:, uses.ANSWER] = True
    orders = (
        hidden_ranks(answer_BT),
        left_to_right_ranks(b, uses.LENGTH),
        prefix_ranks([uses.ANSWER] * b, uses.LENGTH),
        torch.tensor([[2, 1, 3, 0, 4]]).expand(b, -1),
    )
    for ranks_BT in orders:
        found = uses.log_probs(model, ids_BT, ranks_BT)[:, uses.ANSWER].exp()
        assert float(found.mean()) > 0.9
    hidden_BT = torch.zeros_like(answer_BT)
    hidden_BT[:, 2] = True
    assert float(uses.log_probs(model, ids_BT, hidden_ranks(hidden_BT))[:, 2].exp().mean()) > 0.9


def test_every_order_agrees_on_the_probability_of_a_sum(model: Reader) -> None:
    """The chain rule holds in any order: all hundred sums are as likely, so each costs ln 100."""
    ids_BT = uses.sums()
    left = uses.log_probs(model, ids_BT, left_to_right_ranks(100, uses.LENGTH)).sum(1)
    permuted = uses.log_probs(
        model, ids_BT, permuted_ranks(100, uses.LENGTH, torch.Generator().manual_seed(1))
    ).sum(1)
    assert math.isclose(-float(left.mean()), math.log(100), abs_tol=0.3)
    assert math.isclose(-float(permuted.mean()), math.log(100), abs_tol=0.5)
