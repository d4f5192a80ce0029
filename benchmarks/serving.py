"""The server under load: 1, 8, 32 and 128 clients on loopback, for 30 seconds each; batching or not.

    python -m benchmarks.serving [--model DIRECTORY] [--texts FILE] [--seconds 30] [--engine auto]

Without `--model` it is the shipped model. Every answer is compared with the one that a single client gets
from the idle server, and every question must be answered. Without batching is the same server with
`--batch 1`, which translates one sentence after the other; since that leaves a core idle, it is also measured
with a worker for each core. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import table

TEXTS = [
    *("Hello.", "How are you today?", "I would like a cup of tea.", "Where is the nearest station?"),
    *(
        "The weather is very nice today.",
        "She has been reading that book for a week.",
        "Thank you very much.",
    ),
    *("We are going to the sea tomorrow.", "He said that he would call me later.", "I don't know."),
    *(
        "Could you tell me what time it is?",
        "My brother works in a big city far away from here.",
        "Good night!",
    ),
    *("The children are playing in the garden behind the house.", "It is too late to change anything now."),
]
"""everyday sentences, if no others are given"""


@contextmanager
def server(model: str, engine: str, batch: int, workers: int = 1) -> Iterator[str]:
    """`glass serve` on a free port."""
    arguments = ["--port", "0", "--engine", engine, "--batch", str(batch), "--workers", str(workers)]
    arguments += ["--model", model] if model else []
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "serve", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.match(r"open (http://\S+?)/? ", line):
                yield found[1]
                break
        else:
            raise RuntimeError("the server did not start; it says why above")
    finally:
        process.terminate()
        process.wait(60)


def ask(address: str, path: str, fields: dict[str, Any] | None = None) -> Any:
    body = None if fields is None else json.dumps(fields).encode()
    request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def serial_answers(address: str, texts: list[str]) -> dict[str, Any]:
    """What a load generator has to know: the texts and their translations, one at a time."""
    first = ask(address, "/models")[0]
    pair = {"source": first["source"], "target": first["target"]}
    found = {text: ask(address, "/translate", {"q": text, **pair})["translatedText"] for text in texts}
    return {**pair, "texts": found}


def measure(address: str, task: dict[str, Any], clients: int, seconds: float) -> dict[str, Any]:
    """The load generator runs in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.load", address),
            *("--clients", str(clients), "--seconds", str(seconds)),
        ],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 120,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run(
    model: str,
    texts: list[str],
    seconds: float,
    engine: str = "auto",
    clients: tuple[int, ...] = (1, 8, 32, 128),
) -> list[dict[str, Any]]:
    """One row for each kind of server and each number of clients."""
    rows: list[dict[str, Any]] = []
    cores = os.cpu_count() or 1
    several = (
        tuple(number for number in clients if number >= 8)[-2:-1] or clients[-1:]
    )  # 32 of the usual four
    for batch, workers, numbers in ((64, 1, clients), (1, 1, clients), (1, cores, several)):
        with server(model, engine, batch, workers) as address:
            task = serial_answers(address, texts)
            for number in numbers:
                result = measure(address, task, number, seconds)
                rows.append({"batching": batch > 1, "workers": workers, "clients": number, **result})
                print(f"{len(rows)}: {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def verdict(rows: list[dict[str, Any]]) -> list[str]:
    """What the rows say, in words."""
    asked, answered = (sum(row[key] for row in rows) for key in ("asked", "answers"))
    wrong, failed = (sum(len(row[key]) for row in rows) for key in ("wrong", "failures"))
    found = [f"{asked} questions, {answered} answers, {wrong} of them wrong, {failed} failures"]

    def most(batching: bool, workers: int) -> float:
        kind = [row for row in rows if (row["batching"], row["workers"]) == (batching, workers)]
        return max((row["per second"] for row in kind), default=0.0)

    best = most(True, 1)
    for workers in sorted({row["workers"] for row in rows if not row["batching"]}):
        times = best / most(False, workers)
        found.append(f"batching answers {times:.1f} times as many a second as none with {workers} worker(s)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--model", default="", help="a bundle; the shipped ones if left out")
    parser.add_argument("--texts", type=Path, help="a file of sentences, one a line")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each measurement")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    options = parser.parse_args()
    texts = TEXTS
    if options.texts:
        texts = [line for line in options.texts.read_text("utf-8").split("\n") if line.strip()][:200]
    rows = run(options.model, texts, options.seconds, options.engine, tuple(options.clients))
    shown = ("asked", "answers", "per second", "p50 ms", "p99 ms", "most ms")
    print(
        table(
            [
                {
                    "batching": "yes" if row["batching"] else "no",
                    "workers": row["workers"],
                    "clients": row["clients"],
                    **{key: row[key] for key in shown},
                    "wrong": len(row["wrong"]),
                    "failed": len(row["failures"]),
                }
                for row in rows
            ]
        )
    )
    print()
    print("\n".join(verdict(rows)))
    if any(row["wrong"] or row["failures"] or row["asked"] != row["answers"] for row in rows):
        sys.exit("answers were wrong or lost")


if __name__ == "__main__":
    main()
