"""What tasks other than translation prepare in their own way: filters, vocabularies, batches, weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from glassformer.bundle import WEIGHTS, Bundle, load_weights, weights_of
from glassformer.config import LABELLED, ONE_SIDED, BundleConfig, TokenizerConfig
from glassformer.data.batch import BatchOrder
from glassformer.data.store import Store
from glassformer.errors import ConfigError, DataError
from glassformer.model.build import build_reader
from glassformer.model.families import PatchEmbedding, Reader
from glassformer.recipe import DataConfig, Recipe
from glassformer.text.tokenizer import Tokenizer, TokenizerPair, train_tokenizer
from glassformer.train.family_feed import BlockFeed, MaskedFeed, TagFeed
from glassformer.train.feed import Batches, Feed
from glassformer.weights import read_safetensors

Pairs = Callable[[], Iterable[tuple[str, str]]]

TRUNK = ("embedding.", "encoder.")
"""what one task can take over from another"""


def starts_from(task: str) -> tuple[str, ...]:
    """Models of which tasks can be fine-tuned for this one: its own, and what it can take the trunk of."""
    return (task, "masked_language_model") if task in ("classify", "tag") else (task,)


def data_for(task: str, data: DataConfig) -> DataConfig:
    """The filters that make sense: running text stays whole, and labels may be much shorter than texts."""
    if task == "language_model":
        return replace(data, drop_duplicates=False, max_characters=0, max_ratio=0.0, max_tokens=0)
    return replace(data, max_ratio=0.0)


def check_text(task: str, data: DataConfig) -> None:
    """Plain text has no targets: only language models can learn from it."""
    plain = [corpus.text for corpus in data.corpora if corpus.text]
    if plain and task not in ONE_SIDED:
        raise ConfigError(
            f"{plain[0]} holds no text pairs, which task = '{task}' needs; "
            f"plain text is for task = {' | '.join(ONE_SIDED)}"
        )


def learn_tokenizers(
    task: str, config: TokenizerConfig, pairs: Pairs, source: Tokenizer | None = None
) -> TokenizerPair:
    """One vocabulary for plain text; for labels, one of the text (or `source`) and one of the labels."""
    learn = partial(
        train_tokenizer,
        size=config.size,
        character_coverage=config.character_coverage,
        normalisation=config.normalisation,
    )
    kind = "symbols" if task == "image" else config.kind_of("source")
    own = source or learn(kind, (text for text, _ in pairs()))
    if task in ONE_SIDED:
        return TokenizerPair(own, own, shared=True)
    labels = train_tokenizer("symbols" if task == "tag" else "labels", (label for _, label in pairs()))
    return TokenizerPair(own, labels, shared=False)


def make_feed(recipe: Recipe, store: Store, bundle: Bundle[Reader]) -> Batches:
    """Where the batches of a task come from."""
    train, vocabulary = recipe.train, bundle.config.vocabulary
    if recipe.task == "language_model":
        block = recipe.data.max_tokens
        if block > bundle.config.model.max_length:
            raise ConfigError(
                f"data.max_tokens = {block} is above model.max_length = {bundle.config.model.max_length}: "
                "a block is what the model reads at once"
            )
        return BlockFeed(store, vocabulary, block=block, batch_tokens=train.batch_tokens, seed=train.seed)
    lengths = store.source_lengths
    # Every token of a text is read, whatever is to be said about it: that is what a batch is measured by.
    order = BatchOrder(
        lengths, lengths, batch_tokens=train.batch_tokens, seed=train.seed, groups=store.groups
    )
    kinds: dict[str, type[Feed]] = {"masked_language_model": MaskedFeed, "tag": TagFeed}
    feed = kinds.get(recipe.task, Feed)(store, order, bundle.tokenizers, vocabulary, seed=train.seed)
    if isinstance(feed, MaskedFeed):
        feed.share = train.masked
    return feed


def new_reader(recipe: Recipe, config: BundleConfig, tokenizers: TokenizerPair, start: Path | None) -> Reader:
    """A model with fresh weights; or with those of `start`, all of them or what the two tasks share."""
    torch.manual_seed(recipe.train.seed)
    model = build_reader(recipe.task, config.model, config.vocabulary)
    if isinstance(model.embedding, PatchEmbedding):
        _set_levels(model.embedding, tokenizers.source)
    if start is not None:
        _take_over(model, start / WEIGHTS, config)
    return model


def _take_over(model: Reader, path: Path, config: BundleConfig) -> None:
    stored = read_safetensors(path)
    own = weights_of(model)
    if stored.keys() == own.keys() and all(stored[name].shape == own[name].shape for name in own):
        load_weights(model, path, config.vocabulary)
        return
    with torch.no_grad():
        for name, weight in own.items():
            if name.startswith(TRUNK):
                weight.copy_(stored[name])


def _set_levels(embedding: PatchEmbedding, tokenizer: Tokenizer) -> None:
    """How bright each symbol is: the number it says, as a share of the largest."""
    names = tokenizer.pieces(range(2, tokenizer.pad))
    try:
        values = [float(name) for name in names]
    except ValueError as error:
        raise DataError(f"task = 'image': a line of numbers is an image, but here is more: {error}") from None
    most = max(map(abs, values)) or 1.0
    with torch.no_grad():
        embedding.levels_V[2 : tokenizer.pad] = torch.tensor(values) / most


def check_labels(task: str, valid: list[tuple[str, str]], tokenizers: TokenizerPair) -> None:
    """A label that is in the validation text alone can never be right: say so before the training."""
    if task not in LABELLED:
        return
    missing = sorted({label for _, text in valid for label in tokenizers.target.unknown(text)})
    if missing:
        raise DataError(
            f"the validation text has labels that the training text lacks: {', '.join(missing[:5])}"
        )
