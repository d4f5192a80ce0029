"""Growth: how the cost of our training grows with the task, and by which power.

    python -m benchmarks growth

One quantity at a time is changed, the rest is a tiny model with 2,048 target tokens of 32 tokens a sentence.
Sizes are visited again and again in turn, and the median counts. An exponent is the slope of a straight line
through the logarithms: 1 is proportional, 2 is quadratic; below 1, something that does not grow has its
share. Beside it stands the slope over the upper half of the sizes, where such shares matter less.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import cores
from benchmarks.corpus import find_text
from glassformer import settings
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.data.batch import Batch, collate
from glassformer.model.build import build_model
from glassformer.recipe import Recipe, TrainConfig
from glassformer.text.lines import write_lines
from glassformer.train.allocator import keep_memory
from glassformer.train.objective import TranslationObjective
from glassformer.train.optim import build_optimizer, set_rate

QUIET: Callable[[str], None] = lambda text: None  # noqa: E731


@dataclass(frozen=True)
class Case:
    """A model and a batch."""

    sentences: int = 64
    length: int = 32
    width: int = 128
    layers: int = 4
    vocabulary: int = 10_000


class Update:
    """One update of our training, ready to be made again and again."""

    def __init__(self, case: Case) -> None:
        pad = case.vocabulary - 1
        vocabulary = VocabularyConfig(
            case.vocabulary, case.vocabulary, source_pad=pad, target_pad=pad, start=pad
        )
        config = ModelConfig(
            encoder_layers=case.layers,
            decoder_layers=case.layers,
            width=case.width,
            feed_forward=2 * case.width,
            heads=max(1, case.width // 32),
            attention_dropout=0.0,  # as in our recipes: attention is one kernel and stores no weights
            max_length=4096,
        )
        torch.manual_seed(1)
        self.batch = _batch(case, vocabulary)
        self.objective = TranslationObjective(build_model(config, vocabulary), smoothing=0.1).train()
        self.optimizer = build_optimizer(self.objective, TrainConfig())
        set_rate(self.optimizer, 1e-4)

    def __call__(self) -> None:
        losses = self.objective(self.batch)
        (losses.loss_sum / losses.tokens).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def _batch(case: Case, vocabulary: VocabularyConfig) -> Batch:
    """Random tokens; an end of sentence comes to each."""
    ids = torch.randint(2, case.vocabulary - 1, (2, case.sentences, case.length - 1)).tolist()
    return collate(list(zip(*ids, strict=True)), vocabulary)


class Preparation:
    """From text to a token store: read, clean, learn a vocabulary, tokenise, write."""

    def __init__(self, lines: int) -> None:
        sides = find_text().read("train")
        self.folder = tempfile.TemporaryDirectory()
        place = Path(self.folder.name)
        for name, side in zip(("source", "target"), sides, strict=True):
            # Numbers make lines that are read again differ from the first time: duplicates are left out.
            write_lines(
                place / name, (f"{side[i % len(side)]} {i // len(side) or ''}".strip() for i in range(lines))
            )
        self.recipe = settings.from_mapping(
            Recipe,
            {
                "model": {"preset": "tiny"},
                "tokenizer": {"size": 8000},
                "data": {"corpora": [{"source": str(place / "source"), "target": str(place / "target")}]},
                "train": {"max_steps": 1},
            },
        )

    def __call__(self) -> None:
        from glassformer.train.prepare import prepare

        with tempfile.TemporaryDirectory() as folder:
            prepare(self.recipe, Path(folder), say=QUIET)


@dataclass(frozen=True)
class Series:
    """One quantity: its sizes, what is done at each, and in how many parts the cost is shared out."""

    against: str
    cost: str
    sizes: Sequence[int]
    work: Callable[[int], Callable[[], None]]
    share: Callable[[int], int] = lambda size: 1


TOKENS = 4096
SERIES = [
    Series(
        "sentence length (tokens)",
        "seconds a sentence",
        (64, 128, 256, 512, 1024, 2048),
        lambda n: Update(Case(sentences=TOKENS // n, length=n)),
        lambda n: TOKENS // n,
    ),
    Series(
        "batch (sentences of 32 tokens)",
        "seconds an update",
        (4, 8, 16, 32, 64, 128),
        lambda n: Update(Case(sentences=n)),
    ),
    Series("width", "seconds an update", (64, 128, 256, 512), lambda n: Update(Case(width=n, sentences=32))),
    Series("layers", "seconds an update", (1, 2, 4, 8, 16), lambda n: Update(Case(layers=n))),
    Series(
        "vocabulary",
        "seconds an update",
        (2000, 4000, 8000, 16_000, 32_000),
        lambda n: Update(Case(vocabulary=n)),
    ),
    Series("corpus (lines)", "seconds to prepare", (5000, 10_000, 20_000, 40_000, 80_000), Preparation),
]


def run(repeats: int = 5) -> dict[str, Any]:
    torch.set_num_threads(cores())
    keep_memory()
    points = {series.against: measure(series, repeats) for series in SERIES}
    rows = []
    for series in SERIES:
        found = points[series.against]
        rows.append(
            {
                "against": series.against,
                "cost": series.cost,
                "from": f"{found[0][0]:,}: {found[0][1]:.3g} s",
                "to": f"{found[-1][0]:,}: {found[-1][1]:.3g} s",
                "exponent": exponent(found),
                "upper half": exponent(found[len(found) - len(found) // 2 - 1 :]),
            }
        )
    return {"repeats": repeats, "corpus": find_text().name, "rows": rows, "points": points}


def measure(series: Series, repeats: int) -> list[tuple[int, float]]:
    """Median cost at each size."""
    works = {size: series.work(size) for size in series.sizes}
    for work in works.values():
        work()
    taken: dict[int, list[float]] = {size: [] for size in works}
    for _ in range(repeats):
        for size, work in works.items():
            begin = time.perf_counter()
            work()
            taken[size].append(time.perf_counter() - begin)
    found = [(size, statistics.median(times) / series.share(size)) for size, times in taken.items()]
    print(f"growth against {series.against}: " + ", ".join(f"{x:,} → {y:.3g} s" for x, y in found))
    return found


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line that is nearest, in least squares, to log y over log x.

    >>> round(exponent([(1, 3.0), (2, 12.0), (4, 48.0)]), 6)
    2.0
    """
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    return statistics.linear_regression(xs, ys).slope
