"""Several processes from one command: torchrun runs inside of it, and people read one message, not many.

torchrun starts again what has failed, and ends with a traceback of its own. That is right for a process that
was killed, and wrong for a mistake in a recipe, which no second try mends: whoever meets an error that we
understand says it, once for all, leaves the exit code in a file and asks torchrun to end everybody.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from glassformer.errors import TrainingError

VERDICT = "GLASSFORMER_VERDICT"
"""names the file for the exit code, in the environment of the processes that `launch` starts"""
RESTARTS = 3


def launch(processes: int, arguments: Sequence[str]) -> NoReturn:
    """Run `glass` with these arguments in so many processes; exit as they do."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    # Without this, torchrun hangs when it restarts a worker that was lost (pytorch#135712).
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        verdict = Path(folder) / "verdict"
        os.environ[VERDICT] = str(verdict)
        try:
            _torchrun(processes, arguments, verdict)
        finally:
            del os.environ[VERDICT]  # what this process has to say, it says itself
    sys.exit(0)


def _torchrun(processes: int, arguments: Sequence[str], verdict: Path) -> None:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    # What it does when it ends is no news; that a process was lost is an error, and stays.
    logging.disable(logging.WARNING)
    runner = ["--standalone", f"--nproc-per-node={processes}", f"--max-restarts={RESTARTS}"]
    try:
        torchrun([*runner, f"--log-dir={verdict.parent}", "-m", "glassformer", *arguments])
    except SignalException as caught:
        if verdict.exists():
            sys.exit(int(verdict.read_text()))
        if caught.sigval == signal.SIGINT:
            raise KeyboardInterrupt from None
        sys.exit(128 + caught.sigval)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        raise TrainingError(
            f"process {failure.local_rank} has failed (exit code {failure.exitcode}), {RESTARTS} new starts "
            "included; what it said stands above. The same command goes on from the last checkpoint"
        ) from None


def end(message: str, code: int) -> NoReturn:
    """Say why and exit. Of several processes the first one speaks, and all of them end."""
    verdict = os.environ.get(VERDICT)
    if verdict is None:
        print(message, file=sys.stderr)
        sys.exit(code)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # by which torchrun will end this process
    try:
        with open(verdict, "x", encoding="utf-8") as file:
            file.write(str(code))
    except FileExistsError:
        pass  # another one has spoken
    else:
        print(message, file=sys.stderr, flush=True)
        os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
    sys.exit(code)


def without_processes(arguments: Sequence[str]) -> list[str]:
    """The command line for each of the processes.

    >>> without_processes(["train", "--processes", "2", "a.toml", "--processes=2"])
    ['train', 'a.toml']
    """
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and argument != "--processes" and not argument.startswith("--processes="):
            kept.append(argument)
        skip = argument == "--processes"
    return kept
