"""Keys, limits and headers, one layer below the routes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from glassformer.serve.answers import RefusedError
from glassformer.serve.metrics import Metrics
from glassformer.serve.security import HEADERS, Keys, Shield
from glassformer.serve.settings import ServeSettings


def test_without_keys_everybody_may() -> None:
    Keys([]).check("")
    Keys([]).check("anything")


@pytest.mark.parametrize("given", ["", "wrong", "secret ", "SECRET", "secre", "other"])
def test_only_the_right_key_opens(given: str) -> None:
    keys = Keys(["secret", "钥匙"])
    keys.check("secret")
    keys.check("钥匙")
    with pytest.raises(RefusedError) as caught:
        keys.check(given)
    assert caught.value.status == 403


class Talk:
    """One exchange with an ASGI application, by hand."""

    def __init__(self, *chunks: bytes, declared: int | None = None, slow: float = 0.0) -> None:
        self.chunks, self.slow = list(chunks), slow
        headers = [] if declared is None else [(b"content-length", str(declared).encode())]
        self.scope = {"type": "http", "path": "/made/up", "headers": headers, "method": "POST"}
        self.sent: list[dict[str, Any]] = []
        self.read = 0

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(self.slow)
        if not self.chunks:
            await asyncio.sleep(60)
        self.read += 1
        chunk = self.chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self.chunks)}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def hold(talk: Talk, **limits: Any) -> tuple[int, bytes]:
    metrics = Metrics()
    shield = Shield(echo, ServeSettings(**limits), metrics, {"/"})
    asyncio.run(shield(talk.scope, talk.receive, talk.send))
    assert b"/made/up" not in metrics.text()
    return talk.sent[0]["status"], b"".join(part.get("body", b"") for part in talk.sent)


def test_a_body_in_pieces_arrives_whole_and_headers_are_set() -> None:
    talk = Talk(b"ab", b"cd")
    assert hold(talk) == (200, b"abcd")
    sent = dict(talk.sent[0]["headers"])
    assert all(sent[name.encode()] == value.encode() for name, value in HEADERS.items())


def test_a_declared_size_is_refused_before_reading() -> None:
    talk = Talk(b"x", declared=1000)
    status, body = hold(talk, body_bytes=100)
    assert status == 413
    assert b"larger than 100 bytes" in body
    assert talk.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize("declared", [None, 10])
def test_an_undeclared_size_is_refused_while_reading(declared: int | None) -> None:
    talk = Talk(*[b"x" * 60] * 3, declared=declared)
    assert hold(talk, body_bytes=100)[0] == 413


def test_a_slow_sender_is_not_waited_for() -> None:
    status, body = hold(Talk(*[b"x"] * 50, slow=0.05), body_seconds=0.2)
    assert status == 408
    assert b"too slow" in body


def test_senseless_settings_are_all_named() -> None:
    problems = ServeSettings(batch=0, seconds=0, linger=-1, queue=5, api_keys=("",)).problems()
    assert len(problems) == 5
    assert ServeSettings().problems() == []
