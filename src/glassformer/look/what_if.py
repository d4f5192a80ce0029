"""What if another word were said at this step? What if a head were switched off? For one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glassformer.evaluate import corpus_bleu
from glassformer.look.run import Run, all_heads, outcome
from glassformer.look.variants import Variant, search_variants, single
from glassformer.search.scoring import Hypothesis, length_factor

Candidates = Sequence[Sequence[dict[str, Any]]]


def continued(run: Run, candidates: Candidates, most: int) -> dict[str, dict[str, Any]]:
    """Where each forced word leads, under `step:id`; the likeliest ones of each step, about `most` in all."""
    eos, forced = run.translator.bundle.model.vocabulary.eos, len(run.variant.prefix)
    each = max(1, math.ceil(most / max(1, len(candidates))))
    wanted, ends = [], []
    for step in range(forced, len(candidates)):
        others = [one for one in candidates[step] if not one["chosen"]][:each]
        ends += [(step, one) for one in others if one["id"] == eos]
        wanted += [(step, one) for one in others if one["id"] != eos]
    wanted = [(step, one) for step, one in wanted if step + 1 < run.options.max_length]
    variants = [Variant((*run.said[:step], one["id"]), run.variant.heads_off) for step, one in wanted]
    found = search_variants(run.translator.bundle.model, run.source, variants, single(run.options))
    results = {
        f"{step}:{one['id']}": outcome(run.translator, best, run.options)
        for (step, one), [best] in zip(wanted, found, strict=True)
    }
    for step, one in ends:
        results[f"{step}:{eos}"] = outcome(run.translator, _ended(run, step, one["log_prob"]), run.options)
    return results


def _ended(run: Run, step: int, log_prob: float) -> Hypothesis:
    """The winning tokens up to a step, and then the end: nothing is left to search."""
    log_probs = [*run.best.token_log_probs[:step], log_prob]
    factor = length_factor(len(log_probs), run.options.length_penalty, run.options.penalty)
    return Hypothesis(run.said[:step], sum(log_probs), sum(log_probs) / factor, log_probs, True)


def ablated(run: Run, reference: str) -> dict[str, dict[str, Any]]:
    """The translation without each single head, under `place:head`, with its BLEU.

    BLEU is against the reference; without one it is against the whole model's translation, and says how
    much changed.
    """
    bundle = run.translator.bundle
    heads = [head for head in all_heads(bundle.model) if head not in run.variant.heads_off]
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
