"""What stands between the network and the routes: limits, time, headers, keys."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.serve.answers import RefusedError
from glassformer.serve.metrics import Metrics
from glassformer.serve.settings import ServeSettings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 16 << 20


class Keys:
    """API keys, compared in the same time whatever was sent and however many there are."""

    def __init__(self, keys: Collection[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, given: str) -> None:
        if not self._digests:
            return
        if not given:
            raise RefusedError(403, "Please contact the server operator to get an API key")
        digest = hashlib.sha256(given.encode()).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            raise RefusedError(403, "Invalid API key")


class Shield:
    """ASGI middleware: counts bytes and seconds, sets headers, and keeps the numbers for Prometheus."""

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, routes: Collection[str]
    ) -> None:
        self.app, self.settings, self.metrics, self.routes = app, settings, metrics, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        await _Exchange(self, scope, receive, send).run()

    def route(self, path: str) -> str:
        """The label of a path: never what somebody made up."""
        if path in self.routes:
            return path
        return "/static" if path.startswith("/static/") else "other"


class _Exchange:
    """One request and its answer."""

    def __init__(self, shield: Shield, scope: Scope, receive: Receive, send: Send) -> None:
        self.shield, self.scope, self._receive, self._send = shield, scope, receive, send
        self.settings = shield.settings
        self.status = 0
        self.body: bytes | None = b""

    async def run(self) -> None:
        begun = time.monotonic()
        try:
            self.body = await self.read_body()
            if self.body is not None:
                # A client that does not take its answer is not waited for either.
                async with asyncio.timeout(self.settings.seconds + 5):
                    await self.shield.app(self.scope, self.receive, self.send)
        except RefusedError as problem:
            await self.refuse(problem)
        except TimeoutError:
            if not self.status:
                await self.refuse(RefusedError(408, "too slow: the request did not arrive in time"))
        finally:
            route = self.shield.route(self.scope["path"])
            self.shield.metrics.requests.labels(route, str(self.status or 499)).inc()
            self.shield.metrics.seconds.labels(route).observe(time.monotonic() - begun)

    async def read_body(self) -> bytes | None:
        """All of it, before any route runs; None if the client has gone."""
        most = self.settings.body_bytes
        too_large = RefusedError(413, f"the body is larger than {most} bytes")
        declared = dict(self.scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > most:
            raise too_large
        body = bytearray()
        async with asyncio.timeout(self.settings.body_seconds):
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    return None
                body += message.get("body", b"")
                if len(body) > most:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(body)

    async def receive(self) -> Message:
        """The body, once; after that this waits until the client hangs up."""
        if self.body is None:
            return await self._receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message["headers"]}
            added = [(name, value) for name, value in _ENCODED if name not in present]
            message["headers"] = [*message["headers"], *added]
        await self._send(message)

    async def refuse(self, problem: RefusedError) -> None:
        """Answer at once; then read on for a moment, or a client that still sends never sees the answer."""
        content = json.dumps({"error": problem.message}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content, "more_body": True})
        await self._drain()
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _drain(self) -> None:
        read = 0
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while read < _LINGER_BYTES:
                    message = await self._receive()
                    read += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            return
