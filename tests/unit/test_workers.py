"""Workers for the machine: how many, and that they leave the rest of the process alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from glassformer.errors import RequestError
from glassformer.translate import load
from glassformer.workers import Workers, cores, workers_for


def test_one_for_each_core_unless_told_otherwise() -> None:
    processor = torch.device("cpu")
    assert workers_for(processor) == cores() >= 1
    assert workers_for(processor, 3) == 3
    assert workers_for(torch.device("cuda"), 0) == 1
    with pytest.raises(RequestError, match="threads = -1 must not be negative"):
        workers_for(processor, -1)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_both_engines_choose_here(numbers: Path, engine: str) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    translator = load(numbers, engine=engine)  # type: ignore[arg-type]
    assert translator.torch_engine.workers.count == cores()
    if engine == "ctranslate2":
        assert translator._engine._translator.num_translators == cores()  # type: ignore[attr-defined]
    with pytest.raises(RequestError, match="must not be negative"):
        load(numbers, engine="torch", threads=-2)


def test_each_worker_has_one_processor_thread_and_nobody_else_is_touched() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        workers, together = Workers(3), threading.Barrier(3)

        def look(item: int) -> tuple[int, int]:
            together.wait(10)
            return item, torch.get_num_threads()

        assert workers.map(look, range(3)) == [(0, 1), (1, 1), (2, 1)]
        assert torch.get_num_threads() == 2
        assert workers.map(look, range(3)) == [(0, 1), (1, 1), (2, 1)]
        later: list[int] = []
        other = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert later == [2]
    finally:
        torch.set_num_threads(before)


def test_what_fits_into_one_batch_stays_in_the_callers_thread() -> None:
    assert Workers(4).map(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]
    assert Workers(1).map(lambda _: threading.current_thread(), [0, 1]) == [threading.current_thread()] * 2
    assert Workers(4).map(abs, []) == []


def test_a_mistake_in_a_worker_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        Workers(2).map(lambda item: 1 // item, [1, 0, 1])
