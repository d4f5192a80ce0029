"""A training run in miniature: words spelled backwards, in characters."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig
from glassformer.data.batch import BatchOrder
from glassformer.data.store import Store, build_store
from glassformer.model.build import build_model
from glassformer.recipe import TrainConfig
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.train.checkpoint import Checkpoints
from glassformer.train.distributed import Processes
from glassformer.train.feed import Feed
from glassformer.train.loop import Loop
from glassformer.train.objective import TranslationObjective
from glassformer.train.report import Metrics, Report, Validation, read_metrics
from glassformer.train.validate import Validator

NETWORK = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "feed_forward": 24, "heads": 2}


def make_pairs(count: int = 120) -> list[tuple[str, str]]:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdef", k=draw.randint(2, 9))) for _ in range(count)]
    return [(word, word[::-1]) for word in words]


class QuietReport(Report):
    """Keeps what was said, and writes metrics.jsonl."""

    def __init__(self, directory: Path) -> None:
        self.said: list[str] = []
        self.metrics = Metrics(directory / "metrics.jsonl")

    def say(self, text: str) -> None:
        self.said.append(text)

    def resumed(self, progress: Any, path: Path | None) -> None:
        self.metrics.begin(progress.step)

    def validated(self, progress: Any, result: Validation) -> None:
        self.record({"kind": "valid", "step": progress.step, "loss": result.loss, "bleu": result.bleu})

    def record(self, entry: Any) -> None:
        self.metrics.append(entry)


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    both = train_tokenizer("bpe", (word for pair in make_pairs(400) for word in pair), size=280)
    return TokenizerPair(both, both, shared=True)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, tokenizers: TokenizerPair) -> Store:
    return build_store(tmp_path_factory.mktemp("store") / "train", [make_pairs()], tokenizers)


def make_loop(
    directory: Path,
    store: Store,
    tokenizers: TokenizerPair,
    processes: Processes | None = None,
    model: dict[str, Any] | None = None,
    validation: bool = True,
    **changes: Any,
) -> Loop:
    config = TrainConfig(
        **{
            "batch_tokens": 120,
            "max_steps": 20,
            "learning_rate": 0.01,
            "warmup": 5,
            "log_every": 2,
            "validate_every": 5,
            "validate_bleu": 2,
            "samples": 1,
            "seed": 3,
            **changes,
        }
    )
    vocabulary = tokenizers.vocabulary()
    network = ModelConfig(**{**NETWORK, **(model or {})})
    torch.manual_seed(config.seed)
    bundle = Bundle(
        BundleConfig(source_language="en", target_language="xx", vocabulary=vocabulary, model=network),
        tokenizers,
        build_model(network, vocabulary),
    )
    order = BatchOrder(
        store.source_lengths, store.target_lengths, batch_tokens=config.batch_tokens, seed=config.seed
    )
    feed = Feed(store, order, tokenizers, vocabulary, seed=config.seed, bpe_dropout=config.bpe_dropout)
    report = QuietReport(directory)
    checkpoints = Checkpoints(
        directory / "checkpoints",
        keep_last=config.keep_last,
        keep_best=config.average,
        higher_is_better=config.stop_on == "bleu",
        say=report.say,
    )
    validator = Validator(bundle, make_pairs(16), config) if validation else None
    return Loop(
        bundle,
        TranslationObjective(bundle.model, config.label_smoothing, config.r_drop),
        feed,
        config,
        checkpoints=checkpoints,
        report=report,
        validator=validator,
        processes=processes,
    )


MakeLoop = Callable[..., Loop]


@pytest.fixture
def loop_in(store: Store, tokenizers: TokenizerPair) -> MakeLoop:
    """loop_in(directory, **settings) → a Loop that is ready to run there."""

    def make(directory: Path, **changes: Any) -> Loop:
        return make_loop(directory, store, tokenizers, **changes)

    return make


def metrics_of(directory: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what the clock has a say in."""
    entries = read_metrics(directory / "metrics.jsonl")
    return [{k: v for k, v in e.items() if k not in ("seconds", "tokens_per_second")} for e in entries]


def weights_in(loop: Loop) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in loop.model.parameters()]
