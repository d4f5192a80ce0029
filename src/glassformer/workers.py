"""How many batches are translated at a time, on this machine: the one place that decides it.

A worker is a thread that keeps torch to one processor thread. Two such workers on two cores get more done
than one batch on both, whose threads wait for each other at every small operation. What fits into one batch
is done by the caller's own thread, with as many processor threads as torch gives it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from glassformer.errors import RequestError

T = TypeVar("T")
Item = TypeVar("Item")


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_for(device: torch.device, threads: int = 0) -> int:
    """What was asked for; 0 is one worker for each core, and a single one for an accelerator."""
    if threads < 0:
        raise RequestError(f"threads = {threads} must not be negative; 0 is one for each core")
    return threads or (cores() if device.type == "cpu" else 1)


class Workers:
    """Threads for batches; started when there first are several. Safe to use from several threads at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()

    def map(self, work: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
        """`work` on each item, in their order."""
        if self.count == 1 or len(items) < 2:
            return [work(item) for item in items]
        with self._starting:
            self._pool = self._pool or _single_threaded(self.count)
        return list(self._pool.map(work, items))


def _single_threaded(count: int) -> ThreadPoolExecutor:
    """A pool in whose threads torch uses one processor thread each; elsewhere it uses what it did."""
    before = torch.get_num_threads()
    all_here = threading.Barrier(count + 1)

    def begin() -> None:
        # Torch keeps this number for each thread, and a default for those that have not looked yet.
        torch.set_num_threads(1)
        torch.get_num_threads()
        all_here.wait()

    pool = ThreadPoolExecutor(count, thread_name_prefix="glass-worker", initializer=begin)
    for _ in range(count):
        pool.submit(int)
    all_here.wait()
    torch.set_num_threads(before)  # the default again, and for this thread what it was
    return pool
