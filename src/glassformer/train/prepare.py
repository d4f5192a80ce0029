"""From a recipe to everything the loop needs: text, tokenizers, token store, model.

What was made once is kept under DIR/data and used again while nothing has changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glassformer.bundle import WEIGHTS, Bundle, load_reader, load_weights
from glassformer.config import DROPOUTS, BundleConfig, ModelConfig, VocabularyConfig
from glassformer.data.batch import BatchOrder
from glassformer.data.store import Store, complete_report, prepare_store
from glassformer.errors import ConfigError, DataError, TokenizerError
from glassformer.model.build import build_model
from glassformer.recipe import Recipe
from glassformer.text.corpus import Corpus, Report
from glassformer.text.pairs import Pair, files_of
from glassformer.text.sources import resolve
from glassformer.text.tokenizer import TokenizerPair, train_tokenizers
from glassformer.train.family_prepare import (
    check_labels,
    check_text,
    data_for,
    learn_tokenizers,
    make_feed,
    new_reader,
    starts_from,
)
from glassformer.train.feed import Batches, Feed
from glassformer.weights import atomic_directory

FINGERPRINT = "made-from.txt"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """Ready to train."""

    recipe: Recipe
    bundle: Bundle[Any]
    feed: Batches
    valid: list[Pair]
    cleaning: Report
    fingerprint: str
    """changes whenever the text, the tokenizer or what is left out does"""


def prepare(
    recipe: Recipe, directory: Path, tokenizers: TokenizerPair | None = None, say: Say = print
) -> Prepared:
    """Read, clean, tokenise and build. `tokenizers` are those of a checkpoint that is to go on."""
    translating = recipe.task == "translate"
    data = resolve(recipe.data)
    check_text(recipe.task, data)
    corpus = Corpus(data if translating else data_for(recipe.task, data))
    names = [path.name for part in corpus.data.corpora for path in files_of(part)]
    say(f"reading {', '.join(names)}")
    scan = corpus.scan(directory / "data" / "scan.json")
    if not scan.report.kept:
        raise DataError("no pairs are left after cleaning:\n" + scan.report.table())
    start = _start(recipe)
    if tokenizers is None:
        whole = start is not None and start.config.task == recipe.task
        tokenizers = start.tokenizers if start and whole else None
        tokenizers = tokenizers or _tokenizers(recipe, corpus, directory / "data", start, say)
    say("turning text into tokens")
    store = prepare_store(directory / "data" / "train", corpus, tokenizers)
    cleaning = complete_report(scan.report, store, corpus)
    say(cleaning.table())
    if not len(store):
        limit = recipe.data.max_tokens
        raise DataError(f"every pair has more than data.max_tokens = {limit} tokens on a side: raise it")
    bundle = _bundle(recipe, corpus, tokenizers, start)
    if not translating:
        check_labels(recipe.task, scan.valid, tokenizers)
        if recipe.task != "language_model":
            _check_lengths(store, bundle.config.model)
        feed = make_feed(recipe, store, bundle)
        return Prepared(recipe, bundle, feed, scan.valid, cleaning, store.meta["fingerprint"])
    _check_lengths(store, bundle.config.model)
    return Prepared(
        recipe, bundle, _feed(recipe, store, bundle), scan.valid, cleaning, store.meta["fingerprint"]
    )


def _feed(recipe: Recipe, store: Store, bundle: Bundle) -> Feed:
    order = BatchOrder(
        store.source_lengths,
        store.target_lengths,
        batch_tokens=recipe.train.batch_tokens,
        seed=recipe.train.seed,
        groups=store.groups,
    )
    return Feed(
        store,
        order,
        bundle.tokenizers,
        bundle.config.vocabulary,
        seed=recipe.train.seed,
        bpe_dropout=recipe.train.bpe_dropout,
        longest=bundle.config.model.max_length,
    )


def _start(recipe: Recipe) -> Bundle[Any] | None:
    """The bundle to fine-tune, if there is one."""
    path = recipe.train.start_from
    if not path:
        return None
    return Bundle.load(path) if recipe.task == "translate" else load_reader(path, starts_from(recipe.task))


def _tokenizers(
    recipe: Recipe, corpus: Corpus, folder: Path, start: Bundle[Any] | None, say: Say
) -> TokenizerPair:
    """Those learned before from the same text with the same settings, or new ones.

    Another task's model brings the vocabulary of the text along; that of the labels is new.
    """
    own = start.tokenizers.source if start else None
    made_from = _hash(corpus.fingerprint(), dataclasses.asdict(recipe.tokenizer), recipe.task)
    if own is not None:
        made_from = _hash(made_from, own.fingerprint())
    place = folder / "tokenizers"
    try:
        if (place / FINGERPRINT).read_text("utf-8") == made_from:
            return TokenizerPair.load(place)
    except (OSError, TokenizerError):
        pass  # none yet, or not whole: learn them
    say("learning the vocabulary")
    if recipe.task == "translate":
        tokenizers = train_tokenizers(recipe.tokenizer, corpus.pairs)
    else:
        tokenizers = learn_tokenizers(recipe.task, recipe.tokenizer, corpus.pairs, own)
    with atomic_directory(place) as temporary:
        tokenizers.save(temporary)
        (temporary / FINGERPRINT).write_text(made_from, "utf-8")
    return tokenizers


def _bundle(
    recipe: Recipe, corpus: Corpus, tokenizers: TokenizerPair, start: Bundle[Any] | None
) -> Bundle[Any]:
    """A new model; or that of another bundle, with this recipe's dropout."""
    network = recipe.model
    if start is not None:
        dropouts = {key: getattr(recipe.model, key) for key in DROPOUTS}
        network = replace(start.config.model, **dropouts)
    config = BundleConfig(
        task=recipe.task,
        source_language=corpus.data.source_language,
        target_language=corpus.data.target_language,
        vocabulary=_vocabulary(recipe.task, tokenizers, start),
        model=network,
        tokenizer=start.config.tokenizer if start else recipe.tokenizer,
        search=recipe.search,
    )
    if recipe.task != "translate":
        reader = new_reader(recipe, config, tokenizers, start.path if start else None)
        return Bundle(config, tokenizers, reader)
    torch.manual_seed(recipe.train.seed)
    model = build_model(network, config.vocabulary)
    if start is not None and start.path is not None:
        load_weights(model, start.path / WEIGHTS, config.vocabulary)
    return Bundle(config, tokenizers, model)


def _vocabulary(task: str, tokenizers: TokenizerPair, start: Bundle[Any] | None) -> VocabularyConfig:
    """A model that goes on learning keeps what it reads first; running text begins where a line has ended.

    The padding is no beginning for a language model: it is zero, and where neither a position nor a source is
    added to it each norm makes its gradient a few hundred times larger.
    """
    if start is not None and start.config.task == task:
        return start.config.vocabulary
    found = tokenizers.vocabulary()
    return replace(found, start=found.eos) if task == "language_model" else found


def _check_lengths(store: Store, network: ModelConfig) -> None:
    longest = 1 + int(max(store.source_lengths.max(), store.target_lengths.max()))
    if longest > network.max_length:
        raise ConfigError(
            f"the longest sentence has {longest} tokens, but model.max_length = {network.max_length}: "
            f"set model.max_length={longest}, or data.max_tokens={network.max_length - 1}"
        )


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
