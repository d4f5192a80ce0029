"""Text in, text out: the Translator.

    translator = glassformer.load("my-model")
    translator.translate("Hello, world.").text
    for translation in translator.translate_lines(open("book.txt")):
        print(translation.text)

A Translator may be used from several threads at once. Order in is order out, blank stays blank, a text longer
than the model can take is split, and whatever was not quite right is said in `notes`.
"""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, get_args, overload

import torch

from glassformer import settings
from glassformer.align import align, spans_of_ids
from glassformer.bundle import CONFIG, Bundle, shipped
from glassformer.config import BundleConfig
from glassformer.engine import Engine, TorchEngine, watched
from glassformer.errors import FormatError, GlassformerError, MissingExtraError, RequestError
from glassformer.model.ensemble import Ensemble
from glassformer.options import Options, prefixes_of, search_options
from glassformer.search.repeats import find_run, kept_without_repeats
from glassformer.search.scoring import Hypothesis, SearchOptions, length_factor
from glassformer.translation import Note, Part, Translation, joined, joint, one_line, prepare, read
from glassformer.workers import workers_for

__all__ = ["Note", "Options", "Translation", "Translator", "choose_shipped", "load"]

WINDOW = 1024
"""lines that are sorted by length and translated together"""

EngineName = Literal["auto", "torch", "ctranslate2", "ctranslate2-int8"]
"""int8 rounds the weights, so some texts differ: it is never chosen by itself"""


class Translator:
    """Translates texts, lists and streams with one bundle, or with several that answer together.

    `threads` batches are translated at a time, each on one processor thread; 0 is one for each core.
    The `others` must have the same vocabulary; the settings of the search are the bundle's.
    """

    def __init__(
        self,
        bundle: Bundle,
        engine: EngineName = "auto",
        device: str | torch.device | None = None,
        threads: int = 0,
        others: Sequence[Bundle] = (),
    ) -> None:
        self.bundle, self.others = bundle, tuple(others)
        model = _together(bundle, others) if others else bundle.model
        if device is not None:
            model.to(device)
        model.eval()
        workers = workers_for(model.output_weight.device, threads)
        self.torch_engine = TorchEngine(model, workers=workers)
        self._wanted = engine
        self._engine, self._why = _make_engine(engine, bundle, self.torch_engine, workers)

    def engine_for(self, **options: Unpack[Options]) -> tuple[Engine, str]:
        """Which engine does this, and why."""
        return self._engine_for(search_options(self.bundle.config, options))

    def _engine_for(self, options: SearchOptions) -> tuple[Engine, str]:
        reason = self._engine.refuses(options)
        if self._engine is not self.torch_engine and watched():
            reason = "a recorder listens, or heads are switched off, and only our own model has an inside"
        if not reason:
            return self._engine, self._why
        if self._wanted != "auto":
            raise RequestError(f"engine {self._engine.name} can't do this: {reason}; use engine torch")
        return self.torch_engine, f"{self._engine.name} can't do this: {reason}"

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is an Iterable[str] too: the first one wins
        self, text: str, **options: Unpack[Options]
    ) -> Translation: ...

    @overload
    def translate(self, text: Iterable[str], **options: Unpack[Options]) -> list[Translation]: ...

    def translate(
        self, text: str | Iterable[str], **options: Unpack[Options]
    ) -> Translation | list[Translation]:
        """One text, or a list of texts; `Options` says what can be asked."""
        found = self._windows([text] if isinstance(text, str) else text, WINDOW, options)
        return next(found) if isinstance(text, str) else list(found)

    def translate_lines(
        self, lines: Iterable[str], *, window: int = WINDOW, **options: Unpack[Options]
    ) -> Iterator[Translation]:
        """Any stream, in bounded memory: `window` lines are read and translated together, order is kept.

        A line may still have its end, as an open file gives it; its translation has none.
        """
        bare = (
            line.removesuffix("\n").removesuffix("\r") if isinstance(line, str) else line for line in lines
        )
        return self._windows(bare, window, options)

    def _windows(self, texts: Iterable[str], window: int, options: Options) -> Iterator[Translation]:
        """Refuse senseless options at once, not when the first translation is asked for."""
        search = search_options(self.bundle.config, options)
        engine, _ = self._engine_for(search)
        return self._in_windows(enumerate(texts), window, engine, search, options)

    def _in_windows(
        self,
        lines: Iterator[tuple[int, str]],
        window: int,
        engine: Engine,
        search: SearchOptions,
        options: Options,
    ) -> Iterator[Translation]:
        prefixes = prefixes_of(options.get("prefix"))
        trouble: GlassformerError | None = None
        while trouble is None:
            texts: list[tuple[int, str]] = []
            try:
                for number, text in itertools.islice(lines, window):
                    if not isinstance(text, str):
                        raise RequestError(
                            f"text {number} is {type(text).__name__}, not a string: {text!r:.80}"
                        )
                    texts.append((number, text))
            except GlassformerError as error:
                trouble = error  # a line that can't be read: what came before it is translated first
            if not texts:
                break
            begins = list(itertools.islice(prefixes, len(texts)))
            yield from self._window(texts, begins, engine, search, options)
        if trouble is not None:
            raise trouble

    def _window(
        self,
        texts: Sequence[tuple[int, str]],
        prefixes: Sequence[str],
        engine: Engine,
        search: SearchOptions,
        options: Options,
    ) -> list[Translation]:
        """Translate some lines together."""
        if len(prefixes) != len(texts):
            raise RequestError("as many prefixes as texts are needed, or a single one for all")
        tokenizers = self.bundle.tokenizers
        lines = prepare([text for _, text in texts], tokenizers.source, self._limit - 1)
        begins = tokenizers.target.encode_batch(prefixes) if any(prefixes) else [[]] * len(texts)
        jobs: list[Part] = []
        for (number, _), line, begin in zip(texts, lines, begins, strict=True):
            parts = [part for part in line.parts if part.text]
            for at, part in enumerate(parts):
                part.prefix = begin if at == 0 else []
                part.longest = self._longest(part, search)
                if search.sampling:
                    part.seed = random.Random(f"{options.get('seed', 0)} {number} {at}").getrandbits(63)
            jobs += parts
        found = list(zip(jobs, _translate_parts(jobs, engine, search), strict=True))
        for part, hypotheses in found:
            if isinstance(hypotheses, Note):
                part.found = [Translation(part.text, "", notes=[hypotheses])]
        read([(part, one) for part, one in found if not isinstance(one, Note)], tokenizers.target)
        if options.get("align"):
            self._align([(part.text, part.ids, one) for part in jobs for one in part.found])
        return [joined(line, search.length_penalty, search.penalty) for line in lines]

    @property
    def _limit(self) -> int:
        return self.torch_engine.model.max_length

    def _longest(self, part: Part, search: SearchOptions) -> int:
        """Most tokens of a part's translation, its end included."""
        longest = min(search.max_length or 2 * len(part.ids) + 32, self._limit)
        least = max(len(part.prefix), search.min_length) + 1
        if least > self._limit:
            raise RequestError(
                f"a prefix or min_length of {least - 1} tokens; the model takes {self._limit - 1}"
            )
        return max(longest, least)

    def _align(self, pairs: Sequence[tuple[str, Sequence[int], Translation]]) -> None:
        """Add the alignment to each translation of a (text, ids); always done by our own model."""
        tokenizers = self.bundle.tokenizers
        weights = self.torch_engine.attention([ids for _, ids, _ in pairs], [one.ids for *_, one in pairs])
        for (source, _, one), weights_TS in zip(pairs, weights, strict=True):
            source_spans = [(token.start, token.end) for token in tokenizers.source.tokens(source)]
            target_spans = spans_of_ids(one.ids, tokenizers.target.decode)
            one.alignment = align(weights_TS, source, source_spans, one.text, target_spans)

    def stream(self, text: str, **options: Unpack[Options]) -> Iterator[str]:
        """The translation as it grows. What is shown stays, but for a repetition that is cut in the end.

        With several beams only what they agree on is shown: the last text is what `translate` gives.
        """
        search = search_options(self.bundle.config, options)
        prefix = options.get("prefix") or ""
        if search.sampling or search.n_best > 1 or options.get("align") or not isinstance(prefix, str):
            raise RequestError("a stream is one growing text: no sampling, no n_best, no align, one prefix")
        tokenizers = self.bundle.tokenizers
        [line] = prepare([text], tokenizers.source, self._limit - 1)
        [begin] = tokenizers.target.encode_batch([prefix])
        done, shown = "", None
        for part in line.parts:
            done += joint(done, part)
            if not part.text:
                continue
            part.prefix, begin = begin, []
            part.longest = self._longest(part, search)
            ids: list[int] = []
            for ids in self.torch_engine.stream_ids(
                part.ids, search, max_length=part.longest, prefix=part.prefix
            ):
                said = one_line(tokenizers.target.decode(ids)).rstrip("\N{REPLACEMENT CHARACTER}")
                if len(done + said) > len(shown or "") and find_run(ids) is None:
                    shown = done + said
                    yield shown
            kept, _ = kept_without_repeats(ids, part.ids)
            done += one_line(tokenizers.target.decode([ids[place] for place in kept]))
        if done != shown:
            yield done

    @overload
    def score(  # type: ignore[overload-overlap]
        self, source: str, target: str, *, align: bool = False
    ) -> Translation: ...

    @overload
    def score(
        self, source: Sequence[str], target: Sequence[str], *, align: bool = False
    ) -> list[Translation]: ...

    def score(
        self, source: str | Sequence[str], target: str | Sequence[str], *, align: bool = False
    ) -> Translation | list[Translation]:
        """How likely the model finds a given translation, token by token (forced scoring)."""
        if isinstance(source, str) or isinstance(target, str):
            if not (isinstance(source, str) and isinstance(target, str)):
                raise RequestError("source and target must both be texts, or both be lists of texts")
            return self.score([source], [target], align=align)[0]
        if len(source) != len(target):
            raise RequestError(f"{len(source)} sources, but {len(target)} targets")
        tokenizers, search = self.bundle.tokenizers, self.bundle.config.search
        sources, targets = tokenizers.source.encode_batch(source), tokenizers.target.encode_batch(target)
        for side, rows in (("source", sources), ("target", targets)):
            for number, ids in enumerate(rows):
                if len(ids) >= self._limit:
                    raise RequestError(
                        f"{side} {number} has {len(ids)} tokens, but the model takes {self._limit - 1}"
                    )
        found = []
        log_probs = self.torch_engine.score_ids(sources, targets)
        for text, said, ids, each in zip(source, target, targets, log_probs, strict=True):
            score = sum(each) / length_factor(len(each), search.length_penalty, search.penalty)
            found.append(Translation(text, said, sum(each), score, ids, tokenizers.target.pieces(ids), each))
        if align:
            self._align(list(zip(source, sources, found, strict=True)))
        return found

    def look(self, text: str, **options: Any) -> Any:
        """The inspection page of a sentence, as a notebook shows it: see `glassformer.look.look`."""
        return importlib.import_module("glassformer.look").look(self, text, **options)


def load(
    path_or_name: str | Path,
    engine: EngineName = "auto",
    device: str | torch.device | None = None,
    threads: int = 0,
    ensemble: Sequence[str | Path] = (),
) -> Translator:
    """A Translator from a bundle's directory, or from the name of a bundle that the package brings.

    The bundles of an `ensemble` answer together with it: the probabilities of all are averaged.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    bundle, *others = (Bundle.load(path, device=device) for path in (path_or_name, *ensemble))
    return Translator(bundle, engine, threads=threads, others=others)


def choose_shipped(source_language: str = "", target_language: str = "") -> Path:
    """The bundle in the package for these languages; English to Spanish if none are named."""
    if not source_language and not target_language:
        source_language, target_language = "en", "es"
    offers = {path: settings.read(BundleConfig, path / CONFIG) for path in shipped().values()}
    for path, config in offers.items():
        if speaks(config, source_language, target_language):
            return path
    wanted = f"{source_language or 'any language'} to {target_language or 'any language'}"
    pairs = ", ".join(f"{config.source_language} to {config.target_language}" for config in offers.values())
    there = f"there is {pairs}" if pairs else "the package brings no model"
    raise RequestError(f"no model from {wanted}: {there}; name one with --model")


def speaks(config: BundleConfig, source_language: str, target_language: str) -> bool:
    """Does a bundle translate between these? Nothing asked is anything; zh-Hans and zh are the same."""
    pairs = ((source_language, config.source_language), (target_language, config.target_language))
    return all(not wanted or _base(wanted) == _base(has) for wanted, has in pairs)


def _base(language: str) -> str:
    return language.replace("_", "-").split("-")[0].lower()


def _together(bundle: Bundle, others: Sequence[Bundle]) -> Ensemble:
    """The models of these bundles as one; they must mean the same by a token's number."""

    def tokens(one: Bundle) -> object:
        return one.tokenizers.fingerprint(), one.model.vocabulary

    for other in others:
        if tokens(other) != tokens(bundle):
            raise RequestError(
                f"{bundle.path} and {other.path} can't answer together, for their vocabularies differ: "
                "train them on the same data, each with a train.seed of its own"
            )
    return Ensemble([bundle.model, *(other.model for other in others)])


def _make_engine(wanted: EngineName, bundle: Bundle, own: TorchEngine, workers: int) -> tuple[Engine, str]:
    """The engine to use, and why. Other engines live in `formats`, beside their converters."""
    if wanted == "torch":
        return own, "asked for"
    if wanted not in get_args(EngineName):
        raise RequestError(f"engine = {wanted!r}: choose {' | '.join(get_args(EngineName))}")
    if isinstance(own.model, Ensemble):
        if wanted != "auto":
            raise RequestError(f"engine {wanted} can't do this: it takes a single model; use engine torch")
        return own, "several models answer together, which only our own search can do"
    try:
        from glassformer.formats.ctranslate2_engine import load_engine

        engine = load_engine(bundle, workers, "int8" if wanted == "ctranslate2-int8" else "float32")
    except (FormatError, MissingExtraError) as error:
        if wanted != "auto":
            raise
        return own, f"ctranslate2 can't be used: {error}"
    return engine, "the fastest that is installed" if wanted == "auto" else "asked for"


def _translate_parts(
    parts: Sequence[Part], engine: Engine, search: SearchOptions
) -> Sequence[list[Hypothesis] | Note]:
    """The hypotheses of each part. If a batch fails, each part is tried alone: one never loses the others."""
    if not parts:
        return []
    try:
        return engine.translate_ids(
            [part.ids for part in parts],
            search,
            max_lengths=[part.longest for part in parts],
            prefixes=[part.prefix for part in parts] if any(part.prefix for part in parts) else None,
            seeds=[part.seed for part in parts] if search.sampling else None,
        )
    except GlassformerError:
        raise
    except Exception as error:
        if len(parts) == 1:
            raise
        found: list[list[Hypothesis] | Note] = []
        for part in parts:
            try:
                found += _translate_parts([part], engine, search)
            except Exception as reason:
                found.append(Note("error", f"not translated: {type(reason).__name__}: {reason}"))
        if all(isinstance(one, Note) for one in found):
            raise error from None
        return found
