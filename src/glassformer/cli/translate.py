"""`glass translate`: a text, a file, or standard input line by line."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.errors import DataError, RequestError

if TYPE_CHECKING:
    from glassformer.translate import Options, Translation, Translator

FLAG = Parameter(negative=())


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """What is translated, and by which model."""

    input: Annotated[Path | None, Parameter(alias="-i")] = None
    """a file of lines (plain or .gz); left out, standard input is read"""
    output: Annotated[Path | None, Parameter(alias="-o")] = None
    """a file for the translations; left out, they are printed"""
    model: Annotated[str, Parameter(alias="-m")] = ""
    """a bundle's directory or name; left out, one that the package brings"""
    ensemble: Annotated[list[str], Parameter(negative=())] = field(default_factory=list)
    """another bundle of the same vocabulary that answers together with --model: the probabilities of all
    are averaged; give it once for each"""
    from_: Annotated[str, Parameter(name="--from")] = ""
    """code of the language to translate from"""
    to: str = ""
    """code of the language to translate into"""
    engine: Literal["auto", "torch", "ctranslate2", "ctranslate2-int8"] = "auto"
    """auto takes the fastest that is installed and can do what is asked; int8 is faster, but rounds"""
    threads: int = 0
    """batches translated at the same time, each on one processor thread; 0 is one for each core"""
    errors: Literal["strict", "replace"] = "strict"
    """bytes that are not UTF-8: stop and say where, or put U+FFFD in their place"""
    line_buffered: Annotated[bool, FLAG] = False
    """translate each line as it comes, as on a terminal; slower on many lines"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class How:
    """How translations are looked for; what is left out is as the model says."""

    beams: int | None = None
    """hypotheses kept at each step; 1 is greedy search"""
    n_best: int | None = None
    """print so many translations of each line, numbered, best first"""
    length_penalty: float | None = None
    """α: larger favours longer translations"""
    penalty: Literal["length", "wu"] | None = None
    """log p / length^α, or log p / ((5 + length) / 6)^α"""
    stop: Literal["beam_finished", "exact"] | None = None
    """exact goes on until no better translation can come"""
    min_length: int | None = None
    """fewest tokens"""
    max_length: int | None = None
    """most tokens; 0 means 2 × source + 32"""
    no_repeat_ngram: int | None = None
    """never say the same n tokens twice"""
    prefix: str | None = None
    """what every translation has to begin with"""
    sampling: Annotated[bool, Parameter(name=("--sample", "--sampling"), negative=())] = False
    """draw at random instead"""
    temperature: float | None = None
    """with --sample: below 1 makes likely words likelier"""
    top_k: int | None = None
    """with --sample: draw from the k likeliest tokens"""
    top_p: float | None = None
    """with --sample: draw from the fewest tokens that hold this share of the probability"""
    seed: int | None = None
    """with --sample: the same seed gives the same draws"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Show:
    """What is printed."""

    scores: Annotated[bool, FLAG] = False
    """the score before each translation: log-probability after the length penalty"""
    align: Annotated[bool, FLAG] = False
    """after each translation, which source word (from 0) each of its words came from: 0-0 1-2"""
    json: Annotated[bool, FLAG] = False
    """a JSON object for each line, with everything there is to say about it"""
    verbose: Annotated[bool, Parameter(alias="-v", negative=())] = False
    """say which engine is used, and why"""


def translate(*text: str, where: Where = Where(), how: How = How(), show: Show = Show()) -> None:  # noqa: B008
    """Translate TEXT, or the lines of --input, or of standard input.

    Only translations are printed, in the order of the lines; notes about them go to standard error.
    """
    if text and where.input is not None:
        raise RequestError("give either a text or --input FILE, not both")
    if where.input is not None and where.output is not None and _same(where.input, where.output):
        raise RequestError(f"--output {where.output} is the input: choose another name")
    translator, options = _translator(where), _options(how, show)
    if show.verbose:
        engine, why = translator.engine_for(**options)
        models = " + ".join(str(one.path) for one in (translator.bundle, *translator.others))
        print(f"glass: model {models}, engine {engine.name}: {why}", file=sys.stderr)
    with ExitStack() as stack:
        interactive = where.line_buffered or (not text and where.input is None and sys.stdin.isatty())
        lines = _argument(text) if text else _lines(where, stack)
        first = next(lines, None)  # a file that can't be read fails before the output is touched
        output: IO[bytes] = sys.stdout.buffer
        if where.output is not None:
            output = stack.enter_context(_open(where.output))
        whole = iter([first] if first is not None else [])
        _run(translator, _chain(whole, lines), output, options, show, window=1 if interactive else 0)


def _run(
    translator: Translator,
    lines: Iterator[tuple[str, str]],
    output: IO[bytes],
    options: Options,
    show: Show,
    window: int,
) -> None:
    """Translate and print, each line with the end it had."""
    ends: deque[str] = deque()

    def texts() -> Iterator[str]:
        for text, end in lines:
            ends.append(end)
            yield text

    from glassformer.translate import WINDOW

    found = translator.translate_lines(texts(), window=window or WINDOW, **options)
    for number, translation in enumerate(found, start=1):
        _warn(number, translation)
        rows = list(_rows(number, translation, options.get("n_best") or 1, show))
        end = ends.popleft()
        line = ((end or "\n").join(rows) + ("\n" if show.json else end)).encode("utf-8", "replace")
        output.write(line)
        if window or not ends:
            output.flush()


def _rows(number: int, best: Translation, n_best: int, show: Show) -> Iterator[str]:
    """One row, or one for each of the n-best."""
    if show.json:
        yield json.dumps(_plain(best), ensure_ascii=False)
        return
    for one in [best, *best.alternatives]:
        cells = [str(number)] if n_best > 1 else []
        if show.scores:
            cells.append(f"{one.score:.4f}")
        cells.append(one.text)
        if show.align:
            cells.append(one.alignment.pharaoh() if one.alignment else "")
        yield "\t".join(cells)


def _plain(translation: Translation) -> dict[str, Any]:
    found = dataclasses.asdict(translation)
    if translation.alignment is None:
        del found["alignment"]
    if translation.alternatives:
        found["alternatives"] = [_plain(one) for one in translation.alternatives]
    else:
        del found["alternatives"]
    return found


def _warn(number: int, translation: Translation) -> None:
    for note in translation.notes:
        print(f"glass: line {number}: {note}", file=sys.stderr)


def _translator(where: Where) -> Translator:
    from glassformer.translate import choose_shipped, load, speaks

    if where.ensemble and not where.model:
        raise RequestError("--ensemble adds to a model: name the first one with --model DIR")
    if not where.model:
        return load(choose_shipped(where.from_, where.to), where.engine, threads=where.threads)
    translator = load(where.model, where.engine, threads=where.threads, ensemble=where.ensemble)
    config = translator.bundle.config
    if not speaks(config, where.from_, where.to):
        pair = f"{config.source_language or 'unnamed'} to {config.target_language or 'unnamed'}"
        raise RequestError(
            f"{where.model} translates {pair}, not {where.from_ or 'any'} to {where.to or 'any'}"
        )
    return translator


def _options(how: How, show: Show) -> Options:
    """What was asked for, and nothing else: the rest is as the bundle says."""
    drawing = [key for key in ("temperature", "top_k", "top_p", "seed") if getattr(how, key) is not None]
    if drawing and not how.sampling:
        raise RequestError(f"--{drawing[0].replace('_', '-')} needs --sample")
    asked: Any = {
        key: value
        for key, value in dataclasses.asdict(how).items()
        if value is not None and value is not False
    }
    if show.align:
        asked["align"] = True
    options: Options = asked
    return options


def _argument(text: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield " ".join(text), "\n"


def _lines(where: Where, stack: ExitStack) -> Iterator[tuple[str, str]]:
    """Lines with their ends, from a file or from standard input."""
    from glassformer.text.lines import count_lines, decode_lines_with_ends, open_bytes

    if where.input is None:
        if sys.stdin.isatty():
            print("glass: write a line and press Enter; Ctrl-D ends", file=sys.stderr)
        return decode_lines_with_ends(sys.stdin.buffer, "standard input", where.errors)
    stream = stack.enter_context(open_bytes(where.input))
    lines = decode_lines_with_ends(stream, where.input, where.errors)
    if not sys.stderr.isatty() or (where.output is None and sys.stdout.isatty()):
        return lines
    return _with_bar(lines, count_lines(where.input))


def _with_bar(lines: Iterator[tuple[str, str]], total: int) -> Iterator[tuple[str, str]]:
    """Show on standard error how far the reading has come."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(lines, "translating", total=total, console=console, transient=True)


def _chain(first: Iterable[tuple[str, str]], rest: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield from first
    yield from rest


def _open(path: Path) -> IO[bytes]:
    try:
        return open(path, "wb")
    except OSError as error:
        raise DataError(f"can't be written: {error.strerror}", path) from None


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
