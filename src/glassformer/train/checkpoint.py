"""Checkpoints: a bundle that works at any time, plus what it takes to go on as if nothing had happened.

    step-00000500/
      config.toml, README.md, …   a bundle; its weights are the running mean, if there is one
      state.safetensors           Adam's memory, and the weights themselves if the bundle has their mean
      state.json                  where the run stands (Progress)
      manifest.json               every file's size and SHA-256, and the score

No random generator is stored: every random number of the loop comes from (seed, update, process), see
`loop`. A directory gets its name when all of it is on the disk. One that was damaged later is found out by
its manifest, and the one before it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.bundle import WEIGHTS, Bundle
from glassformer.errors import BundleError, DamagedFileError, TrainingError
from glassformer.weights import atomic_directory, read_safetensors, sync_directory, write_safetensors

MANIFEST, STATE, TENSORS = "manifest.json", "state.json", "state.safetensors"
FORMAT = 1


@dataclass
class Window:
    """Sums over the updates since the last line of metrics."""

    updates: int = 0
    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    gradient: float = 0.0
    seconds: float = 0.0


@dataclass
class Progress:
    """Where a run stands: everything about it that is not a tensor."""

    step: int = 0
    """updates tried so far, skipped ones included"""
    epoch: int = 0
    batch: int = 0
    """the next batch of this epoch"""
    tokens: int = 0
    """target tokens seen"""
    seconds: float = 0.0
    """time spent, over all resumptions"""
    skipped: int = 0
    """updates whose loss or gradient was of no use"""
    bad_in_a_row: int = 0
    mean_count: int = 0
    """updates in the running mean of the weights"""
    best: float | None = None
    """the best score of a validation, by whatever decides"""
    best_step: int = 0
    stale: int = 0
    """validations since then"""
    validated_at: float = 0.0
    """`seconds` at the last validation"""
    window: Window = field(default_factory=Window)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Progress:
        known = {item.name for item in fields(cls)}
        if set(mapping) != known:
            raise ValueError(f"keys {sorted(set(mapping) ^ known)} are missing or unknown")
        return cls(**{**mapping, "window": Window(**mapping["window"])})


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on the disk."""

    path: Path
    step: int
    score: float | None
    """what a validation found, if there was one"""
    scheduled: bool
    """False for one that an interruption caused"""
    files: Mapping[str, tuple[int, str]]

    def verify(self) -> None:
        """Raise DamagedFileError unless every file is as it was written."""
        for name, (size, digest) in self.files.items():
            path = self.path / name
            found = path.stat().st_size if path.is_file() else -1
            if found != size:
                state = "missing" if found < 0 else f"file truncated: {found} of {size} bytes"
                raise DamagedFileError(f"{path}: {state}")
            if _digest(path) != digest:
                raise DamagedFileError(f"{path}: damaged: its content is not what was written")

    def load(self) -> tuple[Progress, dict[str, Tensor]]:
        """The state of training. The model's weights are those of the bundle beside it."""
        try:
            mapping = json.loads((self.path / STATE).read_text("utf-8"))
            progress = Progress.from_mapping(mapping)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DamagedFileError(f"{self.path / STATE}: {error}") from None
        return progress, read_safetensors(self.path / TENSORS)


class Checkpoints:
    """The checkpoints of one run: the newest `keep_last` and the `keep_best` of the best score."""

    def __init__(
        self,
        directory: Path,
        *,
        keep_last: int = 2,
        keep_best: int = 1,
        higher_is_better: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.directory = directory
        self.keep_last, self.keep_best = keep_last, keep_best
        self.sign = -1 if higher_is_better else 1
        self.say = say

    def save(
        self,
        bundle: Bundle,
        progress: Progress,
        tensors: Mapping[str, Tensor],
        score: float | None = None,
        *,
        scheduled: bool = True,
    ) -> Checkpoint:
        """Write a checkpoint whole, then let go of those that are no longer worth keeping."""
        path = self.directory / f"step-{progress.step:08d}"
        try:
            with atomic_directory(path) as temporary:
                bundle.write(temporary)
                write_safetensors(temporary / TENSORS, tensors)
                (temporary / STATE).write_text(json.dumps(asdict(progress), indent=1), "utf-8")
                files = {inside.name: _described(inside) for inside in sorted(temporary.iterdir())}
                manifest = {"format": FORMAT, "step": progress.step, "score": score, "scheduled": scheduled}
                (temporary / MANIFEST).write_text(json.dumps({**manifest, "files": files}, indent=1), "utf-8")
        except (BundleError, OSError) as error:
            before = self.all()
            kept = f"the one of step {before[-1].step} is intact" if before else "there was none before it"
            raise TrainingError(
                f"a checkpoint could not be written ({error}); {kept}. Make room on the disk, and give the "
                "same command again: training goes on from there"
            ) from None
        self.prune()
        return Checkpoint(path, progress.step, score, scheduled, files)

    def all(self) -> list[Checkpoint]:
        """Oldest first, by their manifests alone; what has no readable manifest is passed over."""
        found = []
        for path in self._paths():
            with contextlib.suppress(DamagedFileError):
                found.append(_read_manifest(path))
        return found

    def newest(self) -> Checkpoint | None:
        """The newest one that is whole. Damaged ones are named, and the one before is tried."""
        for path in reversed(self._paths()):
            try:
                checkpoint = _read_manifest(path)
                checkpoint.verify()
                return checkpoint
            except DamagedFileError as error:
                self.say(f"{error}; going back to the checkpoint before it")
        return None

    def best(self, count: int) -> list[Checkpoint]:
        """The best `count`, best first, of equals the earlier; without any validation, the last ones."""
        scored = [checkpoint for checkpoint in self.all() if checkpoint.score is not None]
        return sorted(scored, key=self._rank)[:count] or self.last(count)

    def last(self, count: int) -> list[Checkpoint]:
        """The last `count` that were due, newest first."""
        return [checkpoint for checkpoint in reversed(self.all()) if checkpoint.scheduled][:count]

    def prune(self) -> None:
        everything = self.all()
        # What an interruption caused must not push out what an uninterrupted run would have kept.
        keep = {c.path for c in everything[-1:] + self.last(self.keep_last) + self.best(self.keep_best)}
        for checkpoint in everything:
            if checkpoint.path not in keep:
                _remove(checkpoint.path)

    def tidy(self) -> None:
        """Remove what a killed process left under temporary names. Only for who holds the run."""
        for path in self.directory.glob(".*"):
            _remove(path) if path.is_dir() else path.unlink()

    def _paths(self) -> list[Path]:
        return sorted(self.directory.glob("step-*"))

    def _rank(self, checkpoint: Checkpoint) -> tuple[float, int]:
        assert checkpoint.score is not None
        return self.sign * checkpoint.score, checkpoint.step


def average_weights(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the models of several checkpoints (section 6.1 of the paper), computed in float64."""
    total: dict[str, Tensor] = {}
    for checkpoint in checkpoints:
        checkpoint.verify()
        for name, tensor in read_safetensors(checkpoint.path / WEIGHTS).items():
            exact = tensor.double()
            total[name] = total[name] + exact if name in total else exact
    return {name: (tensor / len(checkpoints)).to(torch.float32) for name, tensor in total.items()}


def _read_manifest(path: Path) -> Checkpoint:
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        files = {name: (int(size), str(digest)) for name, (size, digest) in manifest["files"].items()}
        score = None if manifest["score"] is None else float(manifest["score"])
        return Checkpoint(path, int(manifest["step"]), score, bool(manifest["scheduled"]), files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedFileError(f"{path / MANIFEST}: unreadable ({error})") from None


def _described(path: Path) -> tuple[int, str]:
    return path.stat().st_size, _digest(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path) -> None:
    """A killed removal must not leave half a checkpoint under its name: hide it first."""
    hidden = path.with_name(f".{path.name.lstrip('.')}.gone")
    if hidden != path:
        shutil.rmtree(hidden, ignore_errors=True)
        os.rename(path, hidden)
        sync_directory(path.parent)
    shutil.rmtree(hidden, ignore_errors=True)
