"""Schedules against the paper's numbers, AdamW's groups, and the running mean."""

from __future__ import annotations

import doctest
import itertools

import pytest
import torch
from torch import nn

from glassformer.recipe import TrainConfig
from glassformer.train import optim
from glassformer.train.optim import (
    MovingMean,
    build_optimizer,
    build_schedule,
    load_optimizer_tensors,
    optimizer_tensors,
    set_rate,
)


def test_the_examples_in_the_docstrings() -> None:
    failed, tried = doctest.testmod(optim)
    assert tried >= 8
    assert failed == 0


@pytest.mark.parametrize(
    ("step", "rate"), [(1, 1.746928e-7), (4000, 6.987712e-4), (16000, 3.493856e-4), (100000, 1.397542e-4)]
)
def test_noam_gives_the_numbers_of_the_paper(step: int, rate: float) -> None:
    schedule = build_schedule("noam", peak=1.0, warmup=4000, final=0.0, width=512)
    assert schedule(step, 0.0) == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("name", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_every_schedule_climbs_to_its_peak_and_never_above(name: str) -> None:
    schedule = build_schedule(name, peak=0.01, warmup=50, final=0.1, width=512)
    rates = [schedule(step, step / 500) for step in range(1, 501)]
    assert rates.index(max(rates)) == 49
    assert max(rates) == pytest.approx(0.01)
    assert all(a <= b for a, b in itertools.pairwise(rates[:50]))
    assert all(a >= b for a, b in itertools.pairwise(rates[49:]))
    assert min(rates) > 0


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_a_falling_schedule_ends_where_it_should_even_late(name: str) -> None:
    schedule = build_schedule(name, peak=0.01, warmup=50, final=0.1, width=512)
    assert schedule(500, 1.0) == pytest.approx(0.001)
    assert schedule(510, 1.02) == pytest.approx(0.001), "a run that goes on past its limit stays at the end"
    assert schedule(10, 1.0) == pytest.approx(0.002), "a run shorter than its warm-up never falls"


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        set_rate(optimizer, 0.01 * (step + 1))
        optimizer.zero_grad()
        model(torch.arange(6.0).reshape(2, 3)).square().sum().backward()
        optimizer.step()


def test_only_matrices_decay() -> None:
    model = network()
    optimizer = build_optimizer(model, TrainConfig(weight_decay=0.5))
    decayed = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for parameter in model.parameters():
        assert decayed[id(parameter)] == (0.5 if parameter.ndim == 2 else 0.0)


def test_the_optimizer_state_survives_as_plain_tensors() -> None:
    settings = TrainConfig(weight_decay=0.1)
    straight, first, second = network(), network(), network()
    optimizer = build_optimizer(straight, settings)
    train(straight, optimizer, 3)
    train(straight, optimizer, 3)
    half = build_optimizer(first, settings)
    train(first, half, 3)
    second.load_state_dict(first.state_dict())
    rest = build_optimizer(second, settings)
    tensors = optimizer_tensors(half, first)
    assert "exp_avg_sq.0.weight" in tensors
    load_optimizer_tensors(rest, second, {name: tensor.clone() for name, tensor in tensors.items()})
    train(second, rest, 3)
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), second.parameters(), strict=True))


def test_the_mean_is_plain_first_and_exponential_later() -> None:
    weight = nn.Parameter(torch.tensor([100.0]))
    mean = MovingMean([weight], reach=4)
    for value in (1.0, 2.0, 3.0, 4.0):
        weight.data.fill_(value)
        mean.update()
    assert mean.mean[0].item() == pytest.approx(2.5), "nothing of the start is left"
    weight.data.fill_(6.5)
    mean.update()
    assert mean.mean[0].item() == pytest.approx(3.5)
    mean.swap()
    assert weight.item() == pytest.approx(3.5)
    mean.swap()
    assert weight.item() == 6.5
