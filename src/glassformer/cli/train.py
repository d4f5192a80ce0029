"""`glass train`: text in, a model out."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.launch import launch, without_processes
from glassformer.config import Task
from glassformer.errors import ConfigError, RequestError, TrainingError
from glassformer.recipe import CorpusConfig

if TYPE_CHECKING:
    from glassformer.recipe import Recipe
    from glassformer.train.distributed import Processes
    from glassformer.train.run import Result

Flag = Annotated[bool, Parameter(negative=())]


def train(
    recipe: Path | None = None,
    *overrides: str,
    to: Path | None = None,
    source: Path | None = None,
    target: Path | None = None,
    pairs: Path | None = None,
    text: Path | None = None,
    task: Task | None = None,
    resume: Flag = False,
    allow_changes: Flag = False,
    fresh: Flag = False,
    dry_run: Flag = False,
    seeds: int = 1,
    processes: int = 1,
) -> None:
    """Train a model on text; the same command again goes on where it was stopped.

    Parameters
    ----------
    recipe
        a .toml file with the settings (see `glass config`); left out, they are chosen by the corpus' size
    overrides
        settings to change, such as train.max_minutes=20
    to
        directory of the run; the finished model is in its folder `model`
    source
        file of source lines, if there is no recipe
    target
        file of target lines, as many
    pairs
        one .tsv or .jsonl file that holds both sides, instead
    text
        a file of plain text, for a language model
    task
        what to learn, if it is not translation and no recipe says it
    resume
        insist that there is a run to go on with
    allow_changes
        go on even if settings have changed since; the network must be the same
    fresh
        throw away the run that is there
    dry_run
        only say what it would take: parameters, memory, time
    seeds
        train so many models that differ in nothing but chance, and report mean and spread
    processes
        share the work among so many processes of this machine (as torchrun would)
    """
    if processes > 1:
        launch(processes, without_processes(sys.argv[1:]))
    if recipe is not None and "=" in str(recipe) and not recipe.exists():
        recipe, overrides = None, (str(recipe), *overrides)
    if to is None and not dry_run:
        raise RequestError("say where the run should be kept: --to DIR")
    if resume and fresh:
        raise RequestError("--resume and --fresh exclude each other")
    if resume and to is not None and not _begun(to, seeds):
        raise TrainingError(f"{to} holds no checkpoint to resume from")
    files = [str(file or "") for file in (source, target, pairs, text)]
    given = CorpusConfig(source=files[0], target=files[1], pairs=files[2], text=files[3])
    settings_ = _recipe(recipe, overrides, given, task or ("language_model" if text else None))

    from glassformer.train.allocator import keep_memory
    from glassformer.train.distributed import processes as join

    keep_memory()
    with join() as together:
        if dry_run:
            _dry_run(settings_, together)
            return
        assert to is not None
        _train(settings_, to, together, seeds, allow_changes=allow_changes, fresh=fresh)


def _recipe(recipe: Path | None, overrides: Sequence[str], given: CorpusConfig, task: Task | None) -> Recipe:
    """All settings: from the file, or chosen by the size of the corpus."""
    from glassformer import settings
    from glassformer.recipe import DataConfig, Recipe
    from glassformer.text.corpus import Corpus
    from glassformer.text.sources import resolve
    from glassformer.train.defaults import default_recipe, family_recipe, must_end, with_languages

    if problems := given.problems():
        raise ConfigError(problems)
    if recipe is None:
        data = [override for override in overrides if override.startswith("data.")]
        corpora = (given,) if given.given else ()
        chosen = settings.change(DataConfig(corpora=corpora), [o.removeprefix("data.") for o in data])
        if not chosen.corpora:
            raise ConfigError(
                "nothing to train on: give --source FILE --target FILE, or --pairs FILE, or --text FILE, "
                "or a recipe"
            )
        if task is not None and task != "translate":
            return must_end(family_recipe(task, chosen, overrides))
        chosen = with_languages(chosen)
        found = default_recipe(chosen, Corpus(resolve(chosen)).count(), overrides)
    else:
        found = settings.read(Recipe, recipe, [*([f"task={task}"] if task else []), *overrides])
        if given.given:
            found = replace(found, data=replace(found.data, corpora=(given,)))
        if not found.data.corpora:
            raise ConfigError(
                "data.corpora is empty: name files there, or give --source and --target", recipe
            )
        found = replace(found, data=with_languages(found.data))
    return must_end(found)


def _begun(to: Path, seeds: int) -> bool:
    places = [to] if seeds == 1 else to.glob("seed-*")
    return any(any((place / "checkpoints").glob("step-*")) for place in places)


def _train(
    recipe: Recipe, to: Path, together: Processes, seeds: int, *, allow_changes: bool, fresh: bool
) -> None:
    from glassformer.train.run import train as run

    if seeds == 1:
        run(recipe, to, processes=together, allow_changes=allow_changes, fresh=fresh)
        return
    results = []
    for seed in range(recipe.train.seed, recipe.train.seed + seeds):
        if together.first:
            print(f"\n--- seed {seed} ---")
        own = replace(recipe, train=replace(recipe.train, seed=seed))
        results.append(
            run(own, to / f"seed-{seed}", processes=together, allow_changes=allow_changes, fresh=fresh)
        )
    if together.first:
        _compare(results, to)
        if recipe.task == "translate":
            first, *others = (result.path.parent for result in results)
            rest = " ".join(f"--ensemble {other}" for other in others)
            print(f'try them together:  glass translate --model {first} {rest} "…"')


def _compare(results: Sequence[Result], to: Path) -> None:
    """Mean and spread over seeds, on the screen and in seeds.json."""
    import json

    scores: dict[str, dict[str, float]] = {"perplexity": {}, "BLEU": {}, "accuracy": {}}
    for result in results:
        if result.validation is not None:
            scores["perplexity"][result.path.parent.name] = result.validation.perplexity
            if result.validation.bleu is not None:
                scores["BLEU"][result.path.parent.name] = result.validation.bleu
            if result.validation.accuracy is not None:
                scores["accuracy"][result.path.parent.name] = 100 * result.validation.accuracy
    summary: dict[str, dict[str, object]] = {}
    for name, by_run in scores.items():
        values = list(by_run.values())
        if values:
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            mean = statistics.mean(values)
            summary[name] = {"mean": mean, "standard_deviation": spread, "runs": by_run}
            runs = ", ".join(f"{value:.2f}" for value in values)
            print(f"{name}: {mean:.2f} ± {spread:.2f} (mean and standard deviation of {runs})")
    (to / "seeds.json").write_text(json.dumps(summary, indent=1), "utf-8")


def _dry_run(recipe: Recipe, together: Processes) -> None:
    """Prepare in a directory that goes away, and measure."""
    from glassformer.train.prepare import prepare
    from glassformer.train.probe import dry_run

    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        prepared = prepare(recipe, Path(folder), say=print)
        print(dry_run(prepared, together))
