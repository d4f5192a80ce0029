"""One sentence and how it is searched: what everything in this room starts from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer import settings
from glassformer.errors import ConfigError, RequestError
from glassformer.look.tree import BeamTree
from glassformer.look.variants import Variant, search_variants
from glassformer.model.attention import Heads
from glassformer.model.silence import Head
from glassformer.model.transformer import Transformer
from glassformer.search.scoring import Hypothesis, SearchOptions, length_factor
from glassformer.translate import Translator
from glassformer.translation import prepare

MOST_TOKENS = 256
"""the longest sentence that is looked at: the weights of all heads grow with its square"""


@dataclass(frozen=True)
class Run:
    """A sentence, how it was searched, and what was found."""

    translator: Translator
    source_text: str
    source: list[int]
    options: SearchOptions
    variant: Variant
    hypotheses: list[Hypothesis]
    tree: BeamTree

    @property
    def best(self) -> Hypothesis:
        return self.hypotheses[0]

    @property
    def said(self) -> list[int]:
        """The winning tokens, the end included if it came: one for each step."""
        return [*self.best.tokens, *([self.translator.bundle.model.vocabulary.eos] * self.best.finished)]


def search(
    translator: Translator,
    text: str,
    beams: int | None,
    prefix: str | Sequence[int],
    heads_off: frozenset[Head],
) -> Run:
    bundle, model = translator.bundle, transformer_of(translator)
    most = min(MOST_TOKENS, bundle.model.max_length - 1)
    source_text, source = _one_sentence(translator, text, most)
    forced = bundle.tokenizers.target.encode(prefix) if isinstance(prefix, str) else [int(i) for i in prefix]
    options = _options(translator, beams, len(source), len(forced))
    check_heads(model, heads_off)
    pad = bundle.model.vocabulary.target_pad
    wrong = [i for i in forced if not 0 <= i < bundle.model.vocabulary.target_size or i == pad]
    if wrong:
        raise RequestError(f"prefix: {wrong[0]} is no token that the model can say")
    variant = Variant(tuple(forced), heads_off)
    tree = BeamTree(bundle.model.vocabulary.eos, options, bundle.tokenizers.target.pieces)
    [hypotheses] = search_variants(bundle.model, source, [variant], options, watch=tree.watch)
    return Run(translator, source_text, source, options, variant, hypotheses, tree)


def _one_sentence(translator: Translator, text: str, most: int) -> tuple[str, list[int]]:
    """The text as the model gets it, and its ids without the end."""
    [line] = prepare([text], translator.bundle.tokenizers.source, translator.bundle.model.max_length - 1)
    parts = [part for part in line.parts if part.text]
    if not parts:
        raise RequestError("there is nothing to look at: the text is blank")
    tokens = sum(len(part.ids) for part in parts)
    if len(parts) > 1 or tokens > most:
        raise RequestError(
            f"one sentence of at most {most} tokens can be looked at; this text has {tokens} tokens "
            f"in {len(parts)} {'part' if len(parts) == 1 else 'parts'}: take one of its sentences"
        )
    return parts[0].text, list(parts[0].ids)


def _options(translator: Translator, beams: int | None, source: int, forced: int) -> SearchOptions:
    """The bundle's search, as `translate` does it; all beams are wanted."""
    search = translator.bundle.config.search
    beams = search.beams if beams is None else beams
    limit = translator.bundle.model.max_length
    if forced >= limit:
        raise RequestError(f"a prefix of {forced} tokens; the model takes {limit - 1}")
    longest = max(min(search.max_length or 2 * source + 32, limit), forced + 1, search.min_length + 1)
    asked = {"beams": beams, "n_best": beams, "max_length": longest}
    try:
        return settings.from_mapping(SearchOptions, {**settings.to_mapping(search), **asked})
    except ConfigError as error:
        raise RequestError(str(error)) from None


def transformer_of(translator: Translator) -> Transformer:
    """The model, if it is one that this room knows its way through."""
    model = translator.bundle.model
    if translator.others:
        raise RequestError(f"{1 + len(translator.others)} models answer together here: look at one of them")
    if not isinstance(model, Transformer):
        kind = translator.bundle.config.model.architecture
        raise RequestError(
            f"this model is {kind}: it has no layers of heads to look at, which only a Transformer has; "
            "`glass translate --align` shows what a recurrent model with attention looked at"
        )
    return model


def check_heads(model: Transformer, heads_off: Iterable[Head]) -> None:
    """Refuse heads that the model does not have."""
    known = set(all_heads(model))
    for head in heads_off:
        if head not in known:
            places = ", ".join(sorted({place for place, _ in known}))
            raise RequestError(f"there is no head {head[1]} at {head[0]!r}; heads stand at {places}")


def all_heads(model: Transformer) -> list[Head]:
    """Every head of a model, the encoder's first."""
    attentions: list[Heads] = [layer.attention for layer in model.encoder.layers]
    for layer in model.decoder.layers:
        attentions += [layer.attention, layer.cross]
    return [(attention.place, head) for attention in attentions for head in range(attention.heads)]


def scores(hypothesis: Hypothesis, options: SearchOptions) -> dict[str, Any]:
    """The sum, and apart from it what the length penalty makes of it."""
    length = len(hypothesis.token_log_probs)
    return {
        "log_prob": _finite(hypothesis.log_prob),
        "length": length,
        "factor": length_factor(max(1, length), options.length_penalty, options.penalty),
        "score": _finite(hypothesis.score),
    }


def outcome(translator: Translator, hypothesis: Hypothesis, options: SearchOptions) -> dict[str, Any]:
    """A hypothesis in short: its text and its scores."""
    tokenizer = translator.bundle.tokenizers.target
    return {
        "text": tokenizer.decode(hypothesis.tokens),
        "pieces": tokenizer.pieces(hypothesis.tokens),
        "finished": hypothesis.finished,
        **scores(hypothesis, options),
    }


def _finite(number: float) -> float | None:
    """JSON knows no infinity: a hypothesis that was never possible has no score."""
    return number if math.isfinite(number) else None
