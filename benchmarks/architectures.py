"""The Transformer beside what it replaced, and without each of its parts: both halves of `glass compare`.

    python -m benchmarks.architectures --to benchmarks/results/architectures     # about half an hour
    python -m benchmarks.architectures --quick                                   # about five minutes

The engine is `glassformer.compare`; this only runs it twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from glassformer.compare.report import table
from glassformer.compare.run import Settings, compare
from glassformer.train.allocator import keep_memory

MINUTES, QUICK = 11.0, 2.0
"""of training, for each half"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architectures", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "architectures")
    parser.add_argument("--data", default=Settings.data, help="language, or the name of a corpus")
    parser.add_argument("--longest", type=int, default=0, help="tokens of the longest training sentences")
    parser.add_argument("--quick", action="store_true", help="two minutes of training for each half")
    parser.add_argument("--tune", action="store_true", help="look for learning rates first")
    options = parser.parse_args()
    keep_memory()
    minutes = QUICK if options.quick else MINUTES
    for name, ablations in (("replaced", False), ("parts", True)):
        asked = Settings(options.data, ablations, minutes=minutes, longest=options.longest, tune=options.tune)
        result, _, _ = compare(asked, options.to / name)
        print(f"\n{table(result)}\n")
    print(f"written: {options.to}")


if __name__ == "__main__":
    main()
