"""Many small requests become full batches; nobody waits long for somebody else's long text.

A request is a list of items with a cost each (a sentence, its characters). Items of all requests wait in one
queue, ordered by start-time fair queueing (Goyal, Vin and Cheng 1996): a request's next item is tagged with
the cost of what the request had before it, so a short request that comes late goes before the tail of a long
one. A batch is the first item and whatever goes with it: same kind, not much longer, within the budget.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")

ROUNDS = 5
"""how often a batch that still grows is waited for"""
SHORT = 64
"""costs up to this go together whatever the first item costs"""


class BusyError(Exception):
    """The queue is full, or the server is closing: come back later."""


@dataclass(eq=False)
class _Job(Generic[Item, Result]):
    tag: float
    kind: Hashable
    item: Item
    cost: int
    future: asyncio.Future[Result]


class Batcher(Generic[Item, Result]):
    """Calls `work(kind, items)` in threads, with items of many callers. Lives in one event loop."""

    def __init__(
        self,
        work: Callable[[Any, list[Item]], Sequence[Result]],
        *,
        size: int = 64,
        budget: int = 8192,
        queue: int = 4096,
        workers: int = 1,
        linger: float = 0.002,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._work = work
        self.size, self.budget, self.queue, self.linger = size, budget, queue, linger
        self._on_batch = on_batch
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="glass-batch")
        self._waiting: list[_Job[Item, Result]] = []  # ordered by tag
        self._now = 0.0  # virtual time: the tag of the last item that was taken
        self._running = 0
        self._calls = 0
        self._closing = False
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._loops = [asyncio.create_task(self._serve()) for _ in range(workers)]

    @property
    def waiting(self) -> int:
        """How many items wait for their turn."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many items are being worked on."""
        return self._running

    async def submit(self, kind: Hashable, items: Sequence[Item], costs: Sequence[int]) -> list[Result]:
        """The results of the items, in their order. Cancelled: what still waits is forgotten."""
        if self._closing:
            raise BusyError("the server is closing")
        if len(self._waiting) + len(items) > self.queue:
            raise BusyError(f"{len(self._waiting)} sentences are waiting already")
        loop = asyncio.get_running_loop()
        jobs: list[_Job[Item, Result]] = []
        tag = self._now
        for item, cost in zip(items, costs, strict=True):
            job: _Job[Item, Result] = _Job(tag, kind, item, cost, loop.create_future())
            bisect.insort(self._waiting, job, key=lambda job: job.tag)
            jobs.append(job)
            tag += cost
        if jobs:
            self._filled.set()
            self._idle.clear()
        try:
            return list(await asyncio.gather(*(job.future for job in jobs)))
        finally:
            self._forget(jobs)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run something else in the same threads, between two batches."""
        if self._closing or self._calls >= self.queue:
            raise BusyError("too much is going on")
        self._calls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            self._calls -= 1

    async def close(self) -> None:
        """Take nothing new, finish what is there, then stop."""
        self._closing = True
        await self._idle.wait()
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)

    def _forget(self, jobs: Sequence[_Job[Item, Result]]) -> None:
        """Whoever asked has gone or has been answered: none of this needs doing."""
        for job in jobs:
            job.future.cancel()  # does nothing to what is done
        if any(job.future.cancelled() for job in jobs):
            self._waiting = [job for job in self._waiting if not job.future.done()]
            self._rest()

    def _rest(self) -> None:
        if not self._waiting:
            self._filled.clear()
            if not self._running:
                self._idle.set()

    async def _serve(self) -> None:
        """One worker: take a batch, run it, hand the results out."""
        while True:
            await self._filled.wait()
            await self._wait_for_company()
            batch = self._take()
            if not batch:
                continue
            self._running += len(batch)
            try:
                await self._run(batch)
            finally:
                self._running -= len(batch)
                self._rest()

    async def _wait_for_company(self) -> None:
        """A moment, and another one as long as more comes: those just answered may ask again at once."""
        for _ in range(ROUNDS if self.linger else 0):
            before = len(self._waiting)
            if before >= self.size:
                return
            await asyncio.sleep(self.linger)
            if len(self._waiting) <= before:
                return

    def _take(self) -> list[_Job[Item, Result]]:
        """The first item and those behind it that go well with it."""
        if not self._waiting:
            return []
        head = self._waiting[0]
        self._now = head.tag
        longest, most = 1, max(2 * head.cost, SHORT)
        batch: list[_Job[Item, Result]] = []
        left: list[_Job[Item, Result]] = []
        for job in self._waiting:
            longer = max(longest, job.cost)
            fits = job.cost <= most and (len(batch) + 1) * longer <= self.budget
            if job is head or (fits and len(batch) < self.size and job.kind == head.kind):
                batch.append(job)
                longest = longer
            else:
                left.append(job)
        self._waiting = left
        if not left:
            self._filled.clear()
        return batch

    async def _run(self, batch: list[_Job[Item, Result]]) -> None:
        self._on_batch(len(batch))
        loop = asyncio.get_running_loop()
        items = [job.item for job in batch]
        try:
            results = await loop.run_in_executor(self._threads, self._work, batch[0].kind, items)
        except Exception as error:
            if len(batch) > 1:  # one of them is to blame: let it not spoil the others
                for job in batch:
                    await self._run([job])
            elif not batch[0].future.done():
                batch[0].future.set_exception(error)
            return
        for job, result in zip(batch, results, strict=True):
            if not job.future.done():
                job.future.set_result(result)
