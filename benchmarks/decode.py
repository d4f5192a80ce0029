"""Decoding: our engines, Hugging Face's `generate` and CTranslate2 called directly, on the same weights.

    python -m benchmarks decode [--preset tiny] [--rounds 5]

The model is trained for some hundred updates first and kept in `benchmarks/.cache`: outputs then have the
lengths of real translations, which random weights do not give. Everyone is asked for the same: the test
sentences, the beam, at most LONGEST tokens, hypotheses divided by their length, the search over when a beam's
worth of them has ended, one translation each. Everyone does it by its best settings on this machine. Beside
the speed stand the latency of one short sentence asked alone, and how many texts are ours, letter by letter.

A base model would need hours on a few cores until its outputs are as long as translations. Its end of
sentence is made impossible instead, so that every output is as long as it may be: the same for everyone.
"""

from __future__ import annotations

import statistics
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import Entry, Measured, contest, cores, median, peak_memory, ratio
from benchmarks.corpus import CACHE, find_text
from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.recipe import Recipe

UPDATES = {"tiny": 500, "base": 150}
"""of training, before anything is timed: counted, not timed, so that a busy machine gives the same model"""
LONGEST = 64
"""tokens of an output, its end included"""
EXACTLY = {"base": 16}
"""tokens of every output where the model knows too little to end by itself; about what Multi30k's have"""
SHORT = "A dog runs through the snow ."


def prepare(preset: str) -> Path:
    """A bundle of this size and its exports; made once."""
    from glassformer.formats import ctranslate2, huggingface
    from glassformer.train.allocator import keep_memory
    from glassformer.train.run import train

    place = CACHE / f"decode-{preset}"
    if not (place / "model").is_dir():
        keep_memory()
        train(_recipe(preset), place)
        if preset in EXACTLY:
            endless(Bundle.load(place / "model")).save(place / "model")
    bundle = Bundle.load(place / "model")
    for name, export in (
        ("hf", lambda to: huggingface.export_bundle(bundle, to)),
        ("ct2", lambda to: ctranslate2.export_bundle(bundle, to, "float32")),
        ("ct2-int8", lambda to: ctranslate2.export_bundle(bundle, to, "int8", force=True)),
    ):
        if not (place / name).exists():
            print(export(place / name))
    return place


def endless(bundle: Bundle) -> Bundle:
    """The same model, but that it never ends a sentence by itself."""
    from glassformer.model.build import build_model

    config = replace(bundle.config, model=replace(bundle.config.model, output_bias=True))
    model = build_model(config.model, config.vocabulary)
    missing, _ = model.load_state_dict(bundle.model.state_dict(), strict=False)
    assert model.output_bias is not None
    assert len(missing) == 1, missing
    with torch.no_grad():
        model.output_bias.zero_()
        model.output_bias[config.vocabulary.eos] = -1e4
    return Bundle(config, bundle.tokenizers, model, bundle.card)


def _recipe(preset: str) -> Recipe:
    updates = UPDATES.get(preset, 200)
    training = {
        "batch_tokens": 800,
        "learning_rate": 0.002 if preset == "tiny" else 0.0005,
        "warmup": updates // 4,
        "schedule": "linear",
        "max_steps": updates,
        "validate_every": updates,
        "validate_bleu": 0,
        "samples": 0,
    }
    model = {"preset": preset, "dropout": 0.0, "attention_dropout": 0.0}
    data = find_text().as_settings()
    return settings.from_mapping(
        Recipe, {"model": model, "tokenizer": {"size": 10_000}, "data": data, "train": training}
    )


@dataclass
class Decoding:
    """Times one pass over the sentences, and one short sentence many times."""

    place: str
    beams: int
    sentences: int = 1000
    exactly: int = 0
    latency_seconds: float = 4.0

    def __post_init__(self) -> None:
        self.texts = find_text().read("test")[0][: self.sentences]
        self.most = self.exactly or LONGEST
        self.bundle = Bundle.load(Path(self.place) / "model")
        self.open()
        self.translate(self.texts[:64])
        self.translate([SHORT])

    def open(self) -> None:
        raise NotImplementedError

    def translate(self, texts: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def run(self, number: int) -> Measured:
        begin = time.perf_counter()
        said = self.translate(self.texts)
        seconds = time.perf_counter() - begin
        tokens = self.exactly * len(said) or sum(map(len, self.bundle.tokenizers.target.encode_batch(said)))
        return {
            "sentences/s": len(said) / seconds,
            "tokens/s": tokens / seconds,
            "waits": self._waits(),
            "peak MB": peak_memory(),
            "texts": [zlib.crc32(text.encode()) for text in said],
        }

    def _waits(self) -> list[float]:
        """Milliseconds for one short sentence, again and again."""
        waits: list[float] = []
        until = time.perf_counter() + self.latency_seconds
        while len(waits) < 100 and time.perf_counter() < until:
            waits.append(1000 * _seconds(lambda: self.translate([SHORT])))
        return waits


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


class OurTorch(Decoding):
    """`Translator` with the torch engine, a worker of one thread on each core."""

    def open(self) -> None:
        from glassformer.train.allocator import keep_memory
        from glassformer.translate import Translator

        keep_memory()
        torch.set_num_threads(1)
        self.translator = Translator(self.bundle, engine="torch", threads=cores())

    def translate(self, texts: Sequence[str]) -> list[str]:
        found = self.translator.translate(texts, beams=self.beams, max_length=self.most)
        return [translation.text for translation in found]


class OurDefault(OurTorch):
    """`Translator` as it comes, which is the ctranslate2 engine in float32 where that is installed."""

    def open(self) -> None:
        from glassformer.translate import Translator

        self.translator = Translator(self.bundle)


class OurInt8(OurTorch):
    """The same with weights of 8 bits."""

    def open(self) -> None:
        from glassformer.formats.ctranslate2_engine import load_engine
        from glassformer.translate import Translator

        self.translator = Translator(self.bundle, engine="torch")
        self.translator._engine = load_engine(self.bundle, quantization="int8")


class HuggingFace(Decoding):
    """`generate` in batches of 32, sorted by length, on all cores."""

    def open(self) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        torch.set_num_threads(cores())
        with warnings.catch_warnings(action="ignore"):  # a package that would split sentences: ours are lines
            self.tokenizer: Any = AutoTokenizer.from_pretrained(Path(self.place) / "hf")
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(Path(self.place) / "hf").eval()
        # One limit, counted from the start symbol: with `max_new_tokens` beside a `max_length` of the saved
        # generation settings, it warns at every call.
        self.model.generation_config.max_length = self.most + 1

    def translate(self, texts: Sequence[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        said = [""] * len(texts)
        for first in range(0, len(order), 32):
            places = order[first : first + 32]
            inputs = self.tokenizer([texts[i] for i in places], return_tensors="pt", padding=True)
            with torch.inference_mode():
                outputs = self.model.generate(**inputs, num_beams=self.beams, early_stopping=self.beams > 1)
            decoded = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
            for place, text in zip(places, decoded, strict=True):
                said[place] = text
        return said


class Direct(Decoding):
    """CTranslate2 by hand: a worker of one thread on each core, batches by tokens, sorted by its own code."""

    folder = "ct2"

    def open(self) -> None:
        import ctranslate2

        from glassformer.formats.names import token_names

        tokenizers = self.bundle.tokenizers
        self.names = token_names(tokenizers.source)
        self.places = {name: place for place, name in enumerate(token_names(tokenizers.target))}
        path = str(Path(self.place) / self.folder)
        self.model = ctranslate2.Translator(path, inter_threads=cores(), intra_threads=1)

    def translate(self, texts: Sequence[str]) -> list[str]:
        tokenizers = self.bundle.tokenizers
        tokens = [[self.names[i] for i in ids] for ids in tokenizers.source.encode_batch(texts)]
        results = self.model.translate_batch(
            tokens, beam_size=self.beams, max_batch_size=1024, batch_type="tokens",
            min_decoding_length=0, max_input_length=0, max_decoding_length=self.most,
        )  # fmt: skip
        return tokenizers.target.decode_batch([[self.places[t] for t in r.hypotheses[0]] for r in results])


class DirectInt8(Direct):
    """The same with weights of 8 bits."""

    folder = "ct2-int8"


TORCH, HUGGING_FACE, DIRECT = "Glassformer, torch engine", "Hugging Face generate", "CTranslate2 directly"
CONTESTANTS = {
    TORCH: "OurTorch",
    "Glassformer, default engine": "OurDefault",
    HUGGING_FACE: "HuggingFace",
    DIRECT: "Direct",
    "Glassformer, default engine, int8": "OurInt8",
    "CTranslate2 directly, int8": "DirectInt8",
}


def run(preset: str = "tiny", beams: int = 4, rounds: int = 5, sentences: int = 1000) -> dict[str, Any]:
    arguments = {
        "place": str(prepare(preset)),
        "beams": beams,
        "sentences": sentences,
        "exactly": EXACTLY.get(preset, 0),
    }
    entries = [Entry(name, f"benchmarks.decode:{kind}", arguments) for name, kind in CONTESTANTS.items()]
    results = contest(entries, rounds)
    against = [name for name in (HUGGING_FACE, DIRECT, "CTranslate2 directly, int8") if name in results]
    ratios = {
        name: {other: list(ratio(measured, results[other], "sentences/s").values) for other in against}
        for name, measured in results.items()
    }
    return {
        "preset": preset,
        "corpus": find_text().name,
        "beams": beams,
        "sentences": len(results[TORCH][0]["texts"]),
        "tokens of an output": results[TORCH][0]["tokens/s"] / results[TORCH][0]["sentences/s"],
        "rounds": rounds,
        "rows": [row(name, measured, results) for name, measured in results.items()],
        "ratios": ratios,
        "all": {name: [without_lists(one) for one in measured] for name, measured in results.items()},
    }


def row(name: str, measured: Sequence[Measured], results: dict[str, list[Measured]]) -> dict[str, Any]:
    waits = [wait for one in measured for wait in one["waits"]]
    # int8 is compared with int8, float32 with float32.
    direct = f"{DIRECT}, int8" if name.endswith("int8") else DIRECT
    found: dict[str, Any] = {"contestant": name}
    found |= {key: median(measured, key) for key in ("sentences/s", "tokens/s")}
    for head, other in (("× Hugging Face", HUGGING_FACE), ("× CTranslate2", direct)):
        found[head] = str(ratio(measured, results[other], "sentences/s")) if other in results else "–"
    return found | {
        "p50 ms": percentile(waits, 0.5),
        "p99 ms": percentile(waits, 0.99),
        "peak MB": median(measured, "peak MB"),
        "texts as ours": f"{same_share(measured[0]['texts'], results[TORCH][0]['texts']):.1%}",
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of all values does not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([3.0, 1.0, 2.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    ranked = sorted(values)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]


def same_share(ones: Sequence[int], others: Sequence[int]) -> float:
    """How many of two lists are the same, place by place."""
    return statistics.fmean(one == other for one, other in zip(ones, others, strict=True))


def without_lists(measured: Measured) -> Measured:
    """What goes into the file: single waits and hashes would be most of it."""
    return {key: value for key, value in measured.items() if not isinstance(value, list)}
