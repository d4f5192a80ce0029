"""Heads switched off: what would the model say without them?

    with silence([("decoder.0.cross", 2)]):
        model.decode(memory, target_BT)     # as if that head's output were zero

A silenced head attends as before (a recorder still sees its weights), but what it brings back counts as
zero. Like a recorder, this belongs to one thread (or one asyncio task); outside the block it costs the look
at one variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

Head = tuple[str, int]
"""where the attention stands (`encoder.0.self`, `decoder.3.cross`), and which of its heads, from 0"""

_silent: ContextVar[list[frozenset[Head]] | None] = ContextVar("glassformer_silent", default=None)


def loudness(place: str, heads: int, like: Tensor) -> Tensor | None:
    """1 for the heads of this attention that speak, 0 for the others, as loud_BH11 (or loud_1H11 when all
    sentences are treated alike); None when nobody is silent here."""
    rows = _silent.get()
    if rows is None or not any(name == place for row in rows for name, _ in row):
        return None
    loud = [[float((place, head) not in row) for head in range(heads)] for row in rows]
    return torch.tensor(loud, dtype=like.dtype, device=like.device)[..., None, None]


def silenced() -> bool:
    """Are heads switched off in this thread?"""
    return _silent.get() is not None


@contextmanager
def silence(heads: Iterable[Head]) -> Iterator[None]:
    """Switch these heads off for every model that runs in this thread until the block ends."""
    with silence_each([heads]):
        yield


@contextmanager
def silence_each(heads_B: Sequence[Iterable[Head]]) -> Iterator[None]:
    """Switch off other heads in each sentence of a batch: row b does without `heads_B[b]`."""
    token = _silent.set([frozenset(heads) for heads in heads_B])
    try:
        yield
    finally:
        _silent.reset(token)
