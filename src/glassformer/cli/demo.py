"""`glass demo`: a model trained here and now, from nothing to translations of sentences it has never seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.recipe import Recipe


@dataclass(frozen=True)
class Task:
    """What a demo learns, and the settings that suit a few minutes on two cores: many small updates."""

    corpus: str
    title: str
    minutes: float
    settings: dict[str, Any]


TASKS = {
    "en-es": Task(
        "tatoeba-en-es",
        "English → Spanish, everyday sentences",
        4.0,
        {
            "model": {
                "encoder_layers": 2,
                "decoder_layers": 2,
                "width": 192,
                "feed_forward": 768,
                "heads": 4,
                "norm": "pre",
                "dropout": 0.0,
                "attention_dropout": 0.0,
            },
            "tokenizer": {"size": 4000},
            "train": {"batch_tokens": 700, "learning_rate": 0.003, "warmup": 300, "ema": 150},
        },
    ),
    "dates": Task(
        "dates",
        "dates as people write them in 23 languages → 2017-06-12",
        1.5,
        {
            "model": {
                "encoder_layers": 2,
                "decoder_layers": 2,
                "width": 128,
                "feed_forward": 512,
                "heads": 4,
                "norm": "pre",
                "dropout": 0.0,
                "attention_dropout": 0.0,
            },
            "tokenizer": {"kind": "characters"},
            "train": {"batch_tokens": 1500, "learning_rate": 0.003, "warmup": 200, "ema": 100},
        },
    ),
}
SHOWN = 8
TESTED = 1000


def demo(
    task: Literal["auto", "en-es", "dates"] = "auto",
    *,
    to: Path = Path("demo"),
    minutes: float = 0.0,
    fresh: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Train a small model here and now, and translate with it.

    Parameters
    ----------
    task
        en-es learns English → Spanish (fetches a public corpus), dates learns to read dates (needs no
        network); auto takes the first one, or the second where the corpus can't be had
    to
        directory for the run
    minutes
        how long to train; 0 means as long as the task needs to be of some use
    fresh
        train again even if a model is there
    """
    from rich.console import Console

    from glassformer.train.allocator import keep_memory
    from glassformer.train.run import train

    console = Console(highlight=False)
    name = _choose(task, console)
    chosen = TASKS[name]
    place = to / name
    if (place / "model").is_dir() and not fresh:
        console.print(f"The model in {place}/model is used as it is; `glass demo --fresh` trains a new one.")
    else:
        limit = minutes or chosen.minutes
        console.print(
            f"[bold]{chosen.title}[/]: a Transformer learns it from nothing in {limit:g} minutes.\n"
        )
        keep_memory()
        train(_recipe(chosen, limit), place, fresh=True)
    _show(chosen, place / "model", console)


def _choose(task: str, console: Console) -> str:
    """The task, after its corpus has been fetched."""
    from glassformer.text.sources import fetch, get_source

    if task in ("auto", "en-es"):
        source = get_source(TASKS["en-es"].corpus)
        try:
            with console.status("fetching a corpus of English–Spanish sentences"):
                fetch(source.name)
            console.print(f"Text: {source.title}, {source.size}. {source.licence}; {source.attribution}")
            return "en-es"
        except DataError as error:
            if task == "en-es":
                raise
            console.print(f"The corpus of English–Spanish sentences can't be had here ({error}).")
            console.print("So the demo learns to read dates instead, which it makes up itself.\n")
    return "dates"


def _recipe(task: Task, minutes: float) -> Recipe:
    from glassformer import settings
    from glassformer.recipe import Recipe

    corpus = {"name": task.corpus}
    limits = {
        "max_minutes": minutes,
        "schedule": "linear",
        "validate_minutes": minutes / 4,
        "validate_every": 1_000_000,
        "validate_bleu": 200,
        "label_smoothing": 0.1,
    }
    mapping = {
        **task.settings,
        "data": {"corpora": [corpus], "valid": corpus, "drop_duplicates": False},
        "train": {**limits, **task.settings["train"]},
    }
    return settings.from_mapping(Recipe, mapping)


def _show(task: Task, model: Path, console: Console) -> None:
    """Sentences that the model has never seen: what it says, and what a person said."""
    from rich.table import Table

    from glassformer.evaluate import corpus_bleu
    from glassformer.text.lines import read_lines
    from glassformer.text.sources import fetch
    from glassformer.translate import Translator, load

    rows = [line.split("\t")[:2] for line in read_lines(fetch(task.corpus) / "test.tsv")][:TESTED]
    translator: Translator = load(model)
    with console.status(f"translating {len(rows):,} sentences that the model has never seen"):
        said = [found.text for found in translator.translate([source for source, _ in rows])]
    right = sum(text == reference for text, (_, reference) in zip(said, rows, strict=True))
    table = Table(title="never seen before", show_lines=False, title_justify="left")
    for heading in ("source", "the model says", "a person wrote"):
        table.add_column(heading, overflow="fold")
    step = max(1, len(rows) // SHOWN)
    for place in range(0, len(rows), step)[:SHOWN]:
        table.add_row(rows[place][0], said[place], rows[place][1])
    console.print(table)
    score = corpus_bleu(said, [reference for _, reference in rows], translator.bundle.config.target_language)
    console.print(
        f"{len(rows):,} held-out sentences: BLEU {score.value:.1f} ({score.signature}); "
        f"{100 * right / len(rows):.1f}% are word for word what the person wrote.\n"
    )
    console.print(f'Now you:  glass translate --model {model} "{rows[0][0]}"', markup=False)
