"""Groups by length, qualities, differences, times."""

from __future__ import annotations

import random

import pytest
import torch

from glassformer.compare.measure import difference, group_by_length, growth, pass_times, quality
from glassformer.config import ModelConfig
from glassformer.model.build import build_model
from tests.unit.model.models import SMALL, vocabulary


def test_every_sentence_is_in_one_group() -> None:
    draw = random.Random(0)
    lengths = [draw.randint(1, 60) for _ in range(500)]
    groups = group_by_length(lengths, longest=40)
    assert sorted(place for group in groups for place in group.places) == list(range(500))
    assert [group.longer for group in groups] == [False] * 4 + [True] * 2
    for group in groups:
        assert all(group.first <= lengths[place] <= group.last for place in group.places)
        assert group.longer == (group.first > 40)


def test_groups_of_odd_corpora() -> None:
    assert [group.label for group in group_by_length([3] * 10, longest=0)] == ["3–3"]
    assert not any(group.longer for group in group_by_length([1, 2, 3, 4, 5], longest=0))
    few = group_by_length([2, 3, 4, 5, 9], longest=5)  # one longer sentence makes no group
    assert [group.longer for group in few] == [False] * 4


def test_quality_is_higher_when_it_is_better() -> None:
    right = ["a b c d", "e f g h"]
    for metric in ("words", "exact", "bleu"):
        assert quality(metric, right, right) == pytest.approx(100)
        assert quality(metric, ["a b x d", "x"], right) < 60
    assert quality("words", ["z " * 50, "z"], right) == 0
    assert quality("words", ["z " * 50, "e f g h"], right) == 50  # endless babble costs its own sentence only


def test_a_difference_has_a_sign_and_an_interval() -> None:
    draw = random.Random(0)
    right = [" ".join(draw.choices("abcdef", k=6)) for _ in range(80)]
    worse = [text[:-1] + "x" if n % 3 else text for n, text in enumerate(right)]
    for metric in ("words", "exact"):
        found = difference(metric, worse, right, right)
        assert found.points < 0
        assert found.low <= found.points <= found.high
        assert found.clear
        assert found.points == pytest.approx(quality(metric, worse, right) - 100)
        same = difference(metric, right, right, right)
        assert (same.points, same.clear) == (0, False)


def test_times_are_taken_for_every_length() -> None:
    torch.manual_seed(0)
    models = {
        "a": build_model(ModelConfig(**SMALL), vocabulary()).eval(),
        "b": build_model(ModelConfig(**SMALL, architecture="recurrent"), vocabulary()).eval(),
    }
    found = pass_times(models, (8, 16), rounds=2)
    assert set(found) == {"a", "b"}
    assert all(set(times) == {8, 16} and min(times.values()) > 0 for times in found.values())
    assert growth({8: 1.0, 16: 4.0, 32: 16.0}) == pytest.approx(2)
