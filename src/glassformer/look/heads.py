"""The head finder: over a small corpus, what does each head do, and which one aligns best?

    report = find_heads(translator, pairs)
    report.aligning                    # Aligning(layer=1, head=3, agreement=0.71)

Without known links, an aligning head is one that agrees with the corpus itself: a small word-translation
model (IBM Model 1; Brown et al. 1993) learns from the same pairs which source token explains each target
token, and a head is scored by how often it looks there most. With known links, `error_rates` says how wrong
each head is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import RequestError
from glassformer.look.patterns import Marks, Profile, profiles, tally
from glassformer.look.run import transformer_of
from glassformer.model.record import record
from glassformer.translate import Translator

Link = tuple[int, int]
"""(source token, target token)"""
Ids = Sequence[int]

ROWS = 32
"""sentences recorded at a time"""


@dataclass(frozen=True)
class HeadReport:
    """What a head does over the corpus."""

    place: str
    head: int
    profile: Profile
    agreement: float | None
    """how often its strongest link is what the corpus says is right; None outside of cross-attention"""


@dataclass(frozen=True)
class Aligning:
    """A head of cross-attention, and how well it aligns."""

    layer: int
    head: int
    agreement: float

    @property
    def place(self) -> str:
        return f"decoder.{self.layer}.cross"


@dataclass(frozen=True)
class HeadsReport:
    """All heads of a model over a corpus."""

    sentences: int
    heads: list[HeadReport]
    aligning: Aligning

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences": self.sentences,
            "aligning": {"layer": self.aligning.layer, "head": self.aligning.head}
            | {"agreement": self.aligning.agreement},
            "heads": [
                {
                    "place": one.place,
                    "head": one.head,
                    "label": one.profile.label,
                    "score": one.profile.score,
                    "entropy": one.profile.entropy,
                    "scores": one.profile.scores,
                    "agreement": one.agreement,
                }
                for one in self.heads
            ],
        }


@dataclass(frozen=True)
class Seen:
    """The attention of one sentence pair, cut to its own length."""

    source: list[int]
    """with the end of sentence"""
    target: list[int]
    """what was said, with the end of sentence"""
    attention: dict[str, Tensor]
    """place → weights_HTS"""


def find_heads(translator: Translator, pairs: Iterable[tuple[str, str]]) -> HeadsReport:
    """Label every head over sentence pairs, and recommend the cross-attention head that aligns best."""
    texts = list(pairs)
    ids = encode_pairs(translator, texts)
    lexicon = Lexicon(ids)
    pieces = translator.bundle.tokenizers
    start = translator.bundle.model.vocabulary.start
    sums: dict[str, dict[str, Tensor]] = {}
    counts: dict[str, dict[str, Tensor]] = {}
    agreed: dict[str, Tensor] = {}
    tokens = 0
    for seen in watch_pairs(translator, ids):
        marks_S = Marks.of(pieces.source.pieces(seen.source))
        marks_T = Marks.of(pieces.target.pieces([start, *seen.target[:-1]]))
        posterior_TS = lexicon.posterior(seen.source[:-1], seen.target[:-1])
        tokens += len(posterior_TS)
        for place, weights_HTS in seen.attention.items():
            cross = place.endswith(".cross")
            marks = marks_T if place.startswith("decoder") and not cross else marks_S
            for total, new in zip(
                (sums.setdefault(place, {}), counts.setdefault(place, {})),
                tally(weights_HTS, marks, cross=cross),
                strict=True,
            ):
                for name, value in new.items():
                    total[name] = total.get(name, 0) + value
            if cross:
                links_HT = weights_HTS[:, :-1, :-1].argmax(-1)
                right_TS = posterior_TS / posterior_TS.amax(-1, keepdim=True).clamp(min=1e-9)
                rows_T = torch.arange(len(right_TS))
                agreed[place] = agreed.get(place, 0) + right_TS[rows_T, links_HT].sum(-1)
    heads = [
        HeadReport(place, head, profile, float(agreed[place][head]) / tokens if place in agreed else None)
        for place in sums
        for head, profile in enumerate(profiles(sums[place], counts[place]))
    ]
    best = max((one for one in heads if one.agreement is not None), key=lambda one: one.agreement or 0.0)
    aligning = Aligning(int(best.place.split(".")[1]), best.head, best.agreement or 0.0)
    return HeadsReport(len(ids), heads, aligning)


def encode_pairs(
    translator: Translator, texts: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int]]]:
    """Ids of the pairs that the model can take; blank and overlong ones are left out."""
    tokenizers, limit = translator.bundle.tokenizers, translator.bundle.model.max_length - 1
    sources = tokenizers.source.encode_batch([source.strip() for source, _ in texts])
    targets = tokenizers.target.encode_batch([target.strip() for _, target in texts])
    kept = [(s, t) for s, t in zip(sources, targets, strict=True) if s and t and max(len(s), len(t)) < limit]
    if not kept:
        raise RequestError("there is no sentence pair that the model can take")
    return kept


def watch_pairs(translator: Translator, ids: Sequence[tuple[Ids, Ids]]) -> Iterator[Seen]:
    """Read each pair with the model, its target as given, and hand over what every head looked at."""
    model = transformer_of(translator)
    vocabulary, device = model.vocabulary, model.output_weight.device
    for first in range(0, len(ids), ROWS):
        batch = ids[first : first + ROWS]
        sources = [[*source, vocabulary.eos] for source, _ in batch]
        targets = [[vocabulary.start, *target] for _, target in batch]
        lengths_B = torch.tensor([len(source) for source in sources], device=device)
        with torch.inference_mode(), record() as recorder:
            memory = model.encode(_pad(sources, vocabulary.source_pad, device), lengths_B)
            model.states(memory, _pad(targets, vocabulary.target_pad, device))
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            attention = {}
            for place, calls in recorder.attention.items():
                rows = len(source) if place.startswith("encoder") else len(target)
                columns = (
                    len(target) if place.startswith("decoder") and place.endswith("self") else len(source)
                )
                attention[place] = calls[0][row, :, :rows, :columns].float().cpu()
            yield Seen(source, [*target[1:], vocabulary.eos], attention)


def _pad(rows: Sequence[Ids], pad: int, device: torch.device) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=device)


class Lexicon:
    """IBM Model 1: t(target token | source token), learnt from the pairs by a few rounds of EM."""

    def __init__(self, pairs: Sequence[tuple[Ids, Ids]], rounds: int = 6) -> None:
        self.table: dict[Link, float] = {
            (source, target): 1.0 for sources, targets in pairs for source in sources for target in targets
        }
        for _ in range(rounds):
            counts: dict[Link, float] = dict.fromkeys(self.table, 0.0)
            totals: dict[int, float] = {}
            for sources, targets in pairs:
                posterior_TS = self.posterior(sources, targets).tolist()
                for target, row in zip(targets, posterior_TS, strict=True):
                    for source, share in zip(sources, row, strict=True):
                        counts[source, target] += share
                        totals[source] = totals.get(source, 0.0) + share
            self.table = {link: count / totals[link[0]] for link, count in counts.items()}

    def posterior(self, sources: Ids, targets: Ids) -> Tensor:
        """posterior_TS: which source token each target token comes from, by the words alone."""
        table_TS = torch.tensor(
            [[self.table.get((source, target), 0.0) for source in sources] for target in targets]
        )
        return table_TS / table_TS.sum(-1, keepdim=True).clamp(min=1e-9)


def links_of(weights_TS: Tensor) -> set[Link]:
    """Each target token with the source token it looked at most."""
    return {(source, target) for target, source in enumerate(weights_TS.argmax(-1).tolist())}


def alignment_error_rate(
    found: Iterable[Link], sure: Iterable[Link], possible: Iterable[Link] | None = None
) -> float:
    """1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)   (Och & Ney 2003); without possible links P = S.

    >>> alignment_error_rate({(0, 0), (1, 1)}, {(0, 0), (1, 2)})
    0.5
    """
    answer, certain = set(found), set(sure)
    allowed = certain | set(possible or ())
    if not answer and not certain:
        return 0.0
    return 1 - (len(answer & certain) + len(answer & allowed)) / (len(answer) + len(certain))


def error_rates(
    translator: Translator, pairs: Sequence[tuple[str, str]], links: Sequence[Iterable[Link]]
) -> dict[tuple[int, int], float]:
    """The alignment error rate of every cross-attention head, as {(layer, head): rate}, over all pairs.

    `links` are between tokens of the source and of the target, ends of sentence left out.
    """
    found: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
    right: set[tuple[int, int, int]] = set()
    ids = encode_pairs(translator, pairs)
    if len(ids) != len(links):
        raise RequestError(f"{len(links)} lists of links for {len(ids)} sentence pairs")
    for number, (seen, known) in enumerate(zip(watch_pairs(translator, ids), links, strict=True)):
        right |= {(number, source, target) for source, target in known}
        for place, weights_HTS in seen.attention.items():
            if place.endswith(".cross"):
                for head, weights_TS in enumerate(weights_HTS[:, :-1, :-1]):
                    key = (int(place.split(".")[1]), head)
                    found.setdefault(key, set()).update((number, *link) for link in links_of(weights_TS))
    return {key: 1 - 2 * len(answer & right) / (len(answer) + len(right)) for key, answer in found.items()}
