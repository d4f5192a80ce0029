"""Taking a port."""

from __future__ import annotations

import socket

import pytest

from glassformer.errors import RequestError
from glassformer.serve.run import open_port


def test_accepted_connections_send_at_once() -> None:
    """asyncio switches Nagle's delay off only where the socket names its protocol."""
    with open_port("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("127.0.0.1", 99999, "port must be 0-65535"),
        ("127.0.0.1", -1, "port must be 0-65535"),
        ("203.0.113.9", 0, "Cannot assign"),
        ("no such host", 0, "can't listen on no such host"),
    ],
)
def test_a_port_that_can_not_be_had(host: str, port: int, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        open_port(host, port)


def test_a_port_in_use() -> None:
    with open_port("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(RequestError, match=f"port {port} on 127.0.0.1 is in use"):
            open_port("127.0.0.1", port)
