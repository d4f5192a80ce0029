"""What if another word were said at this step? What if a head were switched off? For one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glassformer.evaluate import corpus_bleu
from glassformer.look.run import Run, all_heads, outcome, transformer_of
from glassformer.look.variants import Variant, search_variants, single

Candidates = Sequence[Sequence[dict[str, Any]]]


def continued(run: Run, candidates: Candidates, most: int) -> dict[str, dict[str, Any]]:
    """Where each forced word leads, under `step:id`; the likeliest ones of each step, about `most` in all.

    A forced end of sentence leads nowhere: it is left out.
    """
    eos, forced = run.translator.bundle.model.vocabulary.eos, len(run.variant.prefix)
    each = max(1, math.ceil(most / max(1, len(candidates))))
    wanted = [
        (step, one["id"])
        for step in range(forced, min(len(candidates), run.options.max_length - 1))
        for one in [one for one in candidates[step] if not one["chosen"] and one["id"] != eos][:each]
    ]
    variants = [Variant((*run.said[:step], token), run.variant.heads_off) for step, token in wanted]
    found = search_variants(run.translator.bundle.model, run.source, variants, single(run.options))
    return {
        f"{step}:{token}": outcome(run.translator, best, run.options)
        for (step, token), [best] in zip(wanted, found, strict=True)
    }


def whole(run: Run) -> dict[str, Any]:
    """What the model says with all its heads, and the BLEU against that of what it says without some."""
    bundle = run.translator.bundle
    variants = [Variant(run.variant.prefix, frozenset())]
    [[best]] = search_variants(bundle.model, run.source, variants, single(run.options))
    what = outcome(run.translator, best, run.options)
    said = bundle.tokenizers.target.decode(run.best.tokens)
    bleu, before = (
        corpus_bleu([text], [what["text"]], bundle.config.target_language).value
        for text in (said, what["text"])
    )
    return what | {"bleu": bleu, "bleu_before": before, "changed": said != what["text"]}


def ablated(run: Run, reference: str) -> dict[str, dict[str, Any]]:
    """The translation without each single head, under `place:head`, with its BLEU.

    BLEU is against the reference; without one it is against the whole model's translation, and says how
    much changed.
    """
    bundle = run.translator.bundle
    heads = [head for head in all_heads(transformer_of(run.translator)) if head not in run.variant.heads_off]
    variants = [Variant(run.variant.prefix, run.variant.heads_off | {head}) for head in heads]
    found = search_variants(bundle.model, run.source, variants, single(run.options))
    whole = bundle.tokenizers.target.decode(run.best.tokens)
    against, language = reference or whole, bundle.config.target_language
    known: dict[str, float] = {}

    def bleu(text: str) -> float:
        if text not in known:
            known[text] = corpus_bleu([text], [against], language).value
        return known[text]

    results: dict[str, dict[str, Any]] = {}
    for (place, head), [best] in zip(heads, found, strict=True):
        what = outcome(run.translator, best, run.options)
        what |= {"bleu": bleu(what["text"]), "bleu_before": bleu(whole), "changed": what["text"] != whole}
        results[f"{place}:{head}"] = what
    return results
