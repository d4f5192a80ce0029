"""Time to quality: validation BLEU after equal minutes on the same machine, text and vocabulary.

    python -m benchmarks quality [--run ours] [--run marian] [--minutes 20]

Ours is `glass train` with a recipe of ours. Hugging Face's Marian has the same sizes and tokenizer and a
standard recipe: Adam, inverse square root after a warm-up, label smoothing, in its documented PyTorch loop.
Its clock stands still while it validates; ours runs on. Each run can be made alone, goes on where it was
stopped, and adds its result to the file when it is over; its folder is in `benchmarks/.cache`, and without it
the run begins anew. Curves: 200 validation sentences, greedily; the figures in the table: all of them, with a
beam of 4.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from benchmarks.contest import cores
from benchmarks.corpus import CACHE, Text, find_text
from benchmarks.peers import marian, real_source, smoothed
from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.config import PRESETS
from glassformer.data.batch import Batch
from glassformer.evaluate import corpus_bleu
from glassformer.recipe import Recipe
from glassformer.train.optim import inverse_sqrt, set_rate
from glassformer.train.prepare import Prepared, prepare
from glassformer.train.report import METRICS, read_metrics
from glassformer.translate import Translator

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "multi30k-en-de-20min.toml"
TITLE = "time to quality"
LOOKED_AT, LOOKS, BEAMS = 200, 10, 4
"""validation sentences of a point of the curve, points of a curve, beam of the final figures"""


T = TypeVar("T")


@dataclass(frozen=True)
class Standard:
    """How a peer is trained."""

    batch_tokens: int
    rate: float
    warmup: int

    @property
    def about(self) -> str:
        return (
            f"{self.batch_tokens:,} target tokens a batch, Adam, inverse square root from {self.rate:g} "
            f"after {self.warmup:,} updates of warm-up, label smoothing 0.1, dropout 0.1"
        )


PEERS = {
    "marian": ("Hugging Face Marian, standard recipe", Standard(2048, 0.001, 1000)),
    "marian-small": ("Hugging Face Marian, our batch size", Standard(800, 0.001, 1000)),
}
RUNS = ("ours", *PEERS)


def run(
    which: str, minutes: float, recipe: Path = RECIPE, place: Path | None = None
) -> tuple[str, dict[str, Any]]:
    """One run, from the beginning or from where it was stopped: its name, and what it reached."""
    text = find_text(lower=True)
    place = place or CACHE / f"quality-{minutes:g}-{which}"
    if which == "ours":
        return "Glassformer, our recipe", ours(text, minutes, recipe, place)
    name, standard = PEERS[which]
    return name, Peer(standard, minutes, prepared(text, recipe, standard, place), place).run(text)


def overrides(text: Text) -> list[str]:
    """The text, as settings of a recipe."""
    return [
        f"data.source_language={text.languages[0]}",
        f"data.target_language={text.languages[1]}",
        f"data.valid.source={text.valid[0]}",
        f"data.valid.target={text.valid[1]}",
    ]


def ours(text: Text, minutes: float, recipe: Path, place: Path) -> dict[str, Any]:
    limits = [
        f"train.max_minutes={minutes}",
        f"train.validate_minutes={minutes / LOOKS}",
        f"train.validate_bleu={LOOKED_AT}",
        "train.max_steps=0",
        "train.max_epochs=0",
    ]
    files = ["--source", str(text.train[0]), "--target", str(text.train[1]), "--to", str(place)]
    subprocess.run(
        [sys.executable, "-m", "glassformer", "train", str(recipe), *overrides(text), *limits, *files],
        check=True,
    )
    entries = [entry for entry in read_metrics(place / METRICS) if entry["kind"] == "valid"]
    curve = [{key: entry[key] for key in ("seconds", "step", "bleu")} for entry in entries]
    translator = Translator(Bundle.load(place / "model"))

    def translate(sources: Sequence[str]) -> list[str]:
        return [found.text for found in translator.translate(sources, beams=BEAMS)]

    result = json.loads((place / "result.json").read_text("utf-8"))
    about = f"recipes/{recipe.name} with `glass train`"
    return {
        "minutes": minutes,
        "about": about,
        "updates": result["step"],
        "curve": curve,
        **scores(text, translate),
    }


def scores(text: Text, translate: Any) -> dict[str, Any]:
    """BLEU of a finished model, by the same function for everybody."""
    found: dict[str, Any] = {}
    for key, split in (("bleu", "valid"), ("test bleu", "test")):
        sources, references = text.read(split)
        score = corpus_bleu(translate(sources), references, text.languages[1])
        found |= {key: score.value, "signature": score.signature}
    return found


def prepared(text: Text, recipe: Path, standard: Standard, place: Path) -> Prepared:
    """Our cleaning, tokenizer and batches, with the peer's batch size."""
    whole = settings.read(Recipe, recipe, overrides(text))
    corpus = settings.from_mapping(Recipe, {"data": text.as_settings()}).data.corpora
    train = replace(whole.train, batch_tokens=standard.batch_tokens)
    return prepare(replace(whole, data=replace(whole.data, corpora=corpus), train=train), place)


class Peer:
    """Marian in a plain loop that can be stopped."""

    def __init__(self, standard: Standard, minutes: float, data: Prepared, place: Path) -> None:
        torch.set_num_threads(cores())
        torch.manual_seed(1)
        self.limit, self.data, self.standard = 60 * minutes, data, standard
        self.file = place / "peer.pt"
        self.model: Any = marian(PRESETS["tiny"], data.bundle.config.vocabulary)
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98), eps=1e-9)
        self.rate = inverse_sqrt(standard.rate, standard.warmup)
        self.step, self.epoch, self.number, self.seconds = 0, 0, 0, 0.0
        self.curve: list[dict[str, float]] = []
        if self.file.exists():
            self._restore()

    def run(self, text: Text) -> dict[str, Any]:
        chosen = spread(self.data.valid, LOOKED_AT)
        while self.seconds < self.limit:
            self._train(min(self.limit, (len(self.curve) + 1) * self.limit / LOOKS))
            said = self.translate([source for source, _ in chosen], beams=1)
            bleu = corpus_bleu(said, [target for _, target in chosen], text.languages[1]).value
            self.curve.append({"seconds": self.seconds, "step": self.step, "bleu": bleu})
            print(
                f"{self.seconds / 60:.1f} min, {self.step:,} updates: validation BLEU {bleu:.1f}", flush=True
            )
            self._save()
        return {
            "minutes": self.limit / 60,
            "about": self.standard.about,
            "updates": self.step,
            "curve": self.curve,
            **scores(text, lambda sources: self.translate(sources, BEAMS)),
        }

    def _train(self, until: float) -> None:
        self.model.train()
        begin, before = time.perf_counter(), self.seconds
        while self.seconds < until:
            if self.number == self.data.feed.count(self.epoch):
                self.epoch, self.number = self.epoch + 1, 0
            self._update(self.data.feed.batch(self.epoch, self.number))
            self.number += 1
            self.seconds = before + time.perf_counter() - begin

    def _update(self, batch: Batch) -> None:
        self.step += 1
        set_rate(self.optimizer, self.rate(self.step, 0.0))
        self.optimizer.zero_grad()
        out = self.model(
            input_ids=batch.source_BS,
            attention_mask=real_source(batch).long(),
            decoder_input_ids=batch.target_in_BT,
        )
        smoothed(out.logits, batch).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    @torch.inference_mode()
    def translate(self, sources: Sequence[str], beams: int) -> list[str]:
        """`generate` in batches of about equal length; the padding is never said."""
        self.model.eval()
        tokenizers, vocabulary = self.data.bundle.tokenizers, self.data.bundle.config.vocabulary
        ids = [[*row, vocabulary.eos] for row in tokenizers.source.encode_batch(sources)]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        said = [""] * len(ids)
        for first in range(0, len(order), 32):
            places = order[first : first + 32]
            longest = max(len(ids[place]) for place in places)
            rows = [[*ids[p], *[vocabulary.source_pad] * (longest - len(ids[p]))] for p in places]
            inputs = torch.tensor(rows)
            outputs = self.model.generate(
                input_ids=inputs,
                attention_mask=(inputs != vocabulary.source_pad).long(),
                num_beams=beams,
                early_stopping=beams > 1,
                max_length=2 * longest + 32,
                bad_words_ids=[[vocabulary.target_pad]],
            )
            for place, row in zip(places, outputs[:, 1:].tolist(), strict=True):
                said[place] = tokenizers.target.decode(row)
        return said

    def _save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "place": [self.step, self.epoch, self.number, self.seconds],
            "curve": self.curve,
        }
        temporary = self.file.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(self.file)

    def _restore(self) -> None:
        state = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.epoch, self.number, self.seconds = state["place"]
        self.curve = state["curve"]


def spread(items: Sequence[T], count: int) -> list[T]:
    """So many of them, evenly spread: the ones that `glass train` validates on.

    >>> spread([0, 1, 2, 3, 4, 5], 3)
    [0, 2, 4]
    """
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]


def merged(before: Mapping[str, Any], name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A run beside those that were made before it with the same minutes."""
    runs = {n: r for n, r in before.get("runs", {}).items() if math.isclose(r["minutes"], result["minutes"])}
    runs[name] = dict(result)
    rows = [
        {
            "run": name,
            "minutes": run["minutes"],
            "updates": run["updates"],
            "validation BLEU": round(run["bleu"], 2),
            "test BLEU": round(run["test bleu"], 2),
            "how": run["about"],
        }
        for name, run in runs.items()
    ]
    return {
        "corpus": find_text(lower=True).name,
        "signature": result["signature"],
        "rows": rows,
        "runs": runs,
    }
