"""Penalties, rules, the two-stage choice and forced scoring."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.search.scoring import (
    MinLength,
    NoRepeat,
    SearchOptions,
    best_case,
    best_continuations,
    forced_log_probs,
    length_factor,
)


def test_length_factor_of_wu_et_al() -> None:
    assert length_factor(10, 0.6, "wu") == pytest.approx((15 / 6) ** 0.6)
    assert length_factor(10, 0.6) == pytest.approx(10**0.6)
    assert length_factor(10, 0.0) == length_factor(10, 0.0, "wu") == 1.0


@given(
    total=st.floats(-50, 0),
    now=st.integers(1, 20),
    more=st.integers(0, 30),
    alpha=st.floats(-2, 2),
    penalty=st.sampled_from(["length", "wu"]),
    data=st.data(),
)
def test_nothing_beats_the_best_case(total: float, now: int, more: int, alpha: float, penalty, data) -> None:
    length = data.draw(st.integers(now, now + more))
    further = data.draw(st.floats(-10, 0))
    score = (total + further) / length_factor(length, alpha, penalty)
    assert score <= best_case(total, now, now + more, alpha, penalty) + 1e-9


@settings(max_examples=60)
@given(
    size=st.sampled_from([2, 7, 255, 256, 257, 300, 1000, 4099, 10001]),
    batch=st.integers(1, 3),
    beams=st.integers(1, 5),
    count=st.integers(1, 10),
    seed=st.integers(0, 2**31),
    dead=st.booleans(),
)
def test_two_stages_choose_what_one_would(
    size: int, batch: int, beams: int, count: int, seed: int, dead: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_probs_BNV = torch.randn(batch, beams, size, generator=generator, dtype=torch.float64).log_softmax(-1)
    sums_BN = torch.randn(batch, beams, generator=generator, dtype=torch.float64)
    if dead:
        sums_BN[:, 1:] = -torch.inf
        log_probs_BNV[..., -1] = -torch.inf
    before_BNV = log_probs_BNV.clone()
    sums_BK, tokens_BK, parents_BK, log_probs_BK = best_continuations(log_probs_BNV, sums_BN, count)
    expected_BK, flat_BK = (log_probs_BNV + sums_BN.unsqueeze(-1)).flatten(1).topk(min(count, beams * size))
    assert torch.equal(sums_BK, expected_BK)
    real_BK = expected_BK > -torch.inf
    assert torch.equal((parents_BK * size + tokens_BK)[real_BK], flat_BK[real_BK])
    rows = torch.arange(batch).unsqueeze(1)
    assert torch.equal(log_probs_BK[real_BK], log_probs_BNV[rows, parents_BK, tokens_BK][real_BK])
    assert torch.equal(log_probs_BNV, before_BNV)
    assert bool((tokens_BK < size).all())


def test_rules_leave_what_they_are_given_alone() -> None:
    log_probs_BNV = torch.randn(1, 2, 5).log_softmax(-1)
    before_BNV = log_probs_BNV.clone()
    tokens_BNT = torch.tensor([[[2, 3, 2], [2, 3, 4]]])
    rows = torch.tensor([0])
    changed_BNV = MinLength(4, eos=0)(log_probs_BNV, 3, rows, None)
    assert changed_BNV[..., 0].tolist() == [[-math.inf, -math.inf]]
    assert MinLength(3, eos=0)(log_probs_BNV, 3, rows, None) is log_probs_BNV
    changed_BNV = NoRepeat(2)(log_probs_BNV, 3, rows, tokens_BNT)
    assert (changed_BNV == -torch.inf).nonzero().tolist() == [[0, 0, 3]]
    changed_BNV = NoRepeat(1)(log_probs_BNV, 3, rows, tokens_BNT)
    assert (changed_BNV == -torch.inf).nonzero().tolist() == [
        [0, 0, 2],
        [0, 0, 3],
        [0, 1, 2],
        [0, 1, 3],
        [0, 1, 4],
    ]
    assert NoRepeat(4)(log_probs_BNV, 3, rows, tokens_BNT) is log_probs_BNV
    assert torch.equal(log_probs_BNV, before_BNV)


def test_forced_log_probs_are_the_gathered_log_softmax() -> None:
    logits_BTV = torch.randn(2, 3, 6)
    logits_BTV[..., 5] = -torch.inf
    target_BT = torch.tensor([[2, 3, 0], [4, 0, 5]])
    first, second = forced_log_probs(logits_BTV, target_BT, [3, 2])
    expected_BTV = logits_BTV.log_softmax(-1)
    assert first == pytest.approx([float(expected_BTV[0, t, token]) for t, token in enumerate([2, 3, 0])])
    assert second == pytest.approx([float(expected_BTV[1, t, token]) for t, token in enumerate([4, 0])])


def test_options_name_every_problem() -> None:
    found = SearchOptions(beams=2, n_best=3, temperature=0.0, top_k=-1, top_p=1.5, min_length=-1).problems()
    assert [problem.split(" = ")[0] for problem in found] == [
        "min_length",
        "n_best",
        "temperature",
        "top_k",
        "top_p",
    ]
    assert SearchOptions(beams=2, n_best=3, sampling=True).problems() == []
    assert SearchOptions(n_best=0).problems() == ["n_best = 0 must be at least 1"]
