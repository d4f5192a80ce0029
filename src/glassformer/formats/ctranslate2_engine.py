"""CTranslate2 as the engine of `glass translate` and `glass serve`, and the cache of bundles it runs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer import settings
from glassformer.bundle import Bundle, weights_of
from glassformer.engine import TorchEngine
from glassformer.errors import BundleError, FormatError
from glassformer.formats.ctranslate2 import (
    CALL,
    COARSE,
    Names,
    Quantization,
    multiplies_int8,
    refuse,
    require_ctranslate2,
    write_proved,
)
from glassformer.formats.proof import Ids
from glassformer.search.scoring import Hypothesis, Later, SearchOptions, length_factor
from glassformer.text.packages import cache_directory
from glassformer.weights import atomic_directory
from glassformer.workers import workers_for

Named = tuple[list[str], float]
"""the tokens of a hypothesis by name, its end included, and its score"""

CONVERTER = 1
"""goes up when the files that the same bundle gives change: then nothing old is taken from the cache"""
HASHES = "sha256.json"
SCORED_TOGETHER = 256
"""tokens: larger batches fall out of the processor's cache, for logits of all places are made at once"""
LEAST_SHARE = 64
"""tokens: batches smaller than this are not made smaller still to keep another worker busy"""
KEPT = 8
"""converted models in the cache, at most"""


def load_engine(
    bundle: Bundle, threads: int = 0, quantization: Quantization = "float32"
) -> CTranslate2Engine:
    """An engine for a bundle, which is converted when it is first seen and kept in the cache.

    `threads` batches are translated at a time, each on one processor thread; 0 is one for each core.
    """
    require_ctranslate2("engine ctranslate2")
    refuse(bundle)
    if quantization == "int8" and not multiplies_int8():
        warnings.warn(COARSE, stacklevel=2)
    device = bundle.model.output_weight.device
    if device.type != "cpu":
        raise FormatError(f"engine ctranslate2 runs on the processor, but this model is on {device}")
    return CTranslate2Engine(bundle, cached(bundle, quantization), workers_for(device, threads))


class CTranslate2Engine:
    """Translates ids with CTranslate2. In float32 it gives what our own search gives, or refuses."""

    name = "ctranslate2"

    def __init__(self, bundle: Bundle, directory: Path, workers: int, batch_tokens: int = 1024) -> None:
        ctranslate2 = require_ctranslate2("engine ctranslate2")
        self._names, self._eos = Names(bundle), bundle.config.vocabulary.eos
        self._workers, self._batch_tokens = workers, batch_tokens
        self._translator = ctranslate2.Translator(
            str(directory), compute_type="default", inter_threads=workers, intra_threads=1
        )
        self._torch = TorchEngine(bundle.model, workers=workers)

    def refuses(self, options: SearchOptions) -> str:
        if options.sampling:
            return "it draws other random numbers"
        if options.stop != "beam_finished":
            return f"it has no stop = '{options.stop}'"
        if options.penalty != "length":
            return f"it has no penalty = '{options.penalty}'"
        if options.min_length or options.no_repeat_ngram:
            return "it shares out the probability of forbidden tokens (min_length, no_repeat_ngram)"
        return ""

    def translate_ids(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        max_lengths: Sequence[int],
        prefixes: Sequence[Ids] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """As the protocol says. Forced prefixes, which it scores in another way, go to our own search."""
        if prefixes is not None and any(prefixes):
            return self._torch.translate_ids(sources, options, max_lengths=max_lengths, prefixes=prefixes)
        found = self._search(sources, options, max_lengths)
        best = [
            [self._hypothesis(*one, options.length_penalty) for one in result[: options.n_best]]
            for result in found
        ]
        self._promise_token_log_probs(sources, best)
        return best

    def _search(
        self, sources: Sequence[Ids], options: SearchOptions, max_lengths: Sequence[int]
    ) -> list[list[Named]]:
        """The hypotheses of each source. It takes one maximum for all of them: a sentence that came near its
        own is searched again with that."""
        most = max(max_lengths, default=1)
        alike = all(longest == most for longest in max_lengths)
        count = options.n_best if alike else options.beams
        found = _named(self._ask(sources, options, most, count))
        again: dict[int, list[int]] = {}
        for place, longest in enumerate(max_lengths):
            if longest < most and not _ended_before(longest, found[place], options.beams):
                again.setdefault(longest, []).append(place)
        asked = [
            (places, self._ask([sources[place] for place in places], options, longest, count))
            for longest, places in again.items()
        ]
        for places, results in asked:
            for place, result in zip(places, _named(results), strict=True):
                found[place] = result
        return found

    def _ask(self, sources: Sequence[Ids], options: SearchOptions, longest: int, count: int) -> list[Any]:
        """Begin a search; its results are waited for when they are read. Nothing is asked for that costs."""
        results: list[Any] = self._translator.translate_batch(
            self._names.of_sources(sources),
            beam_size=options.beams,
            num_hypotheses=count,
            # Exactly 0 has a stop rule of its own there: the best hypothesis must have ended.
            length_penalty=options.length_penalty or 1e-9,
            max_decoding_length=longest,
            max_batch_size=self._tokens_at_once(sources),
            batch_type="tokens",
            return_scores=True,
            asynchronous=True,
            **CALL,
        )
        return results

    def _tokens_at_once(self, sources: Sequence[Ids]) -> int:
        """Full batches if there are enough of them for all workers; else everybody gets a share."""
        lengths = [len(source) + 1 for source in sources] or [1]
        share = sum(lengths) // self._workers + max(lengths)
        return min(self._batch_tokens, max(share, LEAST_SHARE))

    def _hypothesis(self, names: Sequence[str], score: float, alpha: float) -> Hypothesis:
        ids = self._names.ids(names)
        finished = not ids or ids[-1] == self._eos  # nothing in, nothing out: that is an end, too
        log_prob = score * float(length_factor(len(ids), alpha)) if ids else 0.0
        return Hypothesis(ids[:-1] if finished else ids, log_prob, score, [], finished)

    def _promise_token_log_probs(self, sources: Sequence[Ids], best: Sequence[Sequence[Hypothesis]]) -> None:
        """The search gives sums only. All that was chosen is read once more when somebody asks for a part."""
        chosen = [(source, one) for source, row in zip(sources, best, strict=True) if source for one in row]
        pairs = [(source, one.tokens, len(one.tokens) + one.finished) for source, one in chosen]
        once = functools.cache(lambda: self._token_log_probs(pairs))
        for place, (_, one) in enumerate(chosen):
            one.token_log_probs = Later(pairs[place][2], lambda place=place: once()[place])  # type: ignore[misc]

    def _token_log_probs(self, pairs: Sequence[tuple[Ids, Ids, int]]) -> list[list[float]]:
        """For each source and target: the log-probabilities of so many tokens, the end included."""
        results = self._translator.score_batch(
            self._names.of_sources([source for source, _, _ in pairs]),
            self._names.of_targets([target for _, target, _ in pairs]),
            max_input_length=0,
            max_batch_size=SCORED_TOGETHER,
            batch_type="tokens",
        )
        return [list(result.log_probs[:count]) for (_, _, count), result in zip(pairs, results, strict=True)]


def _named(results: Sequence[Any]) -> list[list[Named]]:
    """Read each result once: every look at a field of it copies the field."""
    finished = [result.result() for result in results]
    return [list(zip(result.hypotheses, result.scores, strict=True)) for result in finished]


def _ended_before(longest: int, hypotheses: Sequence[Named], beams: int) -> bool:
    """The search was over before a maximum of `longest` could have changed it."""
    return len(hypotheses) == beams and max(len(names) for names, _ in hypotheses) < longest


# --- the cache of converted bundles ---

_converting = threading.Lock()


def cached(bundle: Bundle, quantization: Quantization = "float32") -> Path:
    """The directory of a converted bundle: the one in the cache if it is intact, else made now."""
    place = cache_directory() / "ctranslate2" / fingerprint(bundle, quantization)
    with _converting:
        try:
            if not _intact(place):
                with atomic_directory(place) as directory:
                    write_proved(bundle, directory, quantization)
                    (directory / HASHES).write_text(json.dumps(_file_hashes(directory)), "utf-8")
        except (OSError, BundleError) as error:
            raise FormatError(f"{place} can't be written: {error}; set XDG_CACHE_HOME") from None
        with contextlib.suppress(OSError):  # a cache that is only read, or a process that tidies up, too
            os.utime(place)
            _drop_oldest(place.parent)
    return place


def fingerprint(bundle: Bundle, quantization: Quantization) -> str:
    """The same for the same weights, vocabulary and shape, converted in the same way."""
    version = require_ctranslate2("engine ctranslate2").__version__
    config = bundle.config
    total = hashlib.sha256(f"{CONVERTER} {version} {quantization}\n".encode())
    total.update(f"{settings.dumps(config.model)}{settings.dumps(config.vocabulary)}".encode())
    total.update(bundle.tokenizers.fingerprint().encode())
    for name, tensor in weights_of(bundle.model).items():
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _file_hashes(directory: Path) -> dict[str, str]:
    found = {}
    for path in sorted(directory.iterdir()):
        if path.name != HASHES:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _intact(directory: Path) -> bool:
    try:
        kept = json.loads((directory / HASHES).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(kept == _file_hashes(directory))


def _drop_oldest(folder: Path) -> None:
    """Models are large: only those used last stay."""
    kept = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for path in sorted(kept, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
