"""`python -m benchmarks [PART …] [--quick]`: run the contests, write down what they gave, and report it.

Parts: training, decode, startup, growth, techniques, quality; `report` only writes tables and pictures anew,
and `prepare` trains and converts what `decode` needs, which may be done on a busy machine. Without parts it
is a quick run of the first three, in less than ten minutes; --full runs all of them, at length.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import decode, growth, quality, report, results_file, startup, techniques, training

Part = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """What was asked for; zero rounds means as many as the part likes."""

    presets: tuple[str, ...]
    quick: bool
    rounds: int
    minutes: float
    runs: tuple[str, ...]
    recipe: Path
    to: Path

    def rounds_of(self, full: int, quick: int) -> int:
        return self.rounds or (quick if self.quick else full)


def run_training(options: Options) -> Iterator[Part]:
    for preset in options.presets:
        if options.quick:
            steps, rounds, tuned = {"tiny": 6}.get(preset, 1), {"tiny": 3}.get(preset, 2), preset == "tiny"
        else:
            # Many short turns: from minute to minute the machine changes more than the programs differ.
            # But not a single update: the first one after the others' turns is slower.
            steps, rounds, tuned = {"tiny": 12}.get(preset, 2), 9, True
        yield f"training, {preset}", training.run(preset, options.rounds or rounds, steps, tuned=tuned)


def run_decode(options: Options) -> Iterator[Part]:
    # Base models cost as much in a short run as tiny ones in a long one: a quick run leaves them out.
    for preset in options.presets[: 1 if options.quick else None]:
        for beams in (4,) if options.quick else (1, 4):
            sentences = {"tiny": 1000}.get(preset, 400) // (3 if options.quick else 1)
            rounds = options.rounds_of({"tiny": 5}.get(preset, 3), quick=3)
            yield f"decoding, {preset}, beam {beams}", decode.run(preset, beams, rounds, sentences)


def run_startup(options: Options) -> Iterator[Part]:
    yield "start-up", startup.run(options.rounds_of(7, quick=3))


def run_growth(options: Options) -> Iterator[Part]:
    yield "growth", growth.run(options.rounds_of(5, quick=2))


def run_techniques(options: Options) -> Iterator[Part]:
    for preset in options.presets[:1]:
        yield f"techniques, {preset}", techniques.run(preset, options.rounds_of(7, quick=3))


def run_quality(options: Options) -> Iterator[Part]:
    for which in options.runs:
        name, result = quality.run(which, options.minutes, options.recipe)
        before = results_file.newest(options.to)["parts"].get(quality.TITLE, {})
        yield quality.TITLE, quality.merged(before, name, result)


def run_prepare(options: Options) -> Iterator[Part]:
    for preset in options.presets:
        training.Task(preset)
        print(decode.prepare(preset))
    yield from ()


PARTS: dict[str, Callable[[Options], Iterator[Part]]] = {
    "training": run_training,
    "decode": run_decode,
    "startup": run_startup,
    "growth": run_growth,
    "techniques": run_techniques,
    "quality": run_quality,
    "prepare": run_prepare,
    "report": lambda options: iter(()),
}
QUICK, FULL = ("training", "decode", "startup"), tuple(PARTS)[:6]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--preset", action="append", help="tiny and base unless given; may be repeated")
    parser.add_argument("--rounds", type=int, default=0, help="interleaved rounds (or repeats) of each part")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="fewer and shorter rounds; the default")
    length.add_argument(
        "--full", action="store_true", help="all parts; the default length if parts are named"
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="training time of each run of quality")
    parser.add_argument(
        "--run", action="append", choices=quality.RUNS, help="runs of quality; all unless given"
    )
    parser.add_argument("--to", type=Path, default=results_file.RESULTS, help="folder of the results")
    parser.add_argument("--recipe", type=Path, default=quality.RECIPE, help="ours, for quality")
    given = parser.parse_args()
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    options = Options(
        presets=tuple(given.preset or ("tiny", "base")),
        quick=given.quick or not (given.parts or given.full),
        rounds=given.rounds,
        minutes=given.minutes,
        runs=tuple(given.run or quality.RUNS),
        recipe=given.recipe,
        to=given.to,
    )
    for part in given.parts or (FULL if given.full else QUICK):
        for title, result in PARTS[part](options):
            named = title + results_file.QUICK * options.quick
            results_file.add({named: {"quick": options.quick, **result}}, options.to)
            print(f"\n{title}\n\n{report.table(result['rows'])}\n", flush=True)
    for path in report.write(options.to):
        print(f"written: {path}")


if __name__ == "__main__":
    main()
