"""`python -m benchmarks [NAME …] [--quick]`: run the contests and write down what they gave."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from pathlib import Path
from typing import Any

import torch

from benchmarks import training

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("contests", nargs="*", default=["training"], help="training")
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
        steps = {"tiny": 12, "base": 2}.get(preset, 4)
        result = training.run(preset, rounds, steps)
        results[f"training {preset}"] = result
        print(table(result["rows"]))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{results['date']}.json"
    path.write_text(json.dumps(results, indent=1))
    print(f"written: {path}")


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
