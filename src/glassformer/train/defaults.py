"""What `glass train` does when nothing is said: a recipe that fits the size of the corpus. No torch here.

Small corpora want small models, many small updates and more dropout; large ones the opposite. Norms stand
before the sub-layers: after 2,250 updates of 800 tokens on Multi30k (preset tiny, rate 0.002) that gave a
validation BLEU of 27.6, against 9.7 with the paper's order, which wants a longer and gentler start. Every
number can be overridden, and the whole recipe is written to DIR/recipe.toml.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer import settings
from glassformer.errors import ConfigError
from glassformer.recipe import DataConfig, Recipe

# (pairs below, model preset, dropout, vocabulary, settings of training)
PLANS: tuple[tuple[float, str, float, int, dict[str, Any]], ...] = (
    (15_000, "tiny", 0.2, 4_000, {"batch_tokens": 1024, "max_epochs": 80, "validate_every": 500, "ema": 200}),
    (
        60_000,
        "tiny",
        0.15,
        8_000,
        {"batch_tokens": 1024, "max_epochs": 60, "validate_every": 500, "ema": 200},
    ),
    (
        500_000,
        "small",
        0.1,
        8_000,
        {"batch_tokens": 2048, "max_epochs": 30, "validate_every": 1000, "learning_rate": 0.0015, "ema": 500},
    ),
    (
        float("inf"),
        "base",
        0.1,
        32_000,
        {
            "batch_tokens": 4096,
            "accumulate": 2,
            "max_epochs": 20,
            "validate_every": 2000,
            "learning_rate": 0.0007,
            "warmup": 4000,
            "ema": 1000,
        },
    ),
)
PATIENCE = 10

# What each of the other tasks begins with: small models that learn something in minutes.
SMALL = {
    "encoder_layers": 3,
    "decoder_layers": 3,
    "width": 128,
    "feed_forward": 512,
    "heads": 4,
    "norm": "pre",
}
FAMILY: dict[str, dict[str, dict[str, Any]]] = {
    "language_model": {
        "model": {**SMALL, "decoder_layers": 4, "width": 256, "feed_forward": 1024, "positions": "rotary"},
        "train": {"batch_tokens": 2048, "max_epochs": 10, "label_smoothing": 0.0},
    },
    "masked_language_model": {
        "model": SMALL,
        "tokenizer": {"size": 4000},
        "train": {"batch_tokens": 4096, "max_epochs": 20, "label_smoothing": 0.0},
    },
    "classify": {
        "model": {**SMALL, "dropout": 0.2},
        "tokenizer": {"size": 4000},
        "train": {"batch_tokens": 2048, "max_epochs": 20, "stop_on": "accuracy", "learning_rate": 0.001},
    },
    "tag": {
        "model": {**SMALL, "dropout": 0.2},
        "tokenizer": {"size": 4000},
        "train": {"batch_tokens": 2048, "max_epochs": 20, "stop_on": "accuracy", "learning_rate": 0.001},
    },
    "image": {
        "model": {**SMALL, "width": 64, "feed_forward": 128, "positions": "learned"},
        "train": {
            "batch_tokens": 4096,
            "max_epochs": 60,
            "stop_on": "accuracy",
            "schedule": "cosine",
            "warmup": 50,
            "validate_every": 100,
        },
    },
}


def default_recipe(data: DataConfig, pairs: int, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe for a corpus of so many pairs."""
    preset, dropout, size, train = next(plan[1:] for plan in PLANS if pairs < plan[0])
    mapping = {
        "model": {"preset": preset, "norm": "pre", "dropout": dropout, "attention_dropout": dropout},
        "tokenizer": {"size": size},
        "data": settings.to_mapping(data),
        "train": {"patience": PATIENCE, **train},
    }
    return settings.from_mapping(Recipe, mapping, overrides=overrides)


def family_recipe(task: str, data: DataConfig, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe for another task than translation."""
    mapping = {"task": task, "data": settings.to_mapping(data), **FAMILY[task]}
    mapping["train"] = {"patience": PATIENCE, **FAMILY[task]["train"]}
    return settings.from_mapping(Recipe, mapping, overrides=overrides)


def with_languages(data: DataConfig) -> DataConfig:
    """Language codes from the names of two plain files, where none are given: train.en → en."""
    first = next((corpus for corpus in data.corpora if corpus.source), None)
    if first is None:
        return data
    return replace(
        data,
        source_language=data.source_language or language_of(first.source),
        target_language=data.target_language or language_of(first.target),
    )


def language_of(path: str) -> str:
    """The language that a file's name ends in, if it looks like one.

    >>> [language_of(name) for name in ("data/train.en", "a.zh-Hans.gz", "corpus.txt", "de")]
    ['en', 'zh-Hans', '', '']
    """
    suffixes = Path(path.removesuffix(".gz")).suffixes
    last = suffixes[-1][1:] if suffixes else ""
    looks = re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?", last) and last not in ("txt", "tok", "src", "tgt")
    return last if looks else ""


def must_end(recipe: Recipe) -> Recipe:
    """Refuse a recipe that would never stop."""
    train = recipe.train
    if not (train.max_steps or train.max_epochs or train.max_minutes or train.patience):
        raise ConfigError(
            "this run would never end: set train.max_steps, train.max_epochs, train.max_minutes "
            "or train.patience"
        )
    return recipe
