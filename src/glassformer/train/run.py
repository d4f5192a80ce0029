"""One run in one directory, from a recipe to a finished bundle.

DIR/
  recipe.toml     the settings, all of them
  data/           vocabulary and tokens, made once
  checkpoints/    the newest and the best; each one works as a bundle
  metrics.jsonl   a line every few updates and one a validation
  model/          the result
  result.json     what it reached on the validation pairs, for scripts
  curves.png      loss, BLEU and learning rate, if matplotlib is installed
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glassformer import settings
from glassformer.bundle import COMMANDS, RESULT, WEIGHTS, Bundle, weights_of
from glassformer.config import BundleConfig
from glassformer.errors import DamagedFileError, TrainingError
from glassformer.model.build import count_parameters
from glassformer.recipe import Recipe, TrainConfig
from glassformer.text.tokenizer import TokenizerPair
from glassformer.train.card import model_card
from glassformer.train.changes import TEXT, Change, changes, refuse
from glassformer.train.checkpoint import Checkpoint, Checkpoints, Progress, average_weights
from glassformer.train.curves import plot_curves
from glassformer.train.distributed import Processes
from glassformer.train.family_validate import ReaderValidator
from glassformer.train.loop import Loop
from glassformer.train.objective import make_objective
from glassformer.train.precision import pays
from glassformer.train.prepare import Prepared, prepare
from glassformer.train.report import METRICS, ConsoleReport, Report, Validation, clock
from glassformer.train.validate import Validator
from glassformer.weights import atomic_file

RECIPE, CHECKPOINTS, FINISHED = "recipe.toml", "checkpoints", "result.json"
LOCK, MADE_FROM = ".lock", "made-from.txt"
FINAL_SENTENCES = 1000
"""validation sentences translated for the card, at most"""


@dataclass(frozen=True)
class Result:
    """What came out."""

    path: Path
    progress: Progress
    validation: Validation | None


def train(
    recipe: Recipe,
    directory: Path,
    *,
    processes: Processes | None = None,
    report: Report | None = None,
    allow_changes: bool = False,
    fresh: bool = False,
) -> Result:
    """Train, or go on training, and finish with a bundle in DIR/model."""
    processes = processes or Processes()
    report = report or (ConsoleReport(directory) if processes.first else Report())
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    with _held(directory, processes):
        checkpoints = _checkpoints(recipe.train, directory, report)
        _begin(recipe, directory, checkpoints, processes, allow_changes=allow_changes, fresh=fresh)
        prepared = _prepare(recipe, directory, checkpoints, processes, report, allow_changes)
        try:
            return _train(prepared, directory, checkpoints, processes, report)
        finally:
            report.close()


def _checkpoints(config: TrainConfig, directory: Path, report: Report) -> Checkpoints:
    """Where they are, and how many are kept: at least as many as will be averaged."""
    last = config.average_last
    return Checkpoints(
        directory / CHECKPOINTS,
        keep_last=max(config.keep_last, config.average if last else 1),
        keep_best=1 if last else config.average,
        higher_is_better=config.stop_on != "loss",
        say=report.say,
    )


def _begin(
    recipe: Recipe,
    directory: Path,
    checkpoints: Checkpoints,
    processes: Processes,
    *,
    allow_changes: bool,
    fresh: bool,
) -> None:
    """Make sure that this directory is ours to go on with, and write the recipe down."""
    if processes.first:
        written = directory / RECIPE
        if fresh:
            (directory / FINISHED).unlink(missing_ok=True)
            for old in (directory / CHECKPOINTS, directory / RESULT):
                shutil.rmtree(old, ignore_errors=True)
        checkpoints.tidy()
        for litter in directory.glob(f".{RESULT}.*"):  # of a process that was killed while it finished
            shutil.rmtree(litter, ignore_errors=True)
        if written.exists() and checkpoints.all():
            before = settings.read(Recipe, written)
            refuse(changes(before, recipe), directory, allow_changes)
        _write(written, settings.dumps(recipe))
    processes.wait()


def _prepare(
    recipe: Recipe,
    directory: Path,
    checkpoints: Checkpoints,
    processes: Processes,
    report: Report,
    allow_changes: bool,
) -> Prepared:
    """Process 0 makes what has to be made; the others find it ready."""
    if not processes.first:
        processes.wait()
    tokenizers = _tokenizers(checkpoints)
    prepared = prepare(recipe, directory, tokenizers, report.say)
    if processes.first:
        made_from = directory / "data" / MADE_FROM
        if tokenizers and made_from.exists() and made_from.read_text("utf-8") != prepared.fingerprint:
            refuse([Change(TEXT, "", "")], directory, allow_changes)
        _write(made_from, prepared.fingerprint)
        processes.wait()
    return prepared


def _tokenizers(checkpoints: Checkpoints) -> TokenizerPair | None:
    """Those of the run that goes on: its weights know no others."""
    for checkpoint in reversed(checkpoints.all()):
        with contextlib.suppress(DamagedFileError):
            checkpoint.verify()
            return TokenizerPair.load(checkpoint.path)
    return None


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as file:
        file.write(text.encode())


def _train(
    prepared: Prepared, directory: Path, checkpoints: Checkpoints, processes: Processes, report: Report
) -> Result:
    config, bundle = prepared.recipe.train, prepared.bundle
    report.say(_about(prepared))
    if config.precision == "auto" and pays(processes.device, bundle.config.model.width):
        report.say("matrix products in bfloat16, which is faster here; train.precision=float32 is more exact")
    validator = _validator(prepared, config) if prepared.valid and processes.first else None
    loop = Loop(
        bundle,
        make_objective(prepared.recipe.task, bundle.model, config.label_smoothing, config.r_drop),
        prepared.feed,
        config,
        checkpoints=checkpoints,
        report=report,
        validator=validator,
        processes=processes,
    )
    progress = loop.run()
    report.close()
    report.say(f"{loop.reason_to_stop()}: {progress.step:,} updates in {clock(progress.seconds)}")
    validation = None
    if processes.first:
        finished, validation = _finished(directory, prepared.recipe, progress)
        if finished:
            report.say(f"this run is complete; the model is in {directory / RESULT}")
        else:
            validation = finish(prepared, directory, checkpoints, progress, report)
    processes.wait()
    return Result(directory / RESULT, progress, validation)


def _validator(prepared: Prepared, config: TrainConfig, beams: int = 1) -> Callable[[], Validation]:
    if prepared.recipe.task == "translate":
        return Validator(prepared.bundle, prepared.valid, config, beams)
    return ReaderValidator(prepared.bundle, prepared.valid, config, prepared.recipe.data.max_tokens)


def _finished(directory: Path, recipe: Recipe, progress: Progress) -> tuple[bool, Validation | None]:
    """Has just this run been finished before, and what did it reach?"""
    try:
        found = json.loads((directory / FINISHED).read_text("utf-8"))
        scores = found["validation"]
        same = found["step"] == progress.step and found["recipe"] == settings.to_mapping(recipe)
        same = same and (directory / RESULT / WEIGHTS).is_file()
    except (OSError, ValueError, TypeError, KeyError):
        return False, None
    return same, Validation(**scores) if same and scores else None


def finish(
    prepared: Prepared, directory: Path, checkpoints: Checkpoints, progress: Progress, report: Report
) -> Validation | None:
    """The best checkpoint, or the mean of several, becomes the result; with its card and its curves."""
    config, bundle = prepared.recipe.train, prepared.bundle
    wanted = checkpoints.last(config.average) if config.average_last else checkpoints.best(config.average)
    chosen = _whole(wanted, report)
    if not chosen:
        raise TrainingError(f"{checkpoints.directory} holds no whole checkpoint to make a model of")
    _load(bundle, chosen)
    steps = sorted(checkpoint.step for checkpoint in chosen)
    of = f"update {steps[0]:,}" if len(steps) == 1 else f"the mean of updates {', '.join(map(str, steps))}"
    validation = None
    if prepared.valid:
        validation = _validator(prepared, _for_the_card(config), bundle.config.search.beams)()
    bundle.card = model_card(prepared.recipe, prepared.cleaning, bundle, progress, validation, of)
    path = bundle.save(directory / RESULT)
    _write(directory / FINISHED, _as_json(prepared.recipe, progress, validation))
    report.say(_summary(path, of, validation, bundle.config))
    if plotted := plot_curves(directory / METRICS, directory / "curves.png"):
        report.say(f"curves are in {plotted}")
    return validation


def _as_json(recipe: Recipe, progress: Progress, validation: Validation | None) -> str:
    scores = (
        {key: getattr(validation, key) for key in ("loss", "bleu", "signature", "accuracy")}
        if validation
        else None
    )
    found = {"step": progress.step, "seconds": progress.seconds, "validation": scores}
    return json.dumps({**found, "recipe": settings.to_mapping(recipe)}, indent=1)


def _whole(checkpoints: list[Checkpoint], report: Report) -> list[Checkpoint]:
    whole = []
    for checkpoint in checkpoints:
        try:
            checkpoint.verify()
            whole.append(checkpoint)
        except DamagedFileError as error:
            report.say(f"{error}; left out of the result")
    return whole


def _load(bundle: Bundle[Any], chosen: list[Checkpoint]) -> None:
    mean = average_weights(chosen)
    with torch.no_grad():
        for name, weight in weights_of(bundle.model).items():
            weight.copy_(mean[name])
    bundle.model.eval()


def _for_the_card(config: TrainConfig) -> TrainConfig:
    return replace(config, validate_bleu=FINAL_SENTENCES if config.validate_bleu else 0, samples=0)


def _about(prepared: Prepared) -> str:
    config, bundle = prepared.bundle.config, prepared.bundle
    network, sizes = config.model, {config.vocabulary.source_size, config.vocabulary.target_size}
    what = f"{config.source_language or '?'} → {config.target_language or '?'}"
    layers = f"{network.encoder_layers}+{network.decoder_layers}"
    if config.task != "translate":
        what = config.task.replace("_", " ")
        layers = str(len(bundle.model.encoder.layers))
    pieces = " and ".join(f"{size:,}" for size in sorted(sizes))
    return (
        f"{what}: {count_parameters(bundle.model):,} parameters ({layers} layers of {network.width}), "
        f"vocabulary of {pieces}, {prepared.feed.count(0):,} batches an epoch"
    )


def _summary(path: Path, of: str, validation: Validation | None, config: BundleConfig) -> str:
    lines = [f"the model is in {path} ({of})"]
    if validation is not None:
        bleu = "" if validation.bleu is None else f", BLEU {validation.bleu:.1f} ({validation.signature})"
        bleu += "" if validation.accuracy is None else f", accuracy {validation.accuracy:.2%}"
        where = f"the validation pairs, beam {config.search.beams}"
        if config.task != "translate":
            where = "the validation text"
        lines.append(f"on {where}: perplexity {validation.perplexity:.2f}{bleu}")
    if config.task == "masked_language_model":
        lines.append(f"fine-tune it:  glass train … train.start_from={path.parent}")
    else:
        lines.append(f'try it:  {COMMANDS[config.task][1]} --model {path.parent} "…"')
    return "\n".join(lines)


@contextlib.contextmanager
def _held(directory: Path, processes: Processes) -> Iterator[None]:
    """Only one run at a time in a directory; the lock goes with the process, however it ends."""
    if not processes.first:
        yield
        return
    if directory.exists() and not directory.is_dir():
        raise TrainingError(f"{directory} is a file; a directory is needed")
    foreign = directory.is_dir() and any(directory.iterdir()) and not (directory / LOCK).exists()
    if foreign:
        raise TrainingError(
            f"{directory} holds other files and no training run: choose a new or empty directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("w") as lock:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TrainingError(f"another process is training in {directory}") from None
            except OSError:
                pass  # a file system without locks: better unguarded than not at all
        yield
