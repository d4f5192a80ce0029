"""How far is it? A bar with the time left on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from glassformer.train.report import EVERY, clock


class Screen:
    """Counts the seconds that were planned against those that are done."""

    def __init__(self, planned: float, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.planned, self.done = planned, 0.0
        self.started = self.last_line = time.monotonic()
        columns = (BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task("", total=max(planned, 1e-9))

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def spend(self, seconds: float, doing: str) -> None:
        """So much of the plan is done; `doing` is what is being done."""
        self.done += seconds
        now = time.monotonic()
        # What is planned and what it takes differ a little: loading, validating, a busy machine.
        pace = (now - self.started) / self.done if self.done else 1.0
        left = clock(max(0.0, self.planned - self.done) * pace)
        if self.console.is_terminal:
            self.bar.start()
            self.bar.update(self.task, completed=self.done, description=f"{doing}  {left} left")
        elif now - self.last_line >= EVERY:
            self.last_line = now
            self.say(f"{100 * min(1.0, self.done / max(self.planned, 1e-9)):3.0f}%  {doing}  {left} left")

    def close(self) -> None:
        self.bar.stop()
