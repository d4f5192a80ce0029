"""The server under load: 1, 8, 32 and 128 clients on loopback, with batching and without.

    python -m benchmarks.serving [--model DIRECTORY] [--texts FILE] [--seconds 30] [--engine auto]

Every answer is compared with the one that a single client gets from an idle server.
"""

from __future__ import annotations

import argparse
import json
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
def server(model: str, engine: str, batch: int) -> Iterator[str]:
    """`glass serve` on a free port."""
    arguments = ["--port", "0", "--engine", engine, "--batch", str(batch)]
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
    """One row for each number of clients and each kind of server."""
    rows: list[dict[str, Any]] = []
    for batch in (64, 1):
        with server(model, engine, batch) as address:
            task = serial_answers(address, texts)
            for number in clients:
                result = measure(address, task, number, seconds)
                wrong, failures = len(result.pop("wrong")), len(result.pop("failures"))
                rows.append(
                    {
                        "batching": "yes" if batch > 1 else "no",
                        "clients": number,
                        **result,
                        "wrong": wrong,
                        "failed": failures,
                    }
                )
    return rows


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
    print(table(rows))
    most = {kind: max(row["per second"] for row in rows if row["batching"] == kind) for kind in ("yes", "no")}
    print(f"\nbatching answers {most['yes'] / most['no']:.1f} times as many requests a second")


if __name__ == "__main__":
    main()
