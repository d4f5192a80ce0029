"""What the benchmarks compute from what they measure."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.decode import percentile, same_share, without_lists
from benchmarks.flops import multiplications, operations
from benchmarks.growth import Case, Update, exponent
from benchmarks.quality import merged, spread
from benchmarks.training import near, row

TINY = {"width": 8, "feed_forward": 16, "encoder_layers": 2, "decoder_layers": 3}


def test_multiplications_are_those_that_torch_counts() -> None:
    """torch's own counter, over our model with explicit attention, on sentences without padding."""
    from torch.utils.flop_counter import FlopCounterMode

    from glassformer.config import ModelConfig, VocabularyConfig
    from glassformer.model.build import build_model
    from glassformer.model.record import record

    vocabulary = VocabularyConfig(50, 50, source_pad=49, target_pad=49, start=49)
    model = build_model(ModelConfig(**TINY, heads=2), vocabulary).eval()
    source, target = torch.randint(2, 49, (3, 7)), torch.randint(2, 49, (3, 5))
    with FlopCounterMode(display=False) as counter, torch.no_grad(), record():
        model.decode(model.encode(source, torch.tensor([7, 7, 7])), target)
    # It counts the whole square of causal attention; we count the half that may be looked at.
    square, half = 2 * 8 * 5 * 5, 8 * 5 * 6
    ours = multiplications(TINY, 50, [7] * 3, [5] * 3) + 3 * 3 * (square - half)
    assert counter.get_total_flops() == 2 * ours


def test_an_update_is_three_passes() -> None:
    assert operations(TINY, 50, [7], [5]) == 6 * multiplications(TINY, 50, [7], [5])


def test_padding_is_not_counted() -> None:
    apart = multiplications(TINY, 50, [3], [2]) + multiplications(TINY, 50, [9], [8])
    assert multiplications(TINY, 50, [3, 9], [2, 8]) == apart


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponents_are_found(power: float) -> None:
    assert exponent([(x, 7 * x**power) for x in (2, 16, 1024)]) == pytest.approx(power)


def test_an_update_of_growth_moves_the_weights() -> None:
    update = Update(Case(sentences=2, length=4, width=32, layers=1, vocabulary=60))
    before = [parameter.clone() for parameter in update.objective.parameters()]
    update()
    after = update.objective.parameters()
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_percentiles_are_values_that_were_measured() -> None:
    waits = [float(n) for n in range(1, 101)]
    assert percentile(waits, 0.5) == 50
    assert percentile(waits, 0.99) == 99
    assert percentile([4.0], 0.99) == 4


def test_texts_are_compared_place_by_place() -> None:
    assert same_share([1, 2, 3, 4], [1, 2, 4, 3]) == 0.5


def test_single_waits_do_not_go_into_the_file() -> None:
    assert without_lists({"p50": 1.0, "waits": [1.0]}) == {"p50": 1.0}


def measured(loss: float) -> list[dict[str, Any]]:
    return [{"tokens/s": 100.0, "GFLOP/s": 50.0, "loss": loss, "peak MB": 10.0}]


def test_a_peer_that_learns_something_else_is_not_quoted() -> None:
    ours, peak = measured(6.0), [{"GFLOP/s": 100.0}]
    fair = row("peer", measured(6.1), ours, peak)
    assert near(measured(6.1), ours)
    assert fair["share of peak"] == "50%"
    unfair = row("peer", measured(6.2), ours, peak)
    assert not near(measured(6.2), ours)
    assert unfair["ours is × as fast"] == unfair["target tokens/s"] == "not quoted"
    assert unfair["loss against ours"] == "+3.3%"


def test_validation_sentences_are_those_of_glass_train() -> None:
    assert spread(list(range(10)), 5) == [0, 2, 4, 6, 8]
    assert spread([1, 2], 5) == [1, 2]


def test_runs_of_the_same_minutes_stand_side_by_side() -> None:
    result = {"minutes": 20.0, "updates": 5, "bleu": 30.0, "test bleu": 31.0, "about": "", "signature": "s"}
    first = merged({}, "ours", result)
    both = merged(first, "peer", {**result, "bleu": 20.0})
    assert [line["validation BLEU"] for line in both["rows"]] == [30.0, 20.0]
    assert list(merged(both, "ours", {**result, "minutes": 1.0})["runs"]) == ["ours"]
