"""Many clients at once: none is lost, everyone gets the answer that a single client gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.serving import measure, serial_answers
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
    assert result["answers"] >= clients


def test_memory_does_not_grow_with_requests(server: Running) -> None:
    task = serial_answers(server.address, SENTENCES)
    measure(server.address, task, 32, 3)
    before = server.memory()
    measure(server.address, task, 32, 10)
    assert server.memory() - before < 20_000_000
