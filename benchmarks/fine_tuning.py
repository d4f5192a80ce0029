"""Does learning from plain text first help? Surnames → nationality; case and punctuation of sentences.

    python -m benchmarks.fine_tuning --minutes 2.5          about a quarter of an hour on one thread

For each task a masked language model learns from text without labels; a classifier or tagger is fine-tuned
from it on a small part that has labels, and another one begins with fresh weights: the same network, text,
updates and settings for both. Three seeds; accuracy on held-out text, mean ± standard deviation.

Names: the corpus `surnames` (all names to learn from, 2,000 of them with their nationality). Tags: English
sentences of `tatoeba-en-es`, in lower case and without punctuation; the tag of a word says what was taken
away from it (`L` nothing, `U` a capital, `L.` a full stop, …): a derived task, 1,000 labelled sentences.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import settings
from glassformer.label import Labeller, accuracy
from glassformer.recipe import Recipe
from glassformer.text.lines import read_lines, write_lines
from glassformer.text.sources import fetch
from glassformer.train.report import Report
from glassformer.train.run import train

Pair = tuple[str, str]

NETWORK = {
    "encoder_layers": 3,
    "width": 96,
    "feed_forward": 256,
    "heads": 4,
    "norm": "pre",
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "max_length": 128,
}


@dataclass(frozen=True)
class Contest:
    """One task: text without labels, and a little with."""

    name: str
    task: str
    tokenizer: dict[str, Any]
    plain: list[str]
    labelled: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def names(labelled: int = 2000) -> Contest:
    rows = {split: _pairs(fetch("surnames") / f"{split}.tsv") for split in ("train", "valid", "test")}
    chosen = random.Random(0).sample(rows["train"], labelled)
    known = {label for _, label in chosen}
    valid, test = ([pair for pair in rows[split] if pair[1] in known] for split in ("valid", "test"))
    plain = [name for name, _ in rows["train"]]
    return Contest("surnames", "classify", {"kind": "characters"}, plain, chosen, valid, test)


def tags(labelled: int = 1000, plain: int = 60_000) -> Contest:
    texts = dict.fromkeys(text for text, _ in _pairs(fetch("tatoeba-en-es") / "train.tsv"))
    pairs = [pair for text in texts if (pair := stripped(text))]
    random.Random(0).shuffle(pairs)
    parts = [pairs[:1000], pairs[1000:3000], pairs[3000 : 3000 + labelled]]
    known = {tag for _, row in parts[2] for tag in row.split()}
    valid, test = ([p for p in part if set(p[1].split()) <= known] for part in parts[:2])
    rest = [text for text, _ in pairs[3000 : 3000 + plain]]
    return Contest("case and punctuation", "tag", {"size": 4000}, rest, parts[2], valid, test)


def stripped(text: str) -> Pair | None:
    """A sentence without case and punctuation, and what each word has lost.

    >>> stripped("Hello, Tom is here.")
    ('hello tom is here', 'U, U L L.')
    """
    words, lost = [], []
    for word in text.split():
        match = re.fullmatch(r"([A-Za-z']+)([.,!?]?)", word)
        if match is None:
            return None
        words.append(match[1].lower())
        lost.append(("U" if match[1][0].isupper() else "L") + match[2])
    return (" ".join(words), " ".join(lost)) if words else None


def _pairs(path: Path) -> list[Pair]:
    rows = (line.split("\t") for line in read_lines(path) if line)
    return [(row[0], row[1]) for row in rows]


def run_one(
    contest: Contest, task: str, folder: Path, train_with: dict[str, Any], start: Path | None = None
) -> Path:
    """Train in a directory of its own; where the finished bundle is."""
    data: dict[str, Any] = {"max_tokens": 64, "drop_duplicates": False}
    if task == "masked_language_model":
        data |= {"corpora": [{"text": _lines(folder, "plain.txt", contest.plain)}], "hold_out": 500}
    else:
        rows = {"train": contest.labelled, "valid": contest.valid}
        files = {name: _lines(folder, f"{name}.tsv", map("\t".join, part)) for name, part in rows.items()}
        data |= {"corpora": [{"pairs": files["train"]}], "valid": {"pairs": files["valid"]}}
    mapping = {
        "task": task,
        "model": NETWORK,
        "tokenizer": contest.tokenizer,
        "data": data,
        "train": {"start_from": str(start or ""), "weight_decay": 0.05, "threads": 1, **train_with},
    }
    return train(settings.from_mapping(Recipe, mapping), folder / "run", report=Report()).path


def _lines(folder: Path, name: str, lines: Iterable[str]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / name, lines)
    return str(folder / name)


def compare(contest: Contest, minutes: float, steps: int, seeds: int, folder: Path) -> list[str]:
    """Accuracy of both, on lines of plain text."""
    learning = {
        "batch_tokens": 4096,
        "max_minutes": minutes,
        "schedule": "cosine",
        "warmup": 100,
        "learning_rate": 0.003,
        "label_smoothing": 0.0,
        "validate_every": 10**6,
    }
    before = run_one(contest, "masked_language_model", folder / "masked", learning)
    scores: dict[str, list[float]] = {"from scratch": [], "pre-trained": []}
    for seed in range(1, seeds + 1):
        tuning = {
            "seed": seed,
            "batch_tokens": 1024,
            "max_steps": steps,
            "schedule": "cosine",
            "warmup": 50,
            "learning_rate": 0.001,
            "validate_every": max(1, steps // 8),
            "stop_on": "accuracy",
        }
        for name, start in (("from scratch", None), ("pre-trained", before)):
            path = run_one(contest, contest.task, folder / f"{name.replace(' ', '-')}-{seed}", tuning, start)
            found = accuracy(Labeller.load(path), contest.test)
            scores[name].append(100 * found.right / found.count)
            print(f"{contest.name}, seed {seed}, {name}: {scores[name][-1]:.2f}", flush=True)
    return [_shown(contest.name, name, values) for name, values in scores.items()]


def _shown(task: str, name: str, values: Sequence[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    every = ", ".join(f"{value:.2f}" for value in values)
    return f"  {task:<22} {name:<14} {statistics.mean(values):6.2f} ± {spread:.2f}   ({every})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--minutes", type=float, default=2.5, help="of learning from plain text, for each task"
    )
    parser.add_argument("--steps", type=int, default=300, help="updates on labelled text")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", choices=["names", "tags"], default=["names", "tags"])
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.tasks:
            contest = {"names": names, "tags": tags}[name]()
            lines += compare(contest, options.minutes, options.steps, options.seeds, Path(folder) / name)
    print("\naccuracy on held-out text, mean ± standard deviation over seeds:")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
