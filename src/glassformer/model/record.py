"""Who is watching: a recorder in a context variable.

    with record() as recorder:
        model.decode(model.encode(source_BS, lengths_B), target_BT)
    recorder.attention["decoder.0.cross"][0]     # weights_BHTS of the first layer

Inside the `with`, attention takes its explicit path and hands its weights over. A context variable belongs
to one thread (or one asyncio task), so other threads, and all code outside the block, are untouched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from torch import Tensor

Kind = Literal["attention", "residual"]


class Recorder:
    """What was seen, by place: `encoder.0.self`, `decoder.3.cross`, … One entry in each list a call."""

    def __init__(self) -> None:
        self.attention: dict[str, list[Tensor]] = defaultdict(list)
        """weights_BHTS of each attention, before dropout"""
        self.residual: dict[str, list[Tensor]] = defaultdict(list)
        """x_BTD as it leaves each layer (`encoder.0`) and each embedding (`encoder.embedding`)"""

    def hear(self, kind: Kind, place: str, value: Tensor) -> None:
        (self.attention if kind == "attention" else self.residual)[place].append(value.detach())


_watching: ContextVar[Recorder | None] = ContextVar("glassformer_recorder", default=None)


def watching() -> bool:
    """Is a recorder listening in this thread?"""
    return _watching.get() is not None


def tell(kind: Kind, place: str, value: Tensor) -> None:
    """Hand a value to the recorder, if there is one."""
    recorder = _watching.get()
    if recorder is not None:
        recorder.hear(kind, place, value)


@contextmanager
def record() -> Iterator[Recorder]:
    """Listen to every model that runs in this thread until the block ends."""
    recorder = Recorder()
    token = _watching.set(recorder)
    try:
        yield recorder
    finally:
        _watching.reset(token)
