"""How good, how long, how fast: quality by sentence length, and the time of one pass by length."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from glassformer.bundle import Bundle
from glassformer.evaluate import SEED, evaluate
from glassformer.metrics import edit_distance
from glassformer.model.seq2seq import Seq2Seq
from glassformer.text.pairs import Pair
from glassformer.translate import Translator

METRICS = {"words": "words right, %", "exact": "sentences exactly right, %", "bleu": "BLEU"}
"""name and label; the last two are those of `glass evaluate`"""
IN_TRAINING, LONGER = 4, 2
"""groups of sentences that are as long as in training, and longer"""
PASS_LENGTHS = (16, 32, 64, 128, 256, 512)
BOOTSTRAP = 300


@dataclass(frozen=True)
class Group:
    """Test sentences of about one length."""

    first: int
    last: int
    """tokens of the source"""
    longer: bool
    """than anything that was trained on"""
    places: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"{self.first}–{self.last}"


@dataclass(frozen=True)
class Difference:
    """One contestant minus another, in points of the metric, with a 95% interval over test sentences."""

    points: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Would other sentences have shown the same direction?"""
        return self.low > 0 or self.high < 0


def group_by_length(lengths: Sequence[int], longest: int) -> list[Group]:
    """Groups of about as many sentences each: some as long as in training, some longer (0: there are none).

    >>> [group.label for group in group_by_length([2, 3, 4, 5, 6, 7, 8, 9, 12, 15], longest=9)]
    ['2–3', '4–5', '6–7', '8–9', '12–12', '15–15']
    """
    limit = longest or max(lengths)
    known = sorted(length for length in lengths if length <= limit)
    longer = sorted(length for length in lengths if length > limit)
    groups = []
    for some, parts, beyond in ((known, IN_TRAINING, False), (longer, LONGER, True)):
        cuts = (
            [some[len(some) * part // parts - 1] for part in range(1, parts + 1)]
            if len(some) >= parts
            else []
        )
        first = some[0] if some else 0
        for last in dict.fromkeys(cuts):
            places = tuple(at for at, length in enumerate(lengths) if first <= length <= last)
            if places:
                low = min(lengths[at] for at in places)
                groups.append(Group(low, last, beyond, places))
            first = last + 1
    return groups


def translate(bundle: Bundle, test: Sequence[Pair]) -> tuple[list[str], float]:
    """What the model says, greedily, and sentences a second."""
    translator = Translator(bundle, engine="torch")
    started = time.perf_counter()
    said = [found.text for found in translator.translate([source for source, _ in test], beams=1)]
    return said, len(test) / (time.perf_counter() - started)


def quality(metric: str, said: Sequence[str], right: Sequence[str], language: str = "") -> float:
    """From 0 to 100, higher is better.

    >>> quality("words", ["a b c d", "e"], ["a b x d", "e"])
    80.0
    """
    if metric == "words":
        words, total = words_right(said, right).sum(0)
        return float(100 * words / max(total, 1))
    return evaluate(said, right, metrics=[metric], target_language=language, bootstrap=0)[metric].value


def difference(
    metric: str, said: Sequence[str], other: Sequence[str], right: Sequence[str], language: str = ""
) -> Difference:
    """How much better `said` is than `other`, by paired bootstrap over the sentences."""
    if metric != "words":
        report = evaluate(
            said, right, metrics=[metric], target_language=language, against=other, bootstrap=BOOTSTRAP
        )
        [found] = report.comparisons
        return Difference(found.difference, found.low, found.high)
    ours, theirs = words_right(said, right), words_right(other, right)
    draws = np.random.default_rng(SEED).integers(len(right), size=(BOOTSTRAP, len(right)))
    points = 100 * (ours - theirs)[draws, 0].sum(1) / ours[draws, 1].sum(1)
    low, high = np.quantile(points, [0.025, 0.975])
    return Difference(quality(metric, said, right) - quality(metric, other, right), float(low), float(high))


def words_right(said: Sequence[str], right: Sequence[str]) -> npt.NDArray[np.float64]:
    """(words right, words) of each sentence: what edits leave of its reference, and never less than nothing.

    An error rate has no upper end: one model that does not know where to stop would drown all others.
    """
    rows = []
    for ours, theirs in zip(map(str.split, said), map(str.split, right), strict=True):
        rows.append((max(0, len(theirs) - edit_distance(ours, theirs)), len(theirs)))
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def pass_times(
    models: Mapping[str, Seq2Seq], lengths: Sequence[int] = PASS_LENGTHS, rounds: int = 7
) -> dict[str, dict[int, float]]:
    """Seconds of one pass over T source and T target tokens of one sentence, by T.

    One sentence, so that nothing but its own tokens can fill the machine. The fastest of several interleaved
    rounds counts: whatever else the machine does can only add to it.
    """
    taken: dict[str, dict[int, float]] = {name: {} for name in models}
    for _, length, (name, model) in itertools.product(range(rounds), lengths, models.items()):
        ids_BT = torch.full((1, length), 2)
        lengths_B = torch.tensor([length])
        started = time.perf_counter()
        with torch.inference_mode():
            model.states(model.encode(ids_BT, lengths_B), ids_BT)
        passed = time.perf_counter() - started
        taken[name][length] = min(passed, taken[name].get(length, passed))
    return taken


def growth(times: Mapping[int, float]) -> float:
    """p in time ≈ T^p: the slope of the line through the logarithms.

    >>> round(growth({16: 1.0, 32: 2.0, 64: 4.0}), 6)
    1.0
    """
    lengths, seconds = zip(*sorted(times.items()), strict=True)
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])
