"""Text for a comparison, training side by side, and what is refused at once."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.compare import texts as texts_module
from glassformer.compare.contestants import choose
from glassformer.compare.race import Racer, race, recipe_of
from glassformer.compare.run import Settings, compare
from glassformer.compare.screen import Screen
from glassformer.compare.texts import Texts, gather
from glassformer.errors import RequestError

TINY = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "feed_forward": 16, "heads": 2}


class Quiet(Screen):
    """Keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(100.0)
        self.told: list[tuple[float, str]] = []

    def spend(self, seconds: float, doing: str) -> None:
        self.told.append((seconds, doing))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small made-up corpus."""
    for name, count in (("TRAIN", 300), ("VALID", 20), ("TEST", 24), ("BEYOND", 12)):
        monkeypatch.setattr(texts_module, name, count)


def small(texts: Texts) -> Texts:
    plan = replace(texts.plan, transformer=TINY, recurrent={**TINY, "width": 24})
    return replace(texts, plan=replace(plan, train={**plan.train, "batch_tokens": 200, "warmup": 3}))


def test_texts_overlap_nowhere_and_lengths_are_kept(tmp_path: Path, few: None) -> None:
    texts = gather("language", tmp_path, longest=10)
    trained = [line.split("\t")[0] for line in (tmp_path / "language/train.tsv").read_text().splitlines()]
    valid, test = ({source for source, _ in pairs} for pairs in (texts.valid, texts.test))
    assert len(trained) == 300
    assert not set(trained) & valid
    assert not set(trained) & test
    assert not valid & test
    assert max(len(source.split()) for source in trained) == 10 == texts.longest
    assert {len(source.split()) > 10 for source in test} == {True, False}


def test_a_file_of_pairs_is_split(tmp_path: Path) -> None:
    lines = [f"word{n} more\tmot{n} plus" for n in range(400)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    texts = gather(str(tmp_path / "pairs.tsv"), tmp_path, longest=0)
    assert texts.valid
    assert texts.test
    assert not {source for source, _ in texts.valid} & {source for source, _ in texts.test}
    with pytest.raises(RequestError, match="there is no such file"):
        gather("nowhere/pairs.tsv", tmp_path)


def test_turns_are_fair_and_each_trains_by_its_own_rate(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 0.1 * next(ticks))  # every update takes as long
    texts = small(gather("language", tmp_path, longest=8))
    wanted = [
        replace(one, rate=rate)
        for one, rate in zip(choose(["transformer", "lstm"], ()), (0.01, 0.02), strict=True)
    ]
    racers = [Racer(texts.plan.settled(one), texts, tmp_path, seconds=3.0) for one in wanted]
    before = [racer.loss() for racer in racers]
    screen = Quiet()
    race(racers, screen, "training")
    for racer, loss in zip(racers, before, strict=True):
        assert racer.loop.progress.seconds == pytest.approx(3.0, abs=0.15)
        assert racer.loop.progress.step == pytest.approx(30, abs=1)
        assert racer.loss() < loss
        assert racer.trouble == ""
        assert not racer.bundle.model.training
    assert [racer.loop.config.learning_rate for racer in racers] == [0.01, 0.02]
    turns = [doing for seconds, doing in screen.told if seconds > 0.5]
    first, second = (f"training: {racer.contestant.title}" for racer in racers)
    assert turns == [first, second, second, first]
    assert sum(seconds for seconds, _ in screen.told) == pytest.approx(6.0, abs=0.5)


def test_who_diverges_is_out_but_does_not_stop_the_others(tmp_path: Path, few: None) -> None:
    texts = small(gather("language", tmp_path, longest=8))
    wild = texts.plan.settled(replace(choose(["no-norm"], ())[0], rate=1e6))
    racers = [
        Racer(wild, texts, tmp_path, seconds=60.0),
        Racer(texts.plan.settled(choose(["lstm"], ())[0]), texts, tmp_path, seconds=0.5),
    ]
    race(racers, Quiet(), "training")
    assert "diverged" in racers[0].trouble
    assert racers[1].trouble == ""


def test_the_recipe_of_a_contestant_is_a_recipe(tmp_path: Path, few: None) -> None:
    texts = gather("language", tmp_path, longest=8)
    recipe = recipe_of(texts.plan.settled(choose(["lstm-additive"], ())[0]), texts, 30.0, seed=7)
    assert (recipe.model.architecture, recipe.model.recurrent_attention) == ("recurrent", "additive")
    assert (recipe.train.max_minutes, recipe.train.seed, recipe.data.max_tokens) == (0.5, 7, 8)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="minutes = 0 must be above 0"):
        compare(Settings(minutes=0), tmp_path)
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(RequestError, match="holds other files"):
        compare(Settings(), tmp_path)
    with pytest.raises(RequestError, match="is a file"):
        compare(Settings(), tmp_path / "mine.txt")
    with pytest.raises(RequestError, match="there is no contestant 'gru'"):
        compare(Settings(only=["gru"]), tmp_path / "new")
    with pytest.raises(RequestError, match="need 8 words"):
        compare(Settings(longest=5), tmp_path / "new")
