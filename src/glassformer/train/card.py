"""The model card: what a finished bundle says to whoever finds it."""

from __future__ import annotations

from typing import Any

from glassformer import __version__, settings
from glassformer.bundle import COMMANDS, Bundle
from glassformer.config import ModelConfig
from glassformer.model.build import count_parameters
from glassformer.recipe import CorpusConfig, Recipe
from glassformer.text.corpus import Report
from glassformer.text.sources import get_source
from glassformer.train.checkpoint import Progress
from glassformer.train.report import Validation, clock


def model_card(
    recipe: Recipe,
    cleaning: Report,
    bundle: Bundle[Any],
    progress: Progress,
    validation: Validation | None,
    of: str,
) -> str:
    """Markdown: what it is, what it was made from, how good it is, how it was made."""
    config = bundle.config
    network = config.model
    languages = f"{config.source_language or 'source'} → {config.target_language or 'target'}"
    layers, command = f"{network.encoder_layers} + {network.decoder_layers}", "glass translate"
    if config.task != "translate":
        languages, command = config.task.replace("_", " ").capitalize(), COMMANDS[config.task][1]
        layers = str(len(bundle.model.encoder.layers))
    return "\n".join(
        [
            f"# {languages}",
            "",
            f"{_architecture(network)} of {count_parameters(bundle.model):,} parameters: "
            f"{layers} layers of width {network.width}, "
            f"a vocabulary of {config.vocabulary.target_size:,}. Made with glassformer {__version__}.",
            "",
            "```sh",
            f'{command} --model DIR "…"      # {languages}',
            "```",
            "",
            "## How good it is",
            "",
            *_metrics(validation, config.search.beams, recipe),
            "",
            "## What it was made from",
            "",
            *(f"- {_described(corpus)}" for corpus in recipe.data.corpora),
            "",
            "```text",
            cleaning.table(),
            "```",
            "",
            *_licence(recipe),
            "## How it was made",
            "",
            f"{progress.step:,} updates, {progress.tokens:,} target tokens, {clock(progress.seconds)}; "
            f"the weights are those of {of}.",
            "",
            "```toml",
            settings.dumps(recipe).strip(),
            "```",
            "",
        ]
    )


def _architecture(network: ModelConfig) -> str:
    if network.architecture == "transformer":
        return "A Transformer"
    with_it = {"none": "without attention"}.get(network.recurrent_attention)
    return f"A recurrent model (LSTM) {with_it or f'with {network.recurrent_attention} attention'}"


def _metrics(validation: Validation | None, beams: int, recipe: Recipe) -> list[str]:
    if validation is None:
        return ["There were no validation pairs."]
    origin = _named(recipe.data.valid) if recipe.data.valid.given else "pairs held out from the training text"
    lines = [f"On {origin}:", "", f"- perplexity {validation.perplexity:.2f} a token"]
    if validation.bleu is not None:
        lines.append(f"- BLEU {validation.bleu:.2f}, beam {beams} (`{validation.signature}`)")
    if validation.accuracy is not None:
        lines.append(f"- accuracy {validation.accuracy:.2%}")
    return [
        *lines,
        "",
        "These pairs also chose the checkpoint: a test set of your own is the honest measure.",
    ]


def _described(corpus: CorpusConfig) -> str:
    if not corpus.name:
        return _named(corpus)
    source = get_source(corpus.name.partition(":")[0])
    return f"{corpus.name}: {source.title}. Licence: {source.licence} {source.attribution}"


def _licence(recipe: Recipe) -> list[str]:
    if all(corpus.name for corpus in recipe.data.corpora):
        return []
    return ["The licence of the text is not known to the program that wrote this card: add it here.", ""]


def _named(corpus: CorpusConfig) -> str:
    if corpus.name:
        return corpus.name
    return corpus.pairs or corpus.text or f"{corpus.source} and {corpus.target}"
