"""The batcher: full batches, fair turns, bounded queues, nothing lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from glassformer.serve.batcher import ROUNDS, Batcher, BusyError


class Work:
    """Notes what it was asked, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, kind: str, items: Sequence[str]) -> list[str]:
        self.batches.append(list(items))
        assert self.may_go_on.wait(10)
        if "poison" in items:
            raise ValueError("poison")
        return [f"{kind}:{item}" for item in items]


async def submit(batcher: Batcher[str, str], *items: str, kind: str = "k") -> list[str]:
    return await batcher.submit(kind, items, [len(item) for item in items])


def run(work: Work, story: Any, **options: Any) -> Any:
    async def play() -> Any:
        batcher: Batcher[str, str] = Batcher(work, **options)
        try:
            return await asyncio.wait_for(story(batcher), 20)
        finally:
            work.may_go_on.set()
            await batcher.close()

    return asyncio.run(play())


def later(*parts: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(part) for part in parts]


def test_small_requests_become_one_batch_and_answers_find_their_way() -> None:
    work = Work()

    async def story(batcher: Batcher[str, str]) -> None:
        found = await asyncio.gather(*(submit(batcher, f"item {n}") for n in range(50)))
        assert found == [[f"k:item {n}"] for n in range(50)]

    run(work, story, linger=0.02)
    assert len(work.batches) == 1


def test_a_batch_that_still_grows_is_waited_for_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    work, tasks, real = Work(), list[asyncio.Task[Any]](), asyncio.sleep

    async def story(batcher: Batcher[str, str]) -> None:
        async def sleep(seconds: float) -> None:
            tasks.extend(later(submit(batcher, f"item {len(tasks)}")))  # somebody comes in every such moment
            await real(0)

        monkeypatch.setattr(asyncio, "sleep", sleep)
        await submit(batcher, "first")
        monkeypatch.setattr(asyncio, "sleep", real)
        await asyncio.gather(*tasks)

    run(work, story, linger=0.002)
    assert len(work.batches[0]) == 1 + ROUNDS


def test_what_comes_while_work_is_done_is_the_next_batch() -> None:
    work = Work()
    work.may_go_on.clear()

    async def story(batcher: Batcher[str, str]) -> None:
        first = later(submit(batcher, "a"))
        await asyncio.sleep(0.05)
        rest = later(*(submit(batcher, letter) for letter in "bcdef"))
        await asyncio.sleep(0.05)
        work.may_go_on.set()
        await asyncio.gather(*first, *rest)

    run(work, story, linger=0)
    assert work.batches == [["a"], list("bcdef")]


def test_batches_keep_to_size_and_budget() -> None:
    work = Work()
    run(work, lambda batcher: submit(batcher, *"abcdefghij"), size=4, linger=0.01)
    assert list(map(len, work.batches)) == [4, 4, 2]
    work = Work()
    run(work, lambda batcher: submit(batcher, *["x" * 100] * 10), budget=350, linger=0.01)
    assert max(map(len, work.batches)) == 3


def test_an_item_above_the_budget_goes_alone() -> None:
    work = Work()
    assert run(work, lambda batcher: submit(batcher, "x" * 500), budget=100) == ["k:" + "x" * 500]


def test_kinds_never_mix() -> None:
    work = Work()

    async def story(batcher: Batcher[str, str]) -> None:
        found = await asyncio.gather(*(submit(batcher, str(n), kind="ab"[n % 2]) for n in range(10)))
        assert found == [[f"{'ab'[n % 2]}:{n}"] for n in range(10)]

    run(work, story, linger=0.02)
    assert len(work.batches) == 2


def test_a_short_request_goes_before_the_tail_of_a_long_one() -> None:
    work = Work()
    work.may_go_on.clear()

    async def story(batcher: Batcher[str, str]) -> None:
        long = later(submit(batcher, *(f"long {n:04}" for n in range(1000))))
        await asyncio.sleep(0.05)
        short = later(submit(batcher, "short"))
        await asyncio.sleep(0.05)
        work.may_go_on.set()
        await asyncio.gather(*long, *short)

    run(work, story, size=10, linger=0)
    place = next(number for number, batch in enumerate(work.batches) if "short" in batch)
    assert place <= 2
    assert len(work.batches) >= 100


def test_a_long_item_does_not_join_short_ones() -> None:
    work = Work()
    long = "x" * 300
    run(work, lambda batcher: submit(batcher, "a", "b", long, "c"), linger=0.01)
    assert [long] in work.batches


def test_a_full_queue_says_so_and_empties() -> None:
    work = Work()
    work.may_go_on.clear()

    async def story(batcher: Batcher[str, str]) -> None:
        first = later(submit(batcher, "a"))
        await asyncio.sleep(0.05)
        waiting = later(submit(batcher, *"bcdef"))
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="5 sentences are waiting"):
            await submit(batcher, "g")
        work.may_go_on.set()
        await asyncio.gather(*first, *waiting)
        assert await submit(batcher, "g") == ["k:g"]

    run(work, story, queue=5, linger=0)


def test_cancelled_requests_free_their_places() -> None:
    work = Work()
    work.may_go_on.clear()

    async def story(batcher: Batcher[str, str]) -> None:
        first = later(submit(batcher, "a"))
        await asyncio.sleep(0.05)
        [gone] = later(submit(batcher, *"bcd"))
        await asyncio.sleep(0.01)
        assert batcher.waiting == 3
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert batcher.waiting == 0
        work.may_go_on.set()
        await asyncio.gather(*first)

    run(work, story, linger=0)
    assert work.batches == [["a"]]


def test_one_bad_item_does_not_spoil_the_others() -> None:
    work = Work()

    async def story(batcher: Batcher[str, str]) -> None:
        found = await asyncio.gather(
            *(submit(batcher, item) for item in ("a", "poison", "b")), return_exceptions=True
        )
        assert found[0] == ["k:a"]
        assert isinstance(found[1], ValueError)
        assert found[2] == ["k:b"]

    run(work, story, linger=0.02)


def test_closing_finishes_what_is_there_and_takes_nothing_new() -> None:
    work = Work()
    work.may_go_on.clear()

    async def story(batcher: Batcher[str, str]) -> None:
        running = later(submit(batcher, *"abc"))
        await asyncio.sleep(0.05)
        closing = later(batcher.close())
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError, match="closing"):
            await submit(batcher, "late")
        assert not closing[0].done()
        work.may_go_on.set()
        assert await running[0] == ["k:a", "k:b", "k:c"]
        await closing[0]

    run(work, story)


def test_nothing_to_do_is_done_at_once() -> None:
    assert run(Work(), submit) == []


def test_a_call_runs_between_batches() -> None:
    async def story(batcher: Batcher[str, str]) -> None:
        assert await batcher.call(max, 3, 4) == 4
        with pytest.raises(ZeroDivisionError):
            await batcher.call(divmod, 1, 0)

    run(Work(), story)


def test_two_workers_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=10)

    def work(kind: str, items: Sequence[str]) -> Sequence[str]:
        meeting.wait()
        return items

    async def story() -> None:
        batcher: Batcher[str, str] = Batcher(work, workers=2, size=1, linger=0)
        assert await asyncio.gather(submit(batcher, "a"), submit(batcher, "b")) == [["a"], ["b"]]
        await batcher.close()

    asyncio.run(asyncio.wait_for(story(), 20))


def test_ten_thousand_items_take_little_time_to_queue() -> None:
    async def story(batcher: Batcher[str, str]) -> None:
        begun = time.monotonic()
        await submit(batcher, *("x" for _ in range(10_000)))
        assert time.monotonic() - begun < 15

    run(Work(), story, queue=20_000)
