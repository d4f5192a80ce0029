"""The loop: what must not change its results, and what must stop it."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.errors import TrainingError
from glassformer.train.checkpoint import average_weights
from glassformer.train.loop import Loop
from glassformer.train.objective import Losses, TranslationObjective
from tests.unit.train.conftest import MakeLoop, metrics_of, weights_in

EVERYTHING = {
    "ema": 10,
    "accumulate": 2,
    "bpe_dropout": 0.1,
    "schedule": "cosine",
    "weight_decay": 0.01,
    "model": {"dropout": 0.2, "attention_dropout": 0.2},
}


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def stop_after(loop: Loop, step: int) -> None:
    """Make the loop die in the middle of things, as if it had been killed."""
    update = loop.update

    def killed() -> None:
        if loop.progress.step == step:
            raise SystemExit
        update()

    loop.update = killed  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        loop.run()


def test_it_learns_to_spell_backwards(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(
        tmp_path,
        max_steps=200,
        validate_every=100,
        learning_rate=0.01,
        label_smoothing=0.0,
        model={"width": 32, "feed_forward": 64, "dropout": 0.0, "attention_dropout": 0.0},
    )
    loop.run()
    entries = metrics_of(tmp_path)
    losses = [entry["loss"] for entry in entries if entry["kind"] == "valid"]
    assert losses[-1] < 1.2
    assert losses[-1] < losses[0]
    assert [entry["step"] for entry in entries if entry["kind"] == "train"] == list(range(2, 201, 2))


def test_the_padding_never_learns(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, weight_decay=0.1, ema=5)
    loop.run()
    pad = loop.bundle.config.vocabulary.target_pad
    assert not loop.model.output_weight[pad].any()


@pytest.mark.parametrize(
    ("settings", "died_after"),
    [
        ({}, 7),
        (EVERYTHING, 1),
        (EVERYTHING, 10),
        (EVERYTHING, 13),
        ({"stop_on": "bleu", "r_drop": 1.0}, 13),
        ({**EVERYTHING, "optimizer": "muon", "matrix_rate": 2.0}, 13),
    ],
)
def test_a_killed_run_ends_as_if_nothing_had_happened(
    loop_in: MakeLoop, tmp_path: Path, settings: dict[str, Any], died_after: int
) -> None:
    straight = loop_in(tmp_path / "straight", **settings)
    straight.run()
    stop_after(loop_in(tmp_path / "killed", **settings), died_after)
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 1')  # the line that was being written
    resumed = loop_in(tmp_path / "killed", **settings)
    resumed.run()
    assert equal(weights_in(straight), weights_in(resumed))
    assert metrics_of(tmp_path / "straight") == metrics_of(tmp_path / "killed")
    steps = [[c.step for c in loop.checkpoints.all()] for loop in (straight, resumed)]
    assert steps[0] == steps[1]
    best = [average_weights(loop.checkpoints.best(1)) for loop in (straight, resumed)]
    assert equal(list(best[0].values()), list(best[1].values()))


def test_two_hundred_updates_straight_or_in_halves(loop_in: MakeLoop, tmp_path: Path) -> None:
    settings = {**EVERYTHING, "max_steps": 200, "validate_every": 100, "validate_bleu": 0, "samples": 0}
    settings |= {"accumulate": 1, "batch_tokens": 60}
    straight = loop_in(tmp_path / "straight", **settings)
    straight.run()
    stop_after(loop_in(tmp_path / "halves", **settings), 100)
    resumed = loop_in(tmp_path / "halves", **settings)
    resumed.run()
    assert equal(weights_in(straight), weights_in(resumed))
    assert metrics_of(tmp_path / "straight") == metrics_of(tmp_path / "halves")


def test_a_polite_interruption_saves_and_changes_nothing(loop_in: MakeLoop, tmp_path: Path) -> None:
    straight = loop_in(tmp_path / "straight", **EVERYTHING)
    straight.run()
    loop = loop_in(tmp_path / "stopped", **EVERYTHING)
    update = loop.update

    def interrupted() -> None:
        update()
        if loop.progress.step == 7:
            os.kill(os.getpid(), signal.SIGINT)

    loop.update = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert "the same command goes on from here" in loop.report.said[-1]  # type: ignore[attr-defined]
    assert [c.step for c in loop.checkpoints.all()] == [5, 7]
    resumed = loop_in(tmp_path / "stopped", **EVERYTHING)
    resumed.run()
    assert equal(weights_in(straight), weights_in(resumed))
    assert metrics_of(tmp_path / "straight") == metrics_of(tmp_path / "stopped")
    assert [c.step for c in resumed.checkpoints.all()] == [c.step for c in straight.checkpoints.all()]


def test_accumulation_equals_the_big_batch(loop_in: MakeLoop, tmp_path: Path) -> None:
    """The gradient of three batches at once, and of the three one after the other."""
    dry = {"model": {"dropout": 0.0, "attention_dropout": 0.0}, "clip": 0.5}
    loop = loop_in(tmp_path, **dry, accumulate=3)
    loop.gradients(range(3))
    pairs = [loop.feed.store.pair(i) for n in range(3) for i in loop.feed.order.batches(0)[n]]
    tokens = sum(len(target) + 1 for _, target in pairs)
    length = loop.divide_and_clip(tokens)
    ours = [p.grad.clone() for p in loop.model.parameters() if p.grad is not None]

    from glassformer.data.batch import collate

    objective = TranslationObjective(loop.model, 0.1)
    for parameter in loop.model.parameters():
        parameter.grad = None
    (objective(collate(pairs, loop.feed.vocabulary)).loss_sum / tokens).backward()
    expected = torch.nn.utils.clip_grad_norm_(loop.model.parameters(), 0.5)
    assert length == pytest.approx(float(expected), rel=1e-4)
    assert length > 0.5, "or nothing was clipped here"
    theirs = [p.grad for p in loop.model.parameters() if p.grad is not None]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_the_last_update_of_an_epoch_takes_what_is_left(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, accumulate=4, max_steps=0, max_epochs=2)
    count = loop.feed.count(0)
    assert count % 4, "or this tests nothing"
    loop.run()
    assert loop.progress.epoch == 2
    assert loop.progress.step == 2 * math.ceil(count / 4)


class Broken:
    """Makes the objective return rubbish, or raise, in chosen updates."""

    def __init__(self, loop: Loop, monkeypatch: pytest.MonkeyPatch, steps: set[int], value: float) -> None:
        forward = TranslationObjective.forward

        def broken(objective: TranslationObjective, batch: Any) -> Losses:
            losses = forward(objective, batch)
            if objective.training and loop.progress.step in steps:
                return losses._replace(loss_sum=losses.loss_sum * value)
            return losses

        monkeypatch.setattr(TranslationObjective, "forward", broken)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bad_update_is_skipped_and_counted(
    loop_in: MakeLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    loop = loop_in(tmp_path, max_steps=10, max_bad_steps=3)
    Broken(loop, monkeypatch, {3, 4, 8}, value)
    loop.run()
    assert loop.progress.skipped == 3
    assert all(torch.isfinite(weight).all() for weight in weights_in(loop))
    assert metrics_of(tmp_path)[-2]["skipped"] == 3
    said = loop.report.said  # type: ignore[attr-defined]
    assert sum("skipped" in text for text in said) == 3


def test_bad_updates_in_a_row_stop_the_run(
    loop_in: MakeLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = loop_in(tmp_path, max_bad_steps=4)
    Broken(loop, monkeypatch, set(range(12, 100)), math.nan)
    with pytest.raises(TrainingError, match=r"4 updates in a row.*nan.*step-00000015.*learning_rate=0\.0025"):
        loop.run()
    newest = loop.checkpoints.newest()
    assert newest is not None
    assert newest.step == 15
    assert all(torch.isfinite(w).all() for w in Bundle.load(newest.path).model.parameters())


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
def test_an_absurd_learning_rate_stops_soon(loop_in: MakeLoop, tmp_path: Path, schedule: str) -> None:
    loop = loop_in(tmp_path, learning_rate=1e6, warmup=1, schedule=schedule, max_steps=500, max_bad_steps=5)
    with pytest.raises(TrainingError, match="diverged"):
        loop.run()
    assert loop.progress.step < 100
    assert loop.checkpoints.all() == [], "a model that has diverged is not saved"


def test_one_weight_that_is_no_number(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, max_bad_steps=5)
    next(loop.model.encoder.parameters()).data.view(-1)[0] = math.nan
    with pytest.raises(TrainingError, match="5 updates in a row"):
        loop.run()


def test_when_memory_runs_out_batches_are_cut(
    loop_in: MakeLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry: dict[str, Any] = {"model": {"dropout": 0.0, "attention_dropout": 0.0}, "max_steps": 6}
    plenty = loop_in(tmp_path / "plenty", **dry)
    plenty.run()
    forward = TranslationObjective.forward

    def small(objective: TranslationObjective, batch: Any) -> Losses:
        losses = forward(objective, batch)
        if len(batch) > 9 and objective.training:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return losses

    monkeypatch.setattr(TranslationObjective, "forward", small)
    scarce = loop_in(tmp_path / "scarce", **dry)
    scarce.run()
    assert scarce.parts > 1
    assert "out of memory: batches are cut in 2" in scarce.report.said[0]  # type: ignore[attr-defined]
    losses = [
        [entry["loss"] for entry in metrics_of(path)] for path in (tmp_path / "plenty", tmp_path / "scarce")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_when_not_even_a_sentence_fits(
    loop_in: MakeLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(objective: TranslationObjective, batch: Any) -> Losses:
        raise MemoryError

    monkeypatch.setattr(TranslationObjective, "forward", never)
    with pytest.raises(TrainingError, match=r"batch_tokens=60 train\.accumulate=2"):
        loop_in(tmp_path).run()


def test_other_errors_are_not_taken_for_lack_of_memory(
    loop_in: MakeLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(objective: TranslationObjective, batch: Any) -> Losses:
        raise RuntimeError("a bug")

    monkeypatch.setattr(TranslationObjective, "forward", wrong)
    with pytest.raises(RuntimeError, match="a bug"):
        loop_in(tmp_path).run()


def test_patience_ends_a_run_that_gets_no_better(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, max_steps=0, patience=3, learning_rate=1e-9)
    loop.validator = _Falling([3.0, 2.0, 2.5, 2.4, 2.1, 1.0])
    loop.run()
    assert loop.progress.step == 25
    assert loop.progress.best == 2.0
    assert loop.progress.best_step == 10
    assert "3 validations in a row" in loop.reason_to_stop()


class _Falling:
    def __init__(self, losses: list[float]) -> None:
        self.losses = iter(losses)

    def __call__(self) -> Any:
        from glassformer.train.report import Validation

        return Validation(next(self.losses))


def test_minutes_end_a_run_and_the_rate_has_fallen_by_then(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, max_steps=0, max_minutes=0.02, schedule="linear", validation=False)
    loop.run()
    rates = [entry["rate"] for entry in metrics_of(tmp_path) if entry["kind"] == "train"]
    assert 1.2 <= loop.progress.seconds < 5
    assert max(rates) <= 0.01
    assert rates[-1] < 0.002
    assert "0.02 minutes are over" in loop.reason_to_stop()


def test_minutes_between_validations(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, validate_minutes=1e-6, max_steps=4)
    loop.run()
    assert [entry["step"] for entry in metrics_of(tmp_path) if entry["kind"] == "valid"] == [1, 2, 3, 4]


def test_a_checkpoint_holds_the_mean_and_the_mean_is_what_is_validated(
    loop_in: MakeLoop, tmp_path: Path
) -> None:
    loop = loop_in(tmp_path, ema=50, max_steps=10)
    loop.run()
    newest = loop.checkpoints.newest()
    assert newest is not None
    assert loop.mean is not None
    saved = Bundle.load(newest.path).model
    assert equal(list(saved.parameters()), loop.mean.mean)
    assert not equal(list(saved.parameters()), weights_in(loop))
    assert loop.validator is not None
    assert newest.score == loop.validator.__class__(Bundle.load(newest.path), _pairs(), loop.config)().loss  # type: ignore[call-arg]


def _pairs() -> list[tuple[str, str]]:
    from tests.unit.train.conftest import make_pairs

    return make_pairs(16)


def test_without_validation_pairs_the_run_still_saves(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(tmp_path, validation=False)
    loop.run()
    assert [c.step for c in loop.checkpoints.all()] == [15, 20]
    assert loop.progress.best is None
