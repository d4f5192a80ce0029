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

    Among several processes only Ctrl-C, which torchrun passes on to all of them: with SIGTERM it also ends
    its workers when one of them is lost, and waiting for that one to finish an update would wait for ever.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[number])

    requests = (signal.SIGINT, signal.SIGTERM) if alone else (signal.SIGINT,)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in requests}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in before:
                signal.signal(number, ask)
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is ask:
                signal.signal(number, handler)
