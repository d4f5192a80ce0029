"""Training side by side: equal time for everybody, in short turns, so that a noisy machine is noisy for all.

    A B C, B C A, C A B, …

The clock of a contestant runs only while it has its turn. Each trains through the one training loop, with
its own learning rate, which falls in a straight line to zero when its time is over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.compare.ablations import CHANGES
from glassformer.compare.contestants import SWEEP, Contestant
from glassformer.compare.screen import Screen
from glassformer.compare.texts import Texts
from glassformer.errors import TrainingError
from glassformer.model.build import count_parameters
from glassformer.model.transformer import Transformer
from glassformer.recipe import Recipe
from glassformer.train.checkpoint import Checkpoints
from glassformer.train.loop import Loop
from glassformer.train.objective import TranslationObjective
from glassformer.train.prepare import prepare
from glassformer.train.report import Entry, Report
from glassformer.train.validate import Validator

TURNS = 12
"""into how many turns each contestant's time is cut, at most"""
SHORTEST_TURN = 2.0
"""seconds; shorter ones would mostly measure how caches fill"""

MAX_LENGTH = 512
"""tokens; tests go beyond what is trained on, and learned positions must exist to be asked for"""


class Listener(Report):
    """Keeps the loop's numbers, and says nothing."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def record(self, entry: Entry) -> None:
        self.entries.append(entry)


class Racer:
    """One contestant: its model, its loop, and what became of it."""

    def __init__(
        self, contestant: Contestant, texts: Texts, directory: Path, seconds: float, seed: int = 1
    ) -> None:
        self.contestant, self.seconds, self.trouble = contestant, seconds, ""
        recipe = recipe_of(contestant, texts, seconds, seed)
        prepared = prepare(recipe, directory, say=lambda text: None)
        self.bundle: Bundle = prepared.bundle
        if contestant.change:
            model = self.bundle.model
            assert isinstance(model, Transformer)
            CHANGES[contestant.change](model)
        self.listener = Listener()
        self.loop = Loop(
            self.bundle,
            TranslationObjective(self.bundle.model, recipe.train.label_smoothing),
            prepared.feed,
            recipe.train,
            checkpoints=Checkpoints(directory / "checkpoints"),  # never written: nobody resumes a race
            report=self.listener,
        )
        self.validator = Validator(self.bundle, texts.valid, recipe.train)

    @property
    def over(self) -> bool:
        return bool(self.trouble or self.loop.reason_to_stop())

    def take_turn(self, seconds: float) -> None:
        """Train for so many seconds of its own time, or until its time is over."""
        until = self.loop.progress.seconds + seconds
        self.loop.objective.train()
        self.loop.clock = time.perf_counter()
        try:
            while not self.over and self.loop.progress.seconds < until:
                self.loop.update()
        except TrainingError as error:  # diverged: that is a result too
            self.trouble = str(error)

    def finish(self) -> None:
        """From here on the model is the running mean of its weights, as it would be used."""
        if self.loop.mean and self.loop.mean.count:
            self.loop.mean.swap()
        self.bundle.model.eval()

    def loss(self) -> float:
        """Nats a token on the validation pairs."""
        return self.validator().loss

    @property
    def parameters(self) -> int:
        return count_parameters(self.bundle.model)

    @property
    def curve(self) -> list[tuple[float, float]]:
        """(seconds, nats a token) while it trained."""
        entries: list[Any] = [entry for entry in self.listener.entries if entry.get("nll") is not None]
        return [(entry["seconds"], entry["nll"]) for entry in entries]


def recipe_of(contestant: Contestant, texts: Texts, seconds: float, seed: int = 1) -> Recipe:
    """The whole recipe of a contestant; `glass train` would take it as it stands, ablations aside."""
    mapping = {
        "model": {"max_length": MAX_LENGTH, **contestant.model},
        "tokenizer": dict(texts.plan.tokenizer),
        "data": settings.to_mapping(texts.data),
        "train": {
            "schedule": "linear",
            "max_minutes": seconds / 60,
            "learning_rate": contestant.rate,
            "validate_bleu": 0,
            "samples": 0,
            "seed": seed,
            **texts.plan.train,
        },
        "search": {"beams": 1},
    }
    return settings.from_mapping(Recipe, mapping)


def race(racers: Sequence[Racer], screen: Screen, doing: str) -> None:
    """Train all of them, turn by turn."""
    turn = max(SHORTEST_TURN, max(racer.seconds for racer in racers) / TURNS)
    number = 0
    while not all(racer.over for racer in racers):
        for place in range(len(racers)):
            racer = racers[(number + place) % len(racers)]
            before = racer.loop.progress.seconds
            racer.take_turn(turn)
            spent = racer.loop.progress.seconds - before
            screen.spend(spent, f"{doing}: {racer.contestant.title}")
        number += 1
    for racer in racers:
        screen.spend(max(0.0, racer.seconds - racer.loop.progress.seconds), doing)  # of those who gave up
        racer.finish()


def tune(
    contestants: Sequence[Contestant],
    texts: Texts,
    directory: Path,
    seconds: float,
    seed: int,
    screen: Screen,
) -> tuple[list[Contestant], list[dict[str, Any]]]:
    """Each contestant with the best of several learning rates, by the loss on validation pairs after a short
    run; and the table of all of them."""
    tuned, found = [], []
    for contestant in contestants:
        tried = [replace(contestant, rate=rate) for rate in SWEEP]
        racers = [Racer(one, texts, directory, seconds, seed) for one in tried]
        race(racers, screen, f"trying rates, {contestant.title}")
        losses = [float("inf") if racer.trouble else racer.loss() for racer in racers]
        tuned.append(tried[losses.index(min(losses))])
        found += [
            {"name": contestant.name, "rate": one.rate, "loss": None if loss == float("inf") else loss}
            for one, loss in zip(tried, losses, strict=True)
        ]
    return tuned, found
