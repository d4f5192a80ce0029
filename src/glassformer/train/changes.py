"""What is different about a run that is to go on? Named key by key. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import settings
from glassformer.config import DROPOUTS
from glassformer.errors import TrainingError
from glassformer.recipe import Recipe

# These neither shape the result nor its records.
FREE = {"train.threads", "train.samples", "train.keep_last"}
# These shape the network: weights that were made for one value are useless for another.
SHAPE = ("model.", "tokenizer.", "task")
NOT_SHAPE = {f"model.{key}" for key in DROPOUTS}
TEXT = "the training text"


@dataclass(frozen=True)
class Change:
    """One setting that has another value than when the run began."""

    key: str
    before: Any
    now: Any

    @property
    def shapes_the_network(self) -> bool:
        return self.key.startswith(SHAPE) and self.key not in NOT_SHAPE

    def __str__(self) -> str:
        if self.key == TEXT:
            return f"{TEXT} is not what it was: a file was changed, moved or touched"
        return f"{self.key} was {self.before!r} and is now {self.now!r}"


def changes(before: Recipe, now: Recipe) -> list[Change]:
    """Every setting that differs and matters, in the order of the recipe."""
    old, new = _flat(settings.to_mapping(before)), _flat(settings.to_mapping(now))
    return [Change(key, old[key], new[key]) for key in new if old[key] != new[key] and key not in FREE]


def refuse(found: list[Change], directory: Path, allowed: bool) -> None:
    """Raise unless there is no change, or none that shapes the network and the others are allowed."""
    fixed = [change for change in found if change.shapes_the_network]
    if fixed:
        raise TrainingError(
            f"{directory} holds a run of another network; it can't go on as this one:\n{_listed(fixed)}\n"
            "Use another directory, or --fresh to throw that run away"
        )
    if found and not allowed:
        raise TrainingError(
            f"{directory} holds a run that began with other settings:\n{_listed(found)}\n"
            "Give --allow-changes to go on with the new ones, --fresh to begin anew, or another directory"
        )


def _listed(found: list[Change]) -> str:
    return "\n".join(f"  - {change}" for change in found)


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
