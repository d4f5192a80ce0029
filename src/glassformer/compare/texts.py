"""What the contestants learn and are tested on: the made-up language, a named corpus, or a file of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.compare.contestants import PLANS, Plan
from glassformer.compare.language import SHORTEST, sentence_pairs
from glassformer.errors import RequestError
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.text.corpus import Corpus
from glassformer.text.lines import write_lines
from glassformer.text.pairs import Pair, read_pairs
from glassformer.text.sources import resolve

LANGUAGE = "language"
LONGEST = 24
"""words of the longest source of the made-up language that is trained on; tests go up to twice that"""
TRAIN, VALID, TEST, BEYOND = 40_000, 400, 600, 300


@dataclass(frozen=True)
class Texts:
    """Text to train on, and pairs that nobody trains on."""

    name: str
    plan: Plan
    data: DataConfig
    valid: Sequence[Pair]
    """for choosing learning rates; never longer than what is trained on"""
    test: Sequence[Pair]
    longest: int
    """tokens of the longest side that is trained on; 0 means that nothing is left out"""


def gather(what: str, directory: Path, longest: int = 0, seed: int = 1) -> Texts:
    """The text that `--data` names. What is made up here is written into `directory`."""
    if what == LANGUAGE:
        return _language(directory, longest or LONGEST, seed)
    if Path(what).is_file():
        return _file(what, longest)
    if Path(what).suffix or "/" in what:
        raise RequestError(f"--data {what}: there is no such file; a .tsv or .jsonl file of pairs, or a name")
    return _named(what, longest)


def _language(directory: Path, longest: int, seed: int) -> Texts:
    if longest < SHORTEST + 4:
        raise RequestError(
            f"--longest {longest}: sentences of the made-up language need {SHORTEST + 4} words"
        )
    known, unknown = range(SHORTEST, longest + 1), range(longest + 1, 2 * longest + 1)
    # One stream, cut in three: no sentence is in two of them.
    rows = list(sentence_pairs(TRAIN + VALID + TEST, known, seed))
    folder = directory / LANGUAGE
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "train.tsv", rows[:TRAIN])
    test = [*rows[TRAIN + VALID :], *sentence_pairs(BEYOND, unknown, seed + 1)]
    data = DataConfig(
        corpora=(CorpusConfig(pairs=str(folder / "train.tsv")),),
        hold_out=0,
        max_tokens=longest,
        max_ratio=0.0,
    )
    return Texts(LANGUAGE, PLANS["language"], data, rows[TRAIN : TRAIN + VALID], test, longest)


def _named(name: str, longest: int) -> Texts:
    def split(part: str) -> list[Pair]:
        data = resolve(DataConfig(corpora=(CorpusConfig(name=f"{name}:{part}"),)))
        return list(read_pairs(data.corpora[0]))

    data = resolve(
        DataConfig(
            corpora=(CorpusConfig(name=name),),
            valid=CorpusConfig(name=name),
            drop_duplicates=False,
            max_tokens=longest or DataConfig.max_tokens,
        )
    )
    plan = PLANS["characters" if name == "dates" else "sentences"]
    return Texts(name, plan, data, _some(split("valid"), VALID), _some(split("test"), TEST + BEYOND), longest)


def _file(path: str, longest: int) -> Texts:
    data = DataConfig(
        corpora=(CorpusConfig(pairs=path),),
        hold_out=VALID + TEST + BEYOND,
        max_tokens=longest or DataConfig.max_tokens,
    )
    held_out = Corpus(data).scan().valid
    if len(held_out) < 20:
        raise RequestError(f"--data {path}: only {len(held_out)} pairs can be held out for testing")
    third = len(held_out) // 3
    return Texts(Path(path).name, PLANS["sentences"], data, held_out[:third], held_out[third:], longest)


def _some(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """At most `count`, evenly spread: neighbours are often alike."""
    count = min(count, len(pairs))
    return [pairs[place * len(pairs) // count] for place in range(count)]


def _write(path: Path, pairs: Iterable[Pair]) -> None:
    write_lines(path, (f"{source}\t{target}" for source, target in pairs))
