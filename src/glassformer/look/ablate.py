"""How much is a head worth? BLEU over sentence pairs with it, and without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from glassformer.errors import RequestError
from glassformer.evaluate import Score, corpus_bleu
from glassformer.look.run import all_heads, check_heads, transformer_of
from glassformer.model.silence import Head, silence
from glassformer.translate import Options, Translator

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Ablation:
    """Translations and BLEU with all heads, and without some of them."""

    heads_off: tuple[Head, ...]
    bleu_before: Score
    bleu_after: Score
    before: list[str]
    after: list[str]

    @property
    def change(self) -> float:
        """What BLEU gains without these heads; below 0 they are worth something."""
        return self.bleu_after.value - self.bleu_before.value


def ablate(
    translator: Translator, heads: Iterable[Head], pairs: Pairs, **options: Unpack[Options]
) -> Ablation:
    """Translate `pairs` (source, reference) with and without `heads`, and compare."""
    heads = tuple(heads)
    check_heads(transformer_of(translator), heads)
    translate, bleu = _tools(translator, pairs, options)
    before, after = translate(()), translate(heads)
    return Ablation(heads, bleu(before), bleu(after), before, after)


def ablate_each(
    translator: Translator,
    pairs: Pairs,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """BLEU with all heads and without each single one, under `place:head`, for a page."""
    translate, bleu = _tools(translator, pairs, options)
    without = {}
    for place, head in all_heads(transformer_of(translator)):
        without[f"{place}:{head}"] = bleu(translate([(place, head)])).value
        if progress is not None:
            progress(1)
    return {"pairs": len(pairs), "bleu": bleu(translate(())).value, "without": without}


def _tools(
    translator: Translator, pairs: Pairs, options: Options
) -> tuple[Callable[[Iterable[Head]], list[str]], Callable[[list[str]], Score]]:
    """How to translate all sources without some heads, and how to score that."""
    if not pairs:
        raise RequestError("there are no sentence pairs to measure BLEU with")
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    # Our own model, in this very thread: other engines have no heads, and other threads do not hear of it.
    own = Translator(translator.bundle, engine="torch", threads=1)

    def translate(heads: Iterable[Head]) -> list[str]:
        with silence(heads):
            return [translation.text for translation in own.translate(sources, **options)]

    def bleu(said: list[str]) -> Score:
        return corpus_bleu(said, references, translator.bundle.config.target_language)

    return translate, bleu
