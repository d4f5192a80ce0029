"""CTranslate2: a bundle written by a converter of our own, exact in float32, and small and fast in int8.

Its encoder and decoder can be told almost every choice our model has. Two things are ours to mind: its table
of sinusoids differs from the paper's, so the table always goes along; and the padding, from which the decoder
starts, must never be said, so its output bias is -∞.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from glassformer import settings
from glassformer.bundle import CARD, Bundle, weights_of
from glassformer.config import ModelConfig
from glassformer.engine import TorchEngine
from glassformer.errors import BundleError, FormatError, MissingExtraError
from glassformer.formats.ctranslate2_weights import write
from glassformer.formats.names import token_names
from glassformer.formats.proof import LONGEST, Ids, Proof, Side, prove, sample_texts
from glassformer.search.scoring import Hypothesis, Later, SearchOptions, length_factor
from glassformer.text.packages import cache_directory
from glassformer.weights import atomic_directory
from glassformer.workers import workers_for

Quantization = Literal["float32", "int8"]
Named = tuple[list[str], float]
"""the tokens of a hypothesis by name, its end included, and its score"""

CALL: dict[str, Any] = {"min_decoding_length": 0, "max_input_length": 0, "return_end_token": True}
"""its own defaults (1, 1024, no) change results"""
CONVERTER = 1
"""goes up when the files that the same bundle gives change: then nothing old is taken from the cache"""
HASHES = "sha256.json"
SCORED_TOGETHER = 256
"""tokens: larger batches fall out of the processor's cache, for logits of all places are made at once"""
LEAST_SHARE = 64
"""tokens: batches smaller than this are not made smaller still to keep another worker busy"""
KEPT = 8
"""converted models in the cache, at most"""
COARSE = (
    "this processor has no instructions for int8: translations are rounded more coarsely here than elsewhere "
    "(docs/ENGINES.md); float32 is exact"
)


def export_bundle(
    bundle: Bundle,
    to: str | Path,
    quantization: Quantization = "float32",
    *,
    texts: Sequence[str] | None = None,
    force: bool = False,
) -> Proof:
    """Write a directory that `ctranslate2.Translator` loads; all of it, proved, or nothing."""
    to = Path(to)
    refuse(bundle)
    refuse_existing(to)
    with atomic_directory(to) as directory:
        proof = write_proved(bundle, directory, quantization, texts=texts, force=force)
        bundle.tokenizers.save(directory)
        (directory / CARD).write_text(bundle.card, "utf-8")
    return proof


def write_proved(
    bundle: Bundle,
    directory: Path,
    quantization: Quantization,
    *,
    texts: Sequence[str] | None = None,
    force: bool = False,
    side: Callable[[Bundle, Path], Side] | None = None,
) -> Proof:
    """Write the files and run them. What is proved is float32; int8 is rounding, which is only reported."""
    side = side or Converted
    require_ctranslate2("a CTranslate2 model")
    if quantization not in get_args(Quantization):
        raise FormatError(f"quantization = {quantization!r}: choose {' | '.join(get_args(Quantization))}")
    source = bundle.tokenizers.source
    texts = [text for text in texts or sample_texts(source) if source.encode(text)]  # it skips empty input
    write(bundle, directory, "float32")
    proof = prove(bundle, side(bundle, directory), texts).check(force)
    if quantization == "float32":
        return proof
    write(bundle, directory, quantization)
    rounded = prove(bundle, side(bundle, directory), texts)
    remark = (
        f"{quantization}: {rounded.agree} of {rounded.sentences} translations stay the same, "
        f"logits move by up to {rounded.difference:.1e}"
    )
    return replace(proof, remarks=(*proof.remarks, remark, *([] if multiplies_int8() else [COARSE])))


def reasons_against(config: ModelConfig) -> list[str]:
    """All that keeps a model out of this format; none if it fits."""
    if config.architecture != "transformer":
        return [f"architecture = '{config.architecture}': only Transformers can go there"]
    found = []
    if config.score != "scaled_dot":
        found.append(f"score = '{config.score}': it only knows the scaled dot product")
    if config.query_key_norm:
        found.append("query_key_norm = true: it does not normalise the queries and keys as we do")
    if config.positions == "alibi":
        found.append("positions = 'alibi': its encoder has none")
    if config.neighbours:
        found.append(f"neighbours = {config.neighbours}: it looks tokens up one by one")
    head_width = config.head_width or config.width // config.heads
    if config.value_width not in (0, head_width):
        found.append(f"value_width = {config.value_width}: values must be as wide as keys ({head_width})")
    return found


def multiplies_int8() -> bool:
    """This processor has instructions for it."""
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def refuse(bundle: Bundle) -> None:
    if found := reasons_against(bundle.config.model):
        raise FormatError("CTranslate2 can't hold this model; keep it as a bundle", found)


def refuse_existing(path: Path) -> None:
    """A conversion replaces nothing."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FormatError(f"{path} exists: it is left as it is; choose another name")


def require_ctranslate2(what: str) -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise MissingExtraError(what, "ctranslate2", "fast") from None
    return ctranslate2


class _Names:
    """Ids ↔ the names by which CTranslate2 knows them."""

    def __init__(self, bundle: Bundle) -> None:
        self._source = token_names(bundle.tokenizers.source)
        self._target = token_names(bundle.tokenizers.target)
        self._ids = {name: i for i, name in enumerate(self._target)}

    def of_sources(self, sources: Sequence[Ids]) -> list[list[str]]:
        return [[self._source[i] for i in source] for source in sources]

    def of_targets(self, targets: Sequence[Ids]) -> list[list[str]]:
        return [[self._target[i] for i in target] for target in targets]

    def ids(self, names: Sequence[str]) -> list[int]:
        return [self._ids[name] for name in names]


class Converted:
    """A written directory, run by CTranslate2: the other side of a proof."""

    def __init__(self, bundle: Bundle, directory: Path) -> None:
        ctranslate2 = require_ctranslate2("a CTranslate2 model")
        self.name = f"CTranslate2 {ctranslate2.__version__}"
        self._bundle, self._names = bundle, _Names(bundle)
        self._translator = ctranslate2.Translator(str(directory), compute_type="default", intra_threads=1)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._bundle.tokenizers.source.encode_batch(texts)  # it takes pieces: the tokenizer is ours

    def translate(self, sources: Sequence[Ids], beams: int) -> list[list[int]]:
        return [said for said, _ in self._search(sources, beam_size=beams)]

    def logits(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """It shows the logits of its own greedy search: good as far as that says what the target says."""
        found = []
        searched = self._search(sources, beam_size=1, return_logits_vocab=True)
        for target, (said, logits) in zip(targets, searched, strict=True):
            differs = [a != b for a, b in zip(said, target, strict=False)]
            same = differs.index(True) if True in differs else len(differs)
            found.append(torch.stack([torch.from_numpy(np.array(row)) for row in logits[: same + 1]]))
        return found

    def _search(self, sources: Sequence[Ids], **options: Any) -> list[tuple[list[int], Any]]:
        eos = self._bundle.config.vocabulary.eos
        results = self._translator.translate_batch(
            self._names.of_sources(sources), max_decoding_length=LONGEST, **CALL, **options
        )
        found = []
        for result in results:
            said = self._names.ids(result.hypotheses[0])
            found.append(([i for i in said if i != eos], result.logits[0] if result.logits else []))
        return found


# --- the engine of `glass translate` and `glass serve` ---


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
        self._names, self._eos = _Names(bundle), bundle.config.vocabulary.eos
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
        with contextlib.suppress(
            OSError
        ):  # a cache that is only read, or another process that tidies up, too
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
