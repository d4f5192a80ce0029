"""Decoding: our engines, Hugging Face's `generate` and CTranslate2 called directly, on the same weights.

    python -m benchmarks decode [--preset tiny] [--rounds 5]

The model is trained for a few minutes first and kept in `benchmarks/.cache`: outputs then have the lengths of
real translations, which random weights do not give. Sentences: 1,000 of Multi30k's test set. Each contestant
translates all of them in a round, by its best settings on two cores, with the beam it is told; a second
number is the latency of one short sentence, asked alone.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import Entry, contest, median, ratio
from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.config import Recipe
from glassformer.text.lines import read_lines

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
CACHE = Path(__file__).parent / ".cache"
MINUTES = {"tiny": 2.0, "base": 6.0}
SHORT = "A dog runs through the snow ."


def prepare(preset: str) -> Path:
    """A bundle of this size and its exports; made once."""
    from glassformer.formats import ctranslate2, huggingface
    from glassformer.train.allocator import keep_memory
    from glassformer.train.run import train

    place = CACHE / f"decode-{preset}"
    recipe = settings.from_mapping(
        Recipe,
        {
            "model": {"preset": preset, "dropout": 0.0, "attention_dropout": 0.0},
            "tokenizer": {"size": 10_000},
            "data": {
                "source_language": "en",
                "target_language": "de",
                "corpora": [{"source": str(CORPUS / "train.en"), "target": str(CORPUS / "train.de")}],
                "valid": {"source": str(CORPUS / "val.en"), "target": str(CORPUS / "val.de")},
            },
            "train": {
                "batch_tokens": 800,
                "learning_rate": 0.002 if preset == "tiny" else 0.0005,
                "warmup": 200,
                "schedule": "linear",
                "max_minutes": MINUTES.get(preset, 4.0),
                "validate_every": 1_000_000,
            },
        },
    )
    if not (place / "model").is_dir():
        keep_memory()
        train(recipe, place)
    bundle = Bundle.load(place / "model")
    for name, export in (
        ("hf", lambda to: huggingface.export_bundle(bundle, to)),
        ("ct2", lambda to: ctranslate2.export_bundle(bundle, to, "float32")),
        ("ct2-int8", lambda to: ctranslate2.export_bundle(bundle, to, "int8", force=True)),
    ):
        if not (place / name).exists():
            print(export(place / name))
    return place


@dataclass
class Decoding:
    """Times one pass over the sentences, and one short sentence many times."""

    place: str
    beams: int
    sentences: int = 1000

    def __post_init__(self) -> None:
        self.texts = list(read_lines(CORPUS / "test_2016_flickr.en"))[: self.sentences]
        self.bundle = Bundle.load(Path(self.place) / "model")
        self.open()
        self.translate(self.texts[:64])

    def open(self) -> None:
        raise NotImplementedError

    def translate(self, texts: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def run(self, number: int) -> dict[str, float]:
        begin = time.perf_counter()
        said = self.translate(self.texts)
        seconds = time.perf_counter() - begin
        tokens = sum(map(len, self.bundle.tokenizers.target.encode_batch(said)))
        waits = sorted(_seconds(lambda: self.translate([SHORT])) for _ in range(30))
        return {
            "sentences/s": len(said) / seconds,
            "tokens/s": tokens / seconds,
            "p50 ms": 1000 * waits[15],
            "p99 ms": 1000 * waits[-1],
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "text": float(hash_of(said)),
        }


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def hash_of(texts: Sequence[str]) -> int:
    """A number that tells whether two contestants said the same."""
    import zlib

    return zlib.crc32("\n".join(texts).encode())


class OurTorch(Decoding):
    """`Translator` with the torch engine, two workers of one thread."""

    def open(self) -> None:
        from glassformer.train.allocator import keep_memory
        from glassformer.translate import Translator

        keep_memory()
        torch.set_num_threads(1)
        self.translator = Translator(self.bundle, engine="torch", threads=2)

    def translate(self, texts: Sequence[str]) -> list[str]:
        return [found.text for found in self.translator.translate(texts, beams=self.beams, max_length=64)]


class OurDefault(OurTorch):
    """`Translator` as it comes: engine auto."""

    def open(self) -> None:
        from glassformer.translate import Translator

        self.translator = Translator(self.bundle)


class HuggingFace(Decoding):
    """`generate` in batches of 32, sorted by length, two threads."""

    def open(self) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        torch.set_num_threads(2)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(Path(self.place) / "hf")
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(Path(self.place) / "hf").eval()

    def translate(self, texts: Sequence[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        said = [""] * len(texts)
        for first in range(0, len(order), 32):
            places = order[first : first + 32]
            inputs = self.tokenizer([texts[i] for i in places], return_tensors="pt", padding=True)
            with torch.inference_mode():
                outputs = self.model.generate(
                    **inputs, num_beams=self.beams, early_stopping=self.beams > 1, max_new_tokens=64
                )
            decoded = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
            for place, text in zip(places, decoded, strict=True):
                said[place] = text
        return said


class Direct(Decoding):
    """CTranslate2 by hand: two workers of one thread, batches by tokens, sorted by its own code."""

    folder = "ct2"

    def open(self) -> None:
        import ctranslate2

        path = str(Path(self.place) / self.folder)
        self.model = ctranslate2.Translator(path, inter_threads=os.cpu_count() or 1, intra_threads=1)

    def translate(self, texts: Sequence[str]) -> list[str]:
        from glassformer.formats.names import token_names

        tokenizers = self.bundle.tokenizers
        names = token_names(tokenizers.source)
        places = {name: place for place, name in enumerate(token_names(tokenizers.target))}
        tokens = [[names[i] for i in ids] for ids in tokenizers.source.encode_batch(texts)]
        results = self.model.translate_batch(
            tokens, beam_size=self.beams, max_batch_size=1024, batch_type="tokens",
            min_decoding_length=0, max_input_length=0, max_decoding_length=64,
        )  # fmt: skip
        return tokenizers.target.decode_batch([[places[t] for t in r.hypotheses[0]] for r in results])


class DirectInt8(Direct):
    """The same with 8-bit weights."""

    folder = "ct2-int8"


CONTESTANTS: dict[str, tuple[str, dict[str, str]]] = {
    "glassformer, torch engine": ("OurTorch", {}),
    "glassformer, default engine": ("OurDefault", {}),
    "Hugging Face generate": ("HuggingFace", {}),
    "CTranslate2 directly": ("Direct", {}),
    "CTranslate2 directly, int8": ("DirectInt8", {}),
}


def run(preset: str = "tiny", beams: int = 4, rounds: int = 5, sentences: int = 1000) -> dict[str, Any]:
    arguments = {"place": str(prepare(preset)), "beams": beams, "sentences": sentences}
    entries = [
        Entry(name, f"benchmarks.decode:{kind}", arguments, environment)
        for name, (kind, environment) in CONTESTANTS.items()
    ]
    results = contest(entries, rounds, print)
    ours = results["glassformer, torch engine"]
    keys = ("sentences/s", "tokens/s", "p50 ms", "p99 ms", "peak MB")
    rows = [
        {
            "contestant": name,
            **{key: median(measured, key) for key in keys},
            "against Hugging Face": str(ratio(measured, results["Hugging Face generate"], "sentences/s")),
            "against CTranslate2": str(ratio(measured, results["CTranslate2 directly"], "sentences/s")),
            "same text as ours": measured[0]["text"] == ours[0]["text"],
        }
        for name, measured in results.items()
    ]
    return {"preset": preset, "beams": beams, "rounds": rounds, "rows": rows, "all": results}
