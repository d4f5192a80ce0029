"""What a comparison found: one row a contestant, in plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.compare.contestants import Contestant
from glassformer.compare.measure import METRICS, Difference, Group


@dataclass(frozen=True)
class Row:
    """One contestant and how it did."""

    contestant: Contestant
    parameters: int
    updates: int
    seconds: float
    """of training"""
    tokens_per_second: float
    """target tokens, in training"""
    loss: float
    """nats a token on the validation pairs"""
    quality: float
    """on test sentences that are no longer than those of training"""
    by_group: Sequence[float]
    """quality in each group of lengths"""
    sentences_per_second: float
    """of greedy search"""
    known: Sequence[float] = ()
    """`by_group`, up to the lengths of training"""
    longer: Sequence[float] = ()
    """`by_group`, beyond them"""
    against: Difference | None = None
    """this one minus the whole Transformer"""
    pass_times: dict[int, float] = field(default_factory=dict)
    """seconds of one pass, by length"""
    curve: Sequence[tuple[float, float]] = ()
    """(seconds, nats a token) while it trained"""
    trouble: str = ""

    @property
    def title(self) -> str:
        return self.contestant.title

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Result:
    """The whole comparison."""

    data: str
    metric: str
    groups: Sequence[Group]
    longest: int
    rows: Sequence[Row]
    ablations: bool
    machine: dict[str, Any]
    sweep: Sequence[dict[str, Any]] = ()
    """rates that were tried, if any were"""

    @property
    def metric_label(self) -> str:
        return METRICS[self.metric]

    @property
    def threads(self) -> str:
        count = self.machine["threads"]
        return f"{count} thread{'s' * (count != 1)}"

    def find(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.contestant.name == name and not row.trouble), None)

    def to_json(self) -> dict[str, Any]:
        groups = [
            {"tokens": group.label, "longer": group.longer, "sentences": len(group.places)}
            for group in self.groups
        ]
        return {
            "data": self.data,
            "metric": self.metric_label,
            "longest_in_training": self.longest,
            "groups": groups,
            "rows": [row.to_json() for row in self.rows],
            "rates_tried": list(self.sweep),
            "machine": self.machine,
        }
