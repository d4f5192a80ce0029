"""`python -m benchmarks [NAME …] [--quick]`: run the contests and write down what they gave."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import decode, training

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("contests", nargs="*", default=["training", "decode"], help="training, decode")
    parser.add_argument("--preset", action="append", help="tiny and base unless given; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: under ten minutes")
    options = parser.parse_args()
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
    }
    rounds = 3 if options.quick else options.rounds
    for preset in options.preset or ["tiny", "base"]:
        for name in options.contests:
            for result in CONTESTS[name](preset, rounds):
                results[result["title"]] = result
                print(f"\n{result['title']}\n\n{table(result['rows'])}\n")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{results['date']}.json"
    path.write_text(json.dumps(results, indent=1))
    print(f"written: {path}")


def run_training(preset: str, rounds: int) -> list[dict[str, Any]]:
    steps = {"tiny": 12, "base": 2}.get(preset, 4)
    return [{"title": f"training, {preset}", **training.run(preset, rounds, steps)}]


def run_decode(preset: str, rounds: int) -> list[dict[str, Any]]:
    sentences = {"tiny": 1000, "base": 200}.get(preset, 500)
    return [
        {"title": f"decoding, {preset}, beam {beams}", **decode.run(preset, beams, rounds, sentences)}
        for beams in (1, 4)
    ]


CONTESTS: dict[str, Callable[[str, int], list[dict[str, Any]]]] = {
    "training": run_training,
    "decode": run_decode,
}


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [f"{v:,.4g}" if isinstance(v, float) else str(v) for v in row.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
