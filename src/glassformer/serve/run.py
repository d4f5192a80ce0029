"""The process: a port, a uvicorn server, a clean end."""

from __future__ import annotations

import asyncio
import errno
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.errors import RequestError
from glassformer.serve.settings import ServeSettings

_HEADER_BYTES = 128 << 10
"""most bytes of request line and headers: some clients put the text into the query string"""


def open_port(host: str, port: int) -> socket.socket:
    """A listening socket, taken before any model is loaded, so that a port in use is said at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio leaves Nagle's delay on: 40 ms for every answer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(1024)
        return sock
    except (OSError, OverflowError) as error:
        sock.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            message = f"port {port} on {host} is in use; stop the other server, or choose another --port"
        else:
            message = f"can't listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"
        raise RequestError(message) from None


def run(app: FastAPI, sock: socket.socket, settings: ServeSettings) -> None:
    """Serve until SIGINT or SIGTERM; then finish what is running and return."""
    config = uvicorn.Config(
        app,
        http=_protocol(settings),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,  # query strings hold texts and keys: they are nobody's business
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
    with _quiet_signals():
        asyncio.run(uvicorn.Server(config).serve([sock]))


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more, after all is done: by then it means nothing."""
    wanted = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: None) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _protocol(settings: ServeSettings) -> type[H11Protocol]:
    """uvicorn's HTTP with limits on connections and on the time for headers, and with errors in JSON."""

    class PatientProtocol(H11Protocol):
        _headers_due: asyncio.TimerHandle | None = None
        _one_too_many = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._one_too_many = len(self.connections) > settings.connections
            self._expect_headers()

        def data_received(self, data: bytes) -> None:
            if self._one_too_many:
                self._write(429, f"Slowdown: {settings.connections} connections are open already")
                return
            if self._headers_due is None and self._between_requests():
                self._expect_headers()
            super().data_received(data)
            if not self._between_requests():
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            self._write(400, msg)

        def _between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _expect_headers(self) -> None:
            self._headers_due = self.loop.call_later(settings.body_seconds, self._too_slow)

        def _stop_waiting(self) -> None:
            if self._headers_due is not None:
                self._headers_due.cancel()
                self._headers_due = None

        def _too_slow(self) -> None:
            self._headers_due = None
            if self._between_requests() and not self.transport.is_closing():
                self._write(408, "too slow: the request did not arrive in time")

        def _write(self, status: int, message: str) -> None:
            content = json.dumps({"error": message}).encode()
            headers: list[Any] = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(content)).encode()),
                (b"connection", b"close"),
            ]
            try:
                for event in (
                    h11.Response(status_code=status, headers=headers),
                    h11.Data(data=content),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event) or b"")
            except h11.LocalProtocolError:
                pass  # an answer has gone out already: nothing more can be said
            self.transport.close()

    return PatientProtocol
