"""Run one sentence and gather everything there is to see, in plain data that JSON can hold.

    from glassformer import load
    from glassformer.look.trace import trace
    seen = trace(load("my-model"), "A sentence.")
    unpack(seen["attention"]["decoder.0.cross"])    # (heads, target, source), exactly as recorded

Attention, residual stream and layers' opinions are those of the winning hypothesis, read again in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer import settings
from glassformer.align import spans_of_ids
from glassformer.bundle import RESULT
from glassformer.config import ModelConfig
from glassformer.look.pack import pack
from glassformer.look.patterns import Marks, profiles, tally
from glassformer.look.run import Run, outcome, scores, search, transformer_of
from glassformer.look.walk import walk
from glassformer.look.what_if import ablated, continued, whole
from glassformer.model.build import count_parameters
from glassformer.model.record import Recorder, record
from glassformer.model.silence import Head, silence
from glassformer.translate import Translator

FORMAT = 1
CANDIDATES = 10
"""likeliest words shown at each step"""
CONTINUATIONS = 400
"""continuations precomputed for a page, at most, unless it is asked for more"""
OPINIONS = 5
"""likeliest words shown for each layer"""


def trace(
    translator: Translator,
    text: str,
    *,
    beams: int | None = None,
    prefix: str | Sequence[int] = "",
    heads_off: Iterable[Head] = (),
    continuations: int = CONTINUATIONS,
    ablations: bool = True,
    reference: str = "",
) -> dict[str, Any]:
    """Everything about one sentence; see the page for what it all means.

    `prefix` is what the translation has to begin with, as text or as ids. `continuations` is about how many
    forced words are followed to their end (0 for none), `ablations` whether every head is switched off once.
    A `reference` translation, if there is one, is what the BLEU of these is measured against.
    """
    run = search(translator, text, beams, prefix, frozenset((place, int(head)) for place, head in heads_off))
    model, vocabulary = transformer_of(translator), translator.bundle.model.vocabulary
    target_in = [vocabulary.start, *run.said[:-1]]
    with silence(run.variant.heads_off), torch.inference_mode(), record() as recorder:
        device = model.output_weight.device
        lengths_B = torch.tensor([len(run.source) + 1], device=device)
        memory = model.encode(torch.tensor([[*run.source, vocabulary.eos]], device=device), lengths_B)
        logits_TV = model.decode(memory, torch.tensor([target_in], device=device))[0]
    candidates = _candidates(translator, logits_TV.log_softmax(-1), run.said)
    with silence(run.variant.heads_off):
        stages = walk(model, [*run.source, vocabulary.eos], target_in)
    seen = {
        "format": FORMAT,
        "model": _about(translator),
        "request": _request(run),
        "source": _source(run),
        "target": _target(run),
        "scores": scores(run.best, run.options),
        "n_best": [outcome(translator, each, run.options) for each in run.hypotheses],
        "candidates": candidates,
        "beam": run.tree.to_json(run.best),
        "walk": [stage.to_json() for stage in stages],
        **_inside(translator, recorder, run),
    }
    if run.variant.heads_off:
        seen["whole"] = whole(run)
    if continuations > 0:
        seen["continuations"] = continued(run, candidates, continuations)
    if ablations:
        seen["ablations"] = ablated(run, reference)
        seen["request"]["reference"] = reference
    return seen


def _about(translator: Translator) -> dict[str, Any]:
    bundle = translator.bundle
    config: ModelConfig = bundle.config.model
    path = bundle.path
    if path is not None and path.name == RESULT:  # inside a training run, whose name says more
        path = path.parent
    return {
        "name": path.name if path else "",
        "source_language": bundle.config.source_language,
        "target_language": bundle.config.target_language,
        "parameters": count_parameters(bundle.model),
        "config": settings.to_mapping(config),
    }


def _request(run: Run) -> dict[str, Any]:
    return {
        "text": run.source_text,
        "prefix": list(run.variant.prefix),
        "heads_off": [list(head) for head in sorted(run.variant.heads_off)],
        "beams": run.options.beams,
        "penalty": run.options.penalty,
        "length_penalty": run.options.length_penalty,
    }


def _source(run: Run) -> dict[str, Any]:
    tokenizer = run.translator.bundle.tokenizers.source
    tokens = tokenizer.tokens(run.source_text)
    end = len(run.source_text)
    ids = [*run.source, tokenizer.eos]
    return {
        "text": run.source_text,
        "ids": ids,
        "pieces": tokenizer.pieces(ids),
        "spans": [*([token.start, token.end] for token in tokens), [end, end]],
    }


def _target(run: Run) -> dict[str, Any]:
    tokenizer = run.translator.bundle.tokenizers.target
    text = tokenizer.decode(run.best.tokens)
    spans = [list(span) for span in spans_of_ids(run.best.tokens, tokenizer.decode)]
    return {
        "text": text,
        "ids": run.said,
        "pieces": tokenizer.pieces(run.said),
        "spans": spans + [[len(text), len(text)]] * run.best.finished,
        "log_probs": run.best.token_log_probs,
        "finished": run.best.finished,
    }


def _candidates(
    translator: Translator, log_probs_TV: Tensor, said: Sequence[int]
) -> list[list[dict[str, Any]]]:
    """At each step the likeliest tokens, best first; the chosen one is always among them."""
    pieces = translator.bundle.tokenizers.target.pieces
    steps = []
    for log_probs_V, chosen in zip(log_probs_TV, said, strict=True):
        best, ids = log_probs_V.topk(min(CANDIDATES, len(log_probs_V) - 1))
        row = dict(zip(ids.tolist(), best.tolist(), strict=True))
        if chosen not in row:
            row.popitem()
            row[chosen] = float(log_probs_V[chosen])
        rank = int((log_probs_V > log_probs_V[chosen]).sum())
        steps.append(
            [
                {"id": i, "piece": pieces([i])[0], "log_prob": p, "chosen": i == chosen}
                | ({"rank": rank} if i == chosen else {})
                for i, p in row.items()
            ]
        )
    return steps


def _inside(translator: Translator, recorder: Recorder, run: Run) -> dict[str, Any]:
    """Attention of every head and what it does, the residual stream, and what each layer would say."""
    tokenizers, vocabulary = translator.bundle.tokenizers, translator.bundle.model.vocabulary
    marks = {
        "S": Marks.of(tokenizers.source.pieces([*run.source, vocabulary.eos])),
        "T": Marks.of(tokenizers.target.pieces([vocabulary.start, *run.said[:-1]])),
    }
    attention, heads = {}, {}
    for place, calls in recorder.attention.items():
        weights_HTS = calls[0][0]
        attention[place] = pack(weights_HTS)
        cross = place.endswith(".cross")
        side = "T" if place.startswith("decoder") and not cross else "S"
        heads[place] = [
            {"label": head.label, "score": head.score, "entropy": head.entropy, "scores": head.scores}
            for head in profiles(*tally(weights_HTS.float(), marks[side], cross=cross))
        ]
    return {
        "attention": attention,
        "heads": heads,
        "residual": _residual(recorder),
        "opinions": _opinions(translator, recorder, run.said),
    }


def _residual(recorder: Recorder) -> list[dict[str, Any]]:
    """How long each token's vector is as it leaves each layer, and how far the layer moved it."""
    found = []
    for stack in ("encoder", "decoder"):
        before_TD: Tensor | None = None
        for place, calls in recorder.residual.items():
            if place.startswith(stack):
                x_TD = calls[0][0].float()
                moved_T = torch.zeros(len(x_TD)) if before_TD is None else (x_TD - before_TD).norm(dim=-1)
                found.append({"place": place, "norms": pack(x_TD.norm(dim=-1)), "moved": pack(moved_T)})
                before_TD = x_TD
    return found


def _opinions(translator: Translator, recorder: Recorder, said: Sequence[int]) -> list[dict[str, Any]]:
    """What each layer of the decoder would say if it were the last: the logit lens."""
    model, pieces = transformer_of(translator), translator.bundle.tokenizers.target.pieces
    chosen_T1 = torch.tensor(said, device=model.output_weight.device)[:, None]
    found = []
    for place, calls in recorder.residual.items():
        if not place.startswith("decoder"):
            continue
        with torch.inference_mode():
            p_TV = model.output(model.decoder.final_norm(calls[0]))[0].softmax(-1)
        best_TX, ids_TX = p_TV.topk(OPINIONS)
        chosen_T = p_TV.gather(1, chosen_T1)
        found.append(
            {
                "place": place,
                "words": [pieces(row) for row in ids_TX.tolist()],
                "p": pack(best_TX),
                "chosen_p": pack(chosen_T[:, 0]),
                "chosen_rank": (p_TV > chosen_T).sum(-1).tolist(),
            }
        )
    return found
