"""A load generator: many clients in one process of its own, each waiting for its answer before it asks again.

    python -m benchmarks.load ADDRESS --clients 32 --seconds 30 < texts.json > result.json

Reads {"source", "target", "texts": {text: expected or null}} and prints what happened as JSON: questions,
answers, wrong ones, failures, and the latencies' percentiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Tally:
    asked: int = 0
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def report(self, took: float) -> dict[str, Any]:
        ranked = sorted(self.seconds) or [0.0]
        return {
            "asked": self.asked,
            "answers": self.answers,
            "per second": self.answers / took,
            "wrong": self.wrong,
            "failures": self.failures,
            "p50 ms": 1000 * ranked[len(ranked) // 2],
            "p99 ms": 1000 * ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))],
            "most ms": 1000 * ranked[-1],
        }


class Client:
    """One connection that stays open."""

    def __init__(self, address: str, task: dict[str, Any], tally: Tally, seed: int) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.texts: list[tuple[str, str | None]] = list(task["texts"].items())
        self.task, self.tally, self.random = task, tally, random.Random(seed)

    async def work(self, until: float) -> None:
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            while time.monotonic() < until:
                text, expected = self.random.choice(self.texts)
                begun = time.monotonic()
                self.tally.asked += 1
                status, answer = await asyncio.wait_for(self.ask(reader, writer, text), 60)
                self.tally.seconds.append(time.monotonic() - begun)
                self.tally.answers += 1
                if status != 200:
                    self.tally.failures.append(f"{status} {answer}")
                elif expected is not None and answer.get("translatedText") != expected:
                    self.tally.wrong.append(f"{text!r}: {answer.get('translatedText')!r}, not {expected!r}")
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self.tally.failures.append(f"{type(error).__name__} {error}")

    async def ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str
    ) -> tuple[int, dict[str, Any]]:
        fields = {"q": text, "source": self.task["source"], "target": self.task["target"]}
        body = json.dumps(fields).encode()
        head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(headers.split("content-length:")[1].split("\r\n")[0])
        return int(headers.split()[1]), json.loads(await reader.readexactly(length))


async def load(address: str, task: dict[str, Any], clients: int, seconds: float) -> dict[str, Any]:
    tally = Tally()
    begun = time.monotonic()
    await asyncio.gather(
        *(Client(address, task, tally, number).work(begun + seconds) for number in range(clients))
    )
    return tally.report(time.monotonic() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    result = asyncio.run(load(options.address, json.load(sys.stdin), options.clients, options.seconds))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
