"""A fair contest on a noisy machine: every contestant in its own process, rounds interleaved (A B C, B C A,
…), and the ratio taken inside each round, where the machine was the same for all.

A contestant is a class with `run(round: int) -> dict[str, float]`; it is built in its process, under its own
environment, and idles on a pipe while the others run.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

# glibc gives memory back to the system and asks for it again at every step; these settings keep it.
TUNED = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}


class Runs(Protocol):
    def run(self, number: int) -> dict[str, float]: ...


@dataclass
class Entry:
    """One contestant: `module:Class(**arguments)` under an environment."""

    name: str
    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class Contestant:
    """The process of one contestant."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contest", entry.target, json.dumps(dict(entry.arguments))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **entry.environment},
        )

    def ask(self, word: str) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                answer: dict[str, float] = json.loads(line[7:])
                return answer
        raise SystemExit(f"{self.entry.name} ended without an answer (exit code {self.process.wait()})")

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def contest(
    entries: Sequence[Entry], rounds: int, say: Callable[[str], None]
) -> dict[str, list[dict[str, float]]]:
    """Results of each contestant, a dictionary for each round."""
    contestants = [Contestant(entry) for entry in entries]
    results: dict[str, list[dict[str, float]]] = {entry.name: [] for entry in entries}
    try:
        for contestant in contestants:
            contestant.ask("ready")
        for number in range(rounds):
            # Whoever goes first finds a cooler machine: the order moves on by one each round.
            shift = number % len(contestants)
            for contestant in contestants[shift:] + contestants[:shift]:
                result = contestant.ask(str(number))
                results[contestant.entry.name].append(result)
                shown = "  ".join(f"{key} {value:,.4g}" for key, value in result.items())
                say(f"round {number + 1}/{rounds}  {contestant.entry.name:<34} {shown}")
    finally:
        for contestant in contestants:
            contestant.leave()
    return results


@dataclass(frozen=True)
class Ratio:
    """The median of the ratios of each round, with a 95% bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


def ratio(ours: Sequence[dict[str, float]], theirs: Sequence[dict[str, float]], key: str) -> Ratio:
    """How many times as much of `key` we have, round by round."""
    ratios = [mine[key] / other[key] for mine, other in zip(ours, theirs, strict=True)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return Ratio(statistics.median(ratios), medians[49], medians[1949])


def median(results: Sequence[dict[str, float]], key: str) -> float:
    return statistics.median(result[key] for result in results)


def serve_contestant() -> None:
    """What runs in a contestant's process: build it, then answer each line of standard input."""
    target, arguments = sys.argv[1:3]
    module, _, name = target.partition(":")
    contestant: Runs = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    for line in sys.stdin:
        word = line.strip()
        result = {} if word == "ready" else contestant.run(int(word))
        print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    serve_contestant()
