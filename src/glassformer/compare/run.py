"""The whole comparison: gather text, tune if asked to, train side by side, test, time, report."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.compare.contestants import ABLATIONS, ARCHITECTURES, SWEEP, TRANSFORMER, choose
from glassformer.compare.measure import (
    PASS_LENGTHS,
    Group,
    difference,
    group_by_length,
    pass_times,
    quality,
    translate,
)
from glassformer.compare.race import Racer, race, tune
from glassformer.compare.report import write
from glassformer.compare.result import Result, Row
from glassformer.compare.screen import Screen
from glassformer.compare.texts import LANGUAGE, Texts, gather
from glassformer.errors import RequestError

TUNING = 0.2
"""share of a contestant's time that each of the tried rates gets"""
TESTING, TIMING = 8.0, 20.0
"""seconds that testing one contestant and timing all of them are expected to take"""


@dataclass(frozen=True)
class Settings:
    """What is compared, on what, for how long."""

    data: str = LANGUAGE
    ablations: bool = False
    only: Sequence[str] = ()
    minutes: float = 11.0
    """of training, all contestants together"""
    longest: int = 0
    tune: bool = False
    seed: int = 1


def compare(
    settings: Settings, directory: Path, screen: Screen | None = None
) -> tuple[Result, str, list[Path]]:
    """Run it, and write README.md, result.json and the figures into `directory`."""
    if settings.minutes <= 0:
        raise RequestError(f"minutes = {settings.minutes:g} must be above 0")
    _check_directory(directory)
    contestants = choose(settings.only, ABLATIONS if settings.ablations else ARCHITECTURES)
    seconds = 60 * settings.minutes / len(contestants)
    tuning = seconds * TUNING * len(SWEEP) * len(contestants) if settings.tune else 0.0
    screen = screen or Screen(60 * settings.minutes + tuning + TESTING * len(contestants) + TIMING)
    try:
        texts = gather(settings.data, directory, settings.longest, settings.seed)
        contestants = [texts.plan.settled(one) for one in contestants]
        sweep: list[dict[str, Any]] = []
        if settings.tune:
            contestants, sweep = tune(contestants, texts, directory, seconds * TUNING, settings.seed, screen)
        racers = [Racer(one, texts, directory, seconds, settings.seed) for one in contestants]
        race(racers, screen, "training")
        result = _result(racers, texts, settings, sweep, screen)
        text, paths = write(result, directory)
        return result, text, paths
    finally:
        screen.close()


def _check_directory(directory: Path) -> None:
    """Ours, new or empty: nobody's files are overwritten."""
    if directory.exists() and not directory.is_dir():
        raise RequestError(f"{directory} is a file; a directory is needed")
    if directory.is_dir() and any(directory.iterdir()) and not (directory / "data").is_dir():
        raise RequestError(f"{directory} holds other files: choose a new or empty directory")
    directory.mkdir(parents=True, exist_ok=True)


def _result(
    racers: Sequence[Racer], texts: Texts, settings: Settings, sweep: list[dict[str, Any]], screen: Screen
) -> Result:
    tokenizer = racers[0].bundle.tokenizers.source
    lengths = [len(ids) for ids in tokenizer.encode_batch([source for source, _ in texts.test])]
    groups = group_by_length(lengths, texts.longest)
    said: dict[str, tuple[list[str], float]] = {}
    for racer in racers:
        screen.spend(TESTING, f"testing: {racer.contestant.title}")
        said[racer.contestant.name] = ([], 0.0) if racer.trouble else translate(racer.bundle, texts.test)
    screen.spend(TIMING, "timing single passes")
    models = {racer.contestant.name: racer.bundle.model for racer in racers if not racer.trouble}
    times = {} if settings.ablations else pass_times(models, PASS_LENGTHS)
    base = said.get(TRANSFORMER.name, ([], 0.0))[0]
    return Result(
        data=texts.name,
        metric=texts.plan.metric,
        groups=groups,
        longest=texts.longest or max(lengths),
        rows=[
            _row(
                racer, texts, groups, *said[racer.contestant.name], base, times.get(racer.contestant.name, {})
            )
            for racer in racers
        ],
        ablations=settings.ablations,
        machine={
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "seed": settings.seed,
        },
        sweep=sweep,
    )


def _row(
    racer: Racer,
    texts: Texts,
    groups: Sequence[Group],
    said: Sequence[str],
    sentences_per_second: float,
    base: Sequence[str],
    times: dict[int, float],
) -> Row:
    """The numbers of one contestant. `base` is what the whole Transformer said, if it took part."""
    metric, language = texts.plan.metric, racer.bundle.config.target_language
    references = [target for _, target in texts.test]

    def at(places: Sequence[int], lines: Sequence[str]) -> list[str]:
        return [lines[place] for place in places]

    known_places = [place for group in groups if not group.longer for place in group.places]
    by_group: list[float] = []
    whole, against = 0.0, None
    if said:
        by_group = [quality(metric, at(g.places, said), at(g.places, references), language) for g in groups]
        right = at(known_places, references)
        whole = quality(metric, at(known_places, said), right, language)
        if base and racer.contestant.name != TRANSFORMER.name:
            against = difference(metric, at(known_places, said), at(known_places, base), right, language)
    progress = racer.loop.progress
    return Row(
        contestant=racer.contestant,
        parameters=racer.parameters,
        updates=progress.step,
        seconds=progress.seconds,
        tokens_per_second=progress.tokens / max(progress.seconds, 1e-9),
        loss=float("nan") if racer.trouble else racer.loss(),
        quality=whole,
        by_group=by_group,
        known=[value for value, group in zip(by_group, groups, strict=False) if not group.longer],
        longer=[value for value, group in zip(by_group, groups, strict=False) if group.longer],
        sentences_per_second=sentences_per_second,
        against=against,
        pass_times=times,
        curve=racer.curve,
        trouble=racer.trouble,
    )
