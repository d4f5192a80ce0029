"""One sentence, searched many times over: with other beginnings, and with heads switched off.

Each variant is a row of one batch, so that a hundred of them cost little more than a few.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.silence import Head, silence_each
from glassformer.model.state import DecoderState
from glassformer.search.beam import Watch, beam
from glassformer.search.scoring import Hypothesis, SearchOptions

ROWS = 64
"""variants searched at a time"""


@dataclass(frozen=True)
class Variant:
    """How the sentence is searched this time."""

    prefix: tuple[int, ...] = ()
    """what the translation has to begin with"""
    heads_off: frozenset[Head] = field(default_factory=frozenset)
    """heads that are silent, in the encoder and in the decoder"""


class _Rows:
    """A decoder state that remembers which heads are silent in which of its rows."""

    def __init__(self, state: DecoderState, heads_B: Sequence[Iterable[Head]]) -> None:
        self.state, self.heads_B = state, list(heads_B)

    def reorder(self, parents_BN: Tensor) -> None:
        self.state.reorder(parents_BN)

    def keep(self, rows: Tensor) -> None:
        self.state.keep(rows)
        self.heads_B = [self.heads_B[row] for row in rows.tolist()]


def search_variants(
    model: Seq2Seq,
    source: Sequence[int],
    variants: Sequence[Variant],
    options: SearchOptions,
    *,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each variant, best first; the same as if each were searched alone.

    `source` has no end of sentence. `options.max_length` is the most tokens of a translation.
    """
    found: list[list[Hypothesis]] = []
    for start in range(0, len(variants), ROWS):
        with torch.inference_mode():
            found += _search(model, source, variants[start : start + ROWS], options, watch)
    return found


def _search(
    model: Seq2Seq,
    source: Sequence[int],
    variants: Sequence[Variant],
    options: SearchOptions,
    watch: Watch | None,
) -> list[list[Hypothesis]]:
    vocabulary, device = model.vocabulary, model.output_weight.device
    ids_BS = torch.tensor([[*source, vocabulary.eos]] * len(variants), device=device)
    lengths_B = torch.full((len(variants),), ids_BS.shape[1], device=device)
    heads_B = [variant.heads_off for variant in variants]
    with silence_each(heads_B):
        state = model.start(model.encode(ids_BS, lengths_B), options.beams)

    def step(last_BN: Tensor, rows: _Rows) -> tuple[Tensor, Any]:
        with silence_each(rows.heads_B):
            return model.step(last_BN, rows.state)[0], rows

    return beam(
        step,
        _Rows(state, heads_B),
        batch=len(variants),
        beams=options.beams,
        n_best=options.n_best,
        start=vocabulary.start,
        eos=vocabulary.eos,
        max_lengths=[options.max_length] * len(variants),
        min_length=options.min_length,
        length_penalty=options.length_penalty,
        penalty=options.penalty,
        stop=options.stop,
        no_repeat_ngram=options.no_repeat_ngram,
        prefixes=[variant.prefix for variant in variants],
        watch=watch,
        device=device,
    )


def single(options: SearchOptions) -> SearchOptions:
    """The same search, of which only the best hypothesis is wanted."""
    return dataclasses.replace(options, n_best=1)
