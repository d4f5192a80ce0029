"""What a run says about itself: on the screen, and in metrics.jsonl.

On a terminal there is a bar with the time left. Elsewhere (a file, a pipe, a scheduler's log) plain lines
come every so often. metrics.jsonl gets the same numbers either way, one JSON object a line; after a
resumption it continues as if nothing had happened.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from glassformer.errors import TrainingError
from glassformer.train import checkpoint
from glassformer.weights import atomic_file

METRICS = "metrics.jsonl"
EVERY = 10.0
"""seconds between two plain lines"""

Entry = Mapping[str, float | int | str | bool | None]


@dataclass(frozen=True)
class Sample:
    """One sentence, what should come out, and what did."""

    source: str
    reference: str
    hypothesis: str


@dataclass(frozen=True)
class Validation:
    """What a model can do at one moment."""

    loss: float
    """negative log-likelihood a token, in nats, without smoothing"""
    bleu: float | None = None
    signature: str = ""
    samples: list[Sample] = field(default_factory=list)
    accuracy: float | None = None
    """share of the labels that are right, for tasks with labels"""

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss) if self.loss < 700 else math.inf


class Report:
    """Says nothing: for all processes but the first. `ConsoleReport` says everything."""

    def say(self, text: str) -> None:
        """A message for whoever watches."""

    def resumed(self, progress: checkpoint.Progress, path: Path | None) -> None:
        """The run begins, or goes on from a checkpoint."""

    def updated(self, progress: checkpoint.Progress, over: float) -> None:
        """An update was made; `over` is the share of the run that lies behind."""

    def validated(self, progress: checkpoint.Progress, result: Validation) -> None:
        """The model was looked at."""

    def record(self, entry: Entry) -> None:
        """A line for metrics.jsonl."""

    def sync(self) -> None:
        """Make sure that what was recorded is on the disk."""

    def close(self) -> None:
        """The run is over."""


class Metrics:
    """metrics.jsonl: appended to, and cut back to a checkpoint's step when the run goes on from there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, step: int) -> None:
        """Keep what was recorded up to `step`; a half-written last line goes too."""
        kept = [line for line in read_metrics(self.path) if line["step"] <= step]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.path) as file:
            file.writelines(_line(entry) for entry in kept)

    def append(self, entry: Entry) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(_line(entry))
        except OSError as error:
            raise TrainingError(f"{self.path}: could not be written: {error.strerror}") from None

    def sync(self) -> None:
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The entries of a metrics.jsonl; lines that are not whole are passed over."""
    entries = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("step"), int):
            entries.append(entry)
    return entries


def _line(entry: Entry) -> bytes:
    # JSON has no word for infinity or "not a number".
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in entry.items()}
    return json.dumps(plain, ensure_ascii=False).encode() + b"\n"


class ConsoleReport(Report):
    """A bar on a terminal, plain lines elsewhere, metrics.jsonl always, TensorBoard if it is installed."""

    def __init__(self, directory: Path, console: Console | None = None) -> None:
        self.console = console or Console(soft_wrap=True, highlight=False, markup=False)
        self.metrics = Metrics(directory / METRICS)
        self.board = _Board(directory / "tensorboard")
        self.bar = _Bar(self.console) if self.console.is_terminal else None
        self.latest: Entry = {}
        self.started = self.last_line = time.monotonic()
        self.over_at_start: float | None = None

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def resumed(self, progress: checkpoint.Progress, path: Path | None) -> None:
        self.metrics.begin(progress.step)
        self.board.begin(progress.step)
        self.started = self.last_line = time.monotonic()
        if path is not None:
            self.say(f"going on from {path} (update {progress.step:,}, epoch {progress.epoch + 1})")

    def updated(self, progress: checkpoint.Progress, over: float) -> None:
        now = time.monotonic()
        if self.over_at_start is None:
            self.over_at_start, self.started = over, now
        gone = over - self.over_at_start
        left = (now - self.started) * (1 - over) / gone if gone > 0 else None
        text = self._status(progress, left)
        if self.bar:
            self.bar.show(text, over)
        elif now - self.last_line >= EVERY:
            self.last_line = now
            self.say(f"{100 * min(over, 1):3.0f}%  {text}")

    def validated(self, progress: checkpoint.Progress, result: Validation) -> None:
        best = progress.best_step == progress.step
        bleu = "" if result.bleu is None else f", BLEU {result.bleu:.1f}"
        bleu += "" if result.accuracy is None else f", accuracy {result.accuracy:.1%}"
        text = f"validation after update {progress.step:,}: loss {result.loss:.3f}"
        text += f" (perplexity {result.perplexity:.1f}){bleu}" + (", the best so far" if best else "")
        self.say(text)
        for sample in result.samples:
            self.say(f"    source     {sample.source}")
            self.say(f"    reference  {sample.reference}")
            self.say(f"    model      {sample.hypothesis}")
            self.say("")
        self.record(
            {
                "kind": "valid",
                "step": progress.step,
                "epoch": progress.epoch,
                "loss": result.loss,
                "perplexity": result.perplexity,
                "bleu": result.bleu,
                **({} if result.accuracy is None else {"accuracy": result.accuracy}),
                "best": best,
                "tokens": progress.tokens,
                "seconds": progress.seconds,
            }
        )

    def record(self, entry: Entry) -> None:
        self.metrics.append(entry)
        self.board.add(entry)
        if entry["kind"] == "train":
            self.latest = entry

    def sync(self) -> None:
        self.metrics.sync()

    def close(self) -> None:
        if self.bar:
            self.bar.close()
        self.board.close()

    def _status(self, progress: checkpoint.Progress, left: float | None) -> str:
        parts = [f"update {progress.step:,}", f"epoch {progress.epoch + 1}"]
        if isinstance(loss := self.latest.get("loss"), float):
            parts.append(f"loss {loss:.3f}")
        if isinstance(speed := self.latest.get("tokens_per_second"), float):
            parts.append(f"{speed:,.0f} tokens/s")
        if left is not None:
            parts.append(f"{clock(left)} left")
        return "  ".join(parts)


class _Bar:
    """One line at the bottom of a terminal, messages scroll above it."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}"))
        self.progress = Progress(*columns, console=console, transient=True)
        self.task = self.progress.add_task("", total=1.0)

    def show(self, text: str, over: float) -> None:
        self.progress.start()  # does nothing the second time
        self.progress.update(self.task, completed=min(over, 1.0), description=text)

    def close(self) -> None:
        self.progress.stop()


class _Board:
    """TensorBoard, if it is installed: nothing depends on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writer: Any = None

    def begin(self, step: int) -> None:
        """What was shown beyond this update is hidden."""
        with contextlib.suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.directory), purge_step=step + 1)

    def add(self, entry: Entry) -> None:
        if self.writer is not None:
            for key, value in entry.items():
                if isinstance(value, float) and key != "seconds":
                    self.writer.add_scalar(f"{entry['kind']}/{key}", value, entry["step"])

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def clock(seconds: float) -> str:
    """A duration for people.

    >>> clock(8), clock(75), clock(3700), clock(200000)
    ('8 s', '1 min 15 s', '1 h 1 min', '55 h 33 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
