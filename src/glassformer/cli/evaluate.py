"""`glass evaluate`: score translations, with intervals, and test one system against another."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from glassformer.errors import DataError, RequestError

SEVERAL = Parameter(consume_multiple=True, negative=())

if TYPE_CHECKING:
    from glassformer.evaluate import Report


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class What:
    """The files, or the model."""

    reference: Annotated[list[Path], SEVERAL] = field(default_factory=list)
    """what counts as right, a sentence a line; give several files, and any of their lines may match"""
    hypotheses: Path | None = None
    """translations to score"""
    against: Path | None = None
    """translations of a second system, tested against the first on the same sentences"""
    model: str = ""
    """a bundle that translates --source first"""
    ensemble: Annotated[list[str], SEVERAL] = field(default_factory=list)
    """more bundles of the same vocabulary that answer together with it, the probabilities of all averaged"""
    source: Path | None = None
    """what the model translates"""
    text: Path | None = None
    """plain text whose perplexity a language model is asked for"""
    pairs: Path | None = None
    """a .tsv of texts and labels that a classifier or tagger is measured by"""
    context: int = 256
    """tokens that a language model reads at once; every token sees at least half as many before it"""
    beams: int | None = None
    """beam size of the model's search"""
    length_penalty: float | None = None
    """length penalty of the model's search"""
    alternatives: str = ""
    r"""what separates several right answers in one line of the reference, such as \t"""
    errors: Literal["strict", "replace"] = "strict"
    """bytes that are not UTF-8: stop and say where, or put U+FFFD in their place"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class How:
    """The metrics and the output."""

    metric: Annotated[list[str], SEVERAL] = field(default_factory=list)
    """bleu, chrf, chrf++, ter, exact, token_error, phone_error, word_error, character_error, line_error;
    several may be given (default: bleu, chrf, ter)"""
    language: str = ""
    """code of the target language; decides how BLEU splits text (a model knows its own)"""
    tokenize: str = ""
    """BLEU's tokenizer instead (13a, intl, zh, char, …); none for text that is tokenised already"""
    lowercase: Annotated[bool, Parameter(negative=())] = False
    """ignore upper and lower case"""
    ignore: str = ""
    """a regular expression; what matches it is left out on all sides, such as '[0-2]' for stress marks.
    Translations of the model's beam that differ only there count as one, their probabilities added up"""
    bootstrap: int = 1000
    """resamples for the intervals and the test; 0 for none"""
    seed: int = 12345
    """of the resamples"""
    sentences: Path | None = None
    """save each sentence with its scores: a .tsv or .jsonl file"""
    translations: Path | None = None
    """save what the model translated (without what --ignore leaves out)"""
    json: Annotated[bool, Parameter(negative=())] = False
    """print JSON for scripts"""


def evaluate(what: What = What(), how: How = How()) -> None:  # noqa: B008 - frozen
    """Score --hypotheses, or what --model makes of --source, against --reference.

    A language model's perplexity of --text; the accuracy of labels on --pairs.
    """
    if what.text is not None or what.pairs is not None:
        if what.ensemble:
            raise RequestError("--ensemble: only models that translate can answer together")
        _family(what)
        return
    if not what.reference:
        raise RequestError("give --reference FILE; or --text or --pairs for models that do not translate")
    from glassformer import evaluate as scoring
    from glassformer.text.lines import read_lines, write_lines

    if what.ensemble and not what.model:
        raise RequestError("--ensemble adds to a model: name the first one with --model DIR")
    if bool(what.model) == (what.hypotheses is not None):
        raise RequestError("give either --hypotheses FILE to score, or --model DIR with --source FILE")
    if how.sentences is not None:
        scoring.check_sentence_file(how.sentences)  # before the work, not after it
    references = _references(what)
    if what.hypotheses is not None:
        said, language, name = list(read_lines(what.hypotheses, what.errors)), "", str(what.hypotheses)
    else:
        said, language, name = _translate(what, len(references), how.ignore)
        if how.translations is not None:
            write_lines(how.translations, said)
    report = scoring.evaluate(
        said,
        references,
        metrics=how.metric or scoring.DEFAULT_METRICS,
        target_language=how.language or language,
        tokenize=how.tokenize,
        lowercase=how.lowercase,
        ignore=how.ignore,
        against=None if what.against is None else list(read_lines(what.against, what.errors)),
        bootstrap=how.bootstrap,
        seed=how.seed,
        names=(name, str(what.reference[0]), str(what.against)),
    )
    if how.sentences is not None:
        report.save(how.sentences)
    _show(report, how.json)


def _family(what: What) -> None:
    """Perplexity for language models, accuracy for labels."""
    from glassformer.bundle import load_reader
    from glassformer.label import Labeller, accuracy
    from glassformer.recipe import CorpusConfig
    from glassformer.text.lines import read_lines
    from glassformer.text.pairs import read_pairs
    from glassformer.train.family_validate import perplexity

    if not what.model:
        raise RequestError("say whose perplexity or accuracy it should be: --model DIR")
    if what.text is not None:
        bundle = load_reader(what.model, ("language_model",))
        print(perplexity(bundle, read_lines(what.text, what.errors), what.context).text())
    if what.pairs is not None:
        pairs = list(read_pairs(CorpusConfig(pairs=str(what.pairs)), what.errors))
        print(accuracy(Labeller.load(what.model), [pair for pair in pairs if pair[0]]).text())


def _translate(what: What, expected: int, ignore: str) -> tuple[list[str], str, str]:
    """The model's translations, its target language, and what to call them."""
    if what.source is None:
        raise RequestError("--model needs --source FILE: what should it translate?")
    from glassformer.text.lines import read_lines

    lines = list(read_lines(what.source, what.errors))
    if len(lines) != expected:  # said before the work, not after it
        raise DataError(
            f"{what.source} has {len(lines)} lines, {what.reference[0]} has {expected}: "
            "each line of one belongs to the same line of the other"
        )
    from glassformer.evaluate import without
    from glassformer.translate import Options, load
    from glassformer.translation import likeliest

    form = without(ignore)
    options: Options = {}
    if what.beams is not None:
        options["beams"] = what.beams
    if what.length_penalty is not None:
        options["length_penalty"] = what.length_penalty
    translator = load(what.model, ensemble=what.ensemble)
    if ignore:
        options["n_best"] = options.get("beams", translator.bundle.config.search.beams)
    found = translator.translate(lines, **options)
    language = translator.bundle.config.target_language
    said = [likeliest(one, form) if ignore else one.text for one in found]
    return said, language, f"the translation of {what.source}"


def _references(what: What) -> list[list[str]]:
    """All that counts as right, sentence by sentence."""
    from glassformer.text.lines import read_lines

    separator = what.alternatives.replace("\\t", "\t")
    files = [list(read_lines(path, what.errors)) for path in what.reference]
    for path, lines in zip(what.reference, files, strict=True):
        if len(lines) != len(files[0]):
            raise DataError(
                f"{what.reference[0]} has {len(files[0])} lines, {path} has {len(lines)}: they must match"
            )
    return [
        [part for line in row for part in (line.split(separator) if separator else [line])]
        for row in zip(*files, strict=True)
    ]


def _show(report: Report, as_json: bool) -> None:
    """JSON on request, a table on a terminal, plain lines on a pipe."""
    if as_json:
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    elif sys.stdout.isatty():
        _show_tables(report)
    else:
        print(report.text())


def _show_tables(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"{len(report.sentences)} sentences")
    for heading in ("metric", "score", "95% interval", "better"):
        table.add_column(heading, justify="right" if heading in ("score", "95% interval") else "left")
    for score in report.scores:
        interval = "" if score.low is None else f"{score.low:.2f} to {score.high:.2f}"
        direction = "higher" if score.higher_is_better else "lower"
        table.add_row(score.label, f"{score.value:.2f}", interval, direction)
    console.print(table)
    if report.comparisons:
        test = Table(title="against the other system (paired bootstrap)")
        for heading in ("metric", "this", "other", "difference", "95% interval", "p"):
            test.add_column(heading, justify="left" if heading == "metric" else "right")
        for other in report.comparisons:
            interval = f"{other.low:+.2f} to {other.high:+.2f}"
            cells = (f"{other.first:.2f}", f"{other.second:.2f}", f"{other.difference:+.2f}")
            test.add_row(other.label, *cells, interval, f"{other.p_value:.4f}")
        console.print(test)
    for score in report.scores:
        console.print(f"{score.label}: {score.signature}", markup=False, highlight=False, soft_wrap=True)
    for note in report.notes:
        console.print(f"note: {note}", markup=False)
