"""A fair contest on a noisy machine: every contestant in its own process, rounds interleaved (A B C, B C A,
…), and the ratio taken inside each round, where the machine was the same for all.

A contestant is a class with `run(round: int) -> dict`; it is built in its process, under its own
environment, and idles on a pipe while the others run. One that fails, or is not installed, drops out and is
named; only the first, ours, must not.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

# glibc gives memory back to the system and asks for it again at every step; these settings keep it.
TUNED = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}


Measured = dict[str, Any]
"""what a contestant gave in one round"""


class Runs(Protocol):
    def run(self, number: int) -> Measured: ...


class DroppedOutError(Exception):
    """A contestant's process has ended."""


@dataclass
class Entry:
    """One contestant: `module:Class(**arguments)` under an environment."""

    name: str
    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def cores() -> int:
    """Processor cores that this process may use; every contestant uses all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> float:
    """The most memory this process has held, in MB.

    `getrusage` would begin with what the parent held when it started this process; Linux knows better.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Contestant:
    """The process of one contestant."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contest", entry.target, json.dumps(dict(entry.arguments))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **entry.environment},
        )

    def ask(self, word: str) -> Measured:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: there is no answer either
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                answer: Measured = json.loads(line[7:])
                return answer
        code = self.process.wait()
        raise DroppedOutError(f"{self.entry.name} ended without an answer (exit code {code})")

    def leave(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def contest(
    entries: Sequence[Entry], rounds: int, say: Callable[[str], None] = print
) -> dict[str, list[Measured]]:
    """Results of each contestant that stayed to the end, a dictionary for each round."""
    contestants = [Contestant(entry) for entry in entries]
    results: dict[str, list[Measured]] = {entry.name: [] for entry in entries}

    def ask(contestant: Contestant, word: str) -> Measured | None:
        try:
            return contestant.ask(word)
        except DroppedOutError as error:
            if contestant.entry is entries[0]:
                raise SystemExit(str(error)) from None
            say(f"{error}; it is left out")
            contestants.remove(contestant)
            del results[contestant.entry.name]
            return None

    started = list(contestants)
    try:
        for contestant in started:
            ask(contestant, "ready")
        for number in range(rounds):
            # Whoever goes first finds a cooler machine: the order moves on by one each round.
            shift = number % len(contestants)
            for contestant in contestants[shift:] + contestants[:shift]:
                result = ask(contestant, str(number))
                if result is not None:
                    results[contestant.entry.name].append(result)
                    say(f"round {number + 1}/{rounds}  {contestant.entry.name:<40} {shown(result)}")
    finally:
        for contestant in started:
            contestant.leave()
    return results


def shown(result: Measured) -> str:
    """The numbers of a result on one line; lists are for the machine."""
    return "  ".join(f"{key} {value:,.4g}" for key, value in result.items() if isinstance(value, int | float))


@dataclass(frozen=True)
class Ratio:
    """The median of the ratios of each round, with a 95% bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def values(self) -> tuple[float, float, float]:
        return self.median, self.low, self.high

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


def ratio(ours: Sequence[Measured], theirs: Sequence[Measured], key: str) -> Ratio:
    """How many times as much of `key` we have, round by round."""
    ratios = [mine[key] / other[key] for mine, other in zip(ours, theirs, strict=True)]
    return interval(ratios)


def interval(values: Sequence[float]) -> Ratio:
    """The median of some values, and where the medians of 95% of their resamplings lie."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return Ratio(statistics.median(values), medians[49], medians[1949])


def median(results: Sequence[Measured], key: str) -> float:
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
