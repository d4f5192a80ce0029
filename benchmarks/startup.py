"""Start-up: how long until something happens, in a new process each time.

    python -m benchmarks startup

The first translation is measured twice: on a machine that has never seen the bundle (it is converted for the
fast engine first), and in a new process after that. Files are in the system's cache, as they are after the
first start; what is cold is the process.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

GLASS = [sys.executable, "-m", "glassformer"]
SENTENCE = "Where is the station?"

COMMANDS: dict[str, Sequence[str]] = {
    "python, nothing else": [sys.executable, "-c", "pass"],
    "import glassformer": [sys.executable, "-c", "import glassformer"],
    "glass --help": [*GLASS, "--help"],
    "import torch": [sys.executable, "-c", "import torch"],
    "import transformers' MarianMTModel": [sys.executable, "-c", "from transformers import MarianMTModel"],
    "first translation, new process": [*GLASS, "translate", SENTENCE],
    "first translation, torch engine": [*GLASS, "translate", "--engine", "torch", SENTENCE],
}
FIRST_EVER = "first translation ever, bundle not converted yet"


def run(repeats: int = 7) -> dict[str, Any]:
    """Every command in turn, again and again."""
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in [*COMMANDS, FIRST_EVER]}
    for what, command in COMMANDS.items():
        once(command)  # reads what has to be read from the disk, and converts the bundle
        print(f"start-up: {what}")
    for _ in range(repeats):
        for what, command in COMMANDS.items():
            found[what].append(once(command))
        with tempfile.TemporaryDirectory() as empty:
            found[FIRST_EVER].append(once([*GLASS, "translate", SENTENCE], {"XDG_CACHE_HOME": empty}))
    rows = [
        {
            "what": what,
            "seconds": statistics.median(seconds for seconds, _ in taken),
            "slowest": max(seconds for seconds, _ in taken),
            "CPU seconds": statistics.median(cpu for _, cpu in taken),
        }
        for what, taken in found.items()
    ]
    return {"repeats": repeats, "rows": rows}


def once(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Seconds on the clock, and of processor time, from start to end of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
