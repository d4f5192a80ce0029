"""Tables of probabilities to search in, and slow, obvious searches to compare with."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.search.beam import beam

EOS, START = 0, 1


@dataclass
class Table:
    """Log-probabilities that depend on the sentence and on all that was said before; start is never said."""

    size: int
    sharpness: float = 2.0
    end_bias: float = 0.0
    dtype: torch.dtype = torch.float64

    def log_probs(self, sentence: int, said: Sequence[int]) -> Tensor:
        seed = zlib.crc32(repr((sentence, list(said))).encode())
        logits_V = torch.randn(self.size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        logits_V = logits_V * self.sharpness
        logits_V[EOS] += self.end_bias
        logits_V[START] = -torch.inf
        return logits_V.log_softmax(-1).to(self.dtype)

    def start(self, sentences: Sequence[int], beams: int) -> TableState:
        return TableState(list(sentences), [[[] for _ in range(beams)] for _ in sentences])

    def step(self, last_BN: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        if last_BN.shape != (len(state.sentences), len(state.said[0])):
            raise AssertionError(
                f"last_BN is {tuple(last_BN.shape)}, the state has {len(state.sentences)} sentences"
            )
        for row, beams in zip(last_BN.tolist(), state.said, strict=True):
            for token, said in zip(row, beams, strict=True):
                if token != START:
                    said.append(token)
        rows = [
            torch.stack([self.log_probs(sentence, said) for said in beams])
            for sentence, beams in zip(state.sentences, state.said, strict=True)
        ]
        return torch.stack(rows), state

    def sum(self, sentence: int, said: Sequence[int]) -> float:
        """Forced scoring, token by token."""
        return sum(float(self.log_probs(sentence, said[:at])[said[at]]) for at in range(len(said)))


@dataclass
class TableState:
    sentences: list[int]
    said: list[list[list[int]]]

    def reorder(self, parents_BN: Tensor) -> None:
        self.said = [
            [list(beams[parent]) for parent in parents]
            for beams, parents in zip(self.said, parents_BN.tolist(), strict=True)
        ]

    def keep(self, rows: Tensor) -> None:
        self.sentences = [self.sentences[row] for row in rows.tolist()]
        self.said = [self.said[row] for row in rows.tolist()]


def factor(length: int, alpha: float, penalty: str) -> float:
    return float(length**alpha if penalty == "length" else ((5 + length) / 6) ** alpha)


Forbidden = Callable[[Sequence[int]], set[int]]


def forbid(min_length: int = 0, no_repeat: int = 0, prefix: Sequence[int] = (), size: int = 0) -> Forbidden:
    """What may not follow `said`, written the slow way."""

    def forbidden(said: Sequence[int]) -> set[int]:
        if len(said) < len(prefix):
            return set(range(size)) - {prefix[len(said)]}
        banned = {EOS} if len(said) < min_length else set()
        if no_repeat:
            for at in range(len(said) - no_repeat + 1):
                ngram = list(said[at : at + no_repeat])
                if ngram[:-1] == list(said[len(said) - no_repeat + 1 :]):
                    banned.add(ngram[-1])
        return banned

    return forbidden


def slow_beam(
    table: Table,
    sentence: int,
    *,
    beams: int,
    longest: int,
    alpha: float,
    penalty: str = "length",
    forbidden: Forbidden = lambda said: set(),
    exact: bool = False,
) -> list[tuple[float, list[int]]]:
    """Beam search with lists: (score, tokens with eos) of everything closed, best first.

    `exact` closes every end and never stops before the maximum length.
    """
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    closed: list[tuple[float, list[int]]] = []
    for length in range(1, longest + 1):
        found = []
        for total, said in live:
            banned = forbidden(said)
            for token, log_prob in enumerate(table.log_probs(sentence, said).tolist()):
                if token not in banned and log_prob > -math.inf:
                    found.append((total + log_prob, [*said, token]))
        found.sort(key=lambda way: -way[0])
        live = [way for way in found if way[1][-1] != EOS][:beams]
        if exact:
            ends = [way for way in found if way[1][-1] == EOS] + (live if length == longest else [])
        else:
            ends = [way for way in found[:beams] if way[1][-1] == EOS or length == longest]
        closed += [(total / factor(length, alpha, penalty), said) for total, said in ends]
        if len(closed) >= beams and not exact:
            break
    return sorted(closed, key=lambda way: -way[0])


def exhaustive(
    table: Table, sentence: int, *, longest: int, alpha: float, penalty: str = "length"
) -> list[tuple[float, list[int]]]:
    """Every sequence there is, best first: ended ones up to `longest` tokens, unended ones of that length."""
    words = [token for token in range(table.size) if token not in (EOS, START)]
    found = []
    for length in range(1, longest + 1):
        for body in itertools.product(words, repeat=length - 1):
            found.append([*body, EOS])
    found += [list(body) for body in itertools.product(words, repeat=longest)]
    scored = [(table.sum(sentence, said) / factor(len(said), alpha, penalty), said) for said in found]
    return sorted(scored, key=lambda way: -way[0])


@pytest.fixture(scope="session")
def tables() -> SimpleNamespace:
    return SimpleNamespace(
        Table=Table,
        slow_beam=slow_beam,
        exhaustive=exhaustive,
        forbid=forbid,
        EOS=EOS,
        START=START,
        factor=factor,
    )


def search(
    tables: Any, table: Any, sentences: list[int], max_lengths: list[int], **options: Any
) -> list[Any]:
    """Beam search over some sentences of a table."""
    state = table.start(sentences, options["beams"])
    return beam(
        table.step,
        state,
        batch=len(sentences),
        start=tables.START,
        eos=tables.EOS,
        max_lengths=max_lengths,
        **options,
    )
