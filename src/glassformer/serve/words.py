"""What else could stand here? The likeliest words after the beginning of a translation."""

from __future__ import annotations

import torch

from glassformer.align import stands_alone, words
from glassformer.search.scoring import SearchOptions
from glassformer.translate import Translator


def next_words(translator: Translator, text: str, prefix: str, count: int = 10) -> list[dict[str, object]]:
    """Up to `count` words that may follow `prefix` in the translation of `text`, with their probabilities.

    The model says tokens: the likeliest ones are each continued greedily until their word is complete. The
    probability is of the word's first token; the end of the sentence is the word "".
    """
    bundle, engine = translator.bundle, translator.torch_engine
    model, target = bundle.model, bundle.tokenizers.target
    source = bundle.tokenizers.source.encode(text)[: model.max_length - 1]
    begin = target.encode(prefix)[: model.max_length - 2]
    with torch.inference_mode():
        memory = model.encode(
            torch.tensor([[*source, model.vocabulary.eos]], device=engine.device),
            torch.tensor([len(source) + 1], device=engine.device),
        )
        start_1T = torch.tensor([[model.vocabulary.start, *begin]], device=engine.device)
        log_probs_V = model.decode(memory, start_1T)[0, -1].float().log_softmax(-1)
        best = log_probs_V.topk(min(2 * count, len(log_probs_V) - 1))
    tokens, chances = best.indices.tolist(), best.values.exp().tolist()
    going_on = [token for token in tokens if token != model.vocabulary.eos]
    continued = engine.translate_ids(
        [source] * len(going_on),
        SearchOptions(beams=1),
        max_lengths=[min(len(begin) + 12, model.max_length)] * len(going_on),
        prefixes=[[*begin, token] for token in going_on],
    )
    shown = len(target.decode(begin))
    likely: dict[str, float] = {}
    after = {token: found[0].tokens for token, found in zip(going_on, continued, strict=True)}
    for token, chance in zip(tokens, chances, strict=True):
        word: str | None = ""
        if token != model.vocabulary.eos:
            word = _word(target.decode([*begin, token])[shown:], target.decode(after[token])[shown:])
        if word is not None:
            likely[word] = likely.get(word, 0.0) + chance
    ranked = sorted(likely.items(), key=lambda pair: -pair[1])
    return [{"word": word, "probability": chance} for word, chance in ranked[:count]]


def _word(token: str, text: str) -> str | None:
    """The first word of a text that begins with a token; in scripts without spaces, the token itself."""
    start, end = next(iter(words(text)), (0, 0))
    if start == end:
        return None
    said = token.strip()
    alone = stands_alone(text[start]) and "\N{REPLACEMENT CHARACTER}" not in said
    return said if alone and said else text[start:end]
