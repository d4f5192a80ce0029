"""Ctrl-C as a request, not a crash."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def asked_to_stop(alone: bool) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a polite request; the second one works as ever.

    Not under torchrun: it ends its workers with SIGTERM when one of them is lost, and waiting for the
    others to finish an update together would wait for ever.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[number])

    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if alone and threading.current_thread() is threading.main_thread():
            for number in before:
                signal.signal(number, ask)
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is ask:
                signal.signal(number, handler)
