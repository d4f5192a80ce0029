"""Many clients at once: none is lost, everyone gets the answer that a single client gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.serving import TEXTS, measure, run, serial_answers, verdict
from tests.serving import SENTENCES, toy_bundle
from tests.serving_process import Running, running_server

pytestmark = pytest.mark.full


@pytest.fixture(scope="module", params=["torch", "ctranslate2"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    if request.param == "ctranslate2":
        pytest.importorskip("ctranslate2")
    with running_server("--model", str(toy_bundle()), "--engine", request.param) as server:
        yield server


@pytest.mark.parametrize("clients", [1, 8, 32, 128])
def test_every_answer_is_the_serial_one(server: Running, clients: int) -> None:
    task = serial_answers(server.address, SENTENCES)
    result = measure(server.address, task, clients, 5)
    assert result["wrong"] == []
    assert result["failures"] == []
    assert result["asked"] == result["answers"] >= clients


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_the_shipped_model_answers_everybody_and_batching_pays(engine: str) -> None:
    """What `python -m benchmarks.serving` measures at length. A busy machine only spoils the ratio."""
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    rows = run("", TEXTS, 4, engine, clients=(32,))
    for row in rows:
        assert (row["wrong"], row["failures"]) == ([], [])
        assert row["asked"] == row["answers"] > 0
    batched, single, _ = (row["per second"] for row in rows)
    assert batched > 1.5 * single
    assert f"{batched / single:.1f} times as many a second as none with 1 worker" in verdict(rows)[1]


def test_memory_does_not_grow_with_requests(server: Running) -> None:
    task = serial_answers(server.address, SENTENCES)
    measure(server.address, task, 32, 3)
    before = server.memory()
    measure(server.address, task, 32, 10)
    assert server.memory() - before < 20_000_000
