"""Training: ours and the peers on the same batches, with the same mathematics and dropout on.

    python -m benchmarks training [--preset tiny] [--rounds 5]

Each contestant makes whole updates: forward, label-smoothed loss, backward, clipping, Adam. All start from
weights of the same distribution. After equal updates a peer's loss must be within 2% of ours, or its speed is
not quoted: it would have computed something else. The machine's peak, the sustained speed of a large float32
matrix product, is measured by a contestant of its own in every round; the share of it that a contestant
reaches is counted as `benchmarks/flops.py` says. Where `glass train` would choose bfloat16 by itself,
everyone runs in that as well, against ours in bfloat16.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.contest import TUNED, Entry, Measured, contest, cores, median, peak_memory, ratio
from benchmarks.corpus import CACHE, find_text
from benchmarks.flops import operations
from glassformer import settings
from glassformer.config import PRESETS, ModelConfig
from glassformer.data.batch import Batch, BatchOrder, collate
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.train.precision import pays

DROPOUT, SMOOTHING = 0.1, 0.1
RATES = {"tiny": 5e-4, "base": 1e-4}
"""learning rates, constant: losses have to move, and a base model has no warm-up here"""
LINES = 8000
"""of the corpus: more than any contest reads"""
NEAR = 0.02
"""how far a peer's loss may be from ours"""
PEAK = "matrix product"


@dataclass
class Task:
    """The batches that all contestants see, and the shape of their models."""

    preset: str
    batch_tokens: int = 2048
    vocabulary_size: int = 10_000

    def __post_init__(self) -> None:
        torch.set_num_threads(cores())
        self.tokenizers, self.ids = self._tokenised()
        self.vocabulary = self.tokenizers.vocabulary()
        lengths = [[len(ids) for ids in side] for side in self.ids]
        self.order = BatchOrder(*lengths, batch_tokens=self.batch_tokens, seed=1).batches(0)

    @property
    def shape(self) -> dict[str, int]:
        return PRESETS[self.preset]

    def batch(self, number: int) -> Batch:
        rows = self.order[number % len(self.order)]
        return collate([(self.ids[0][i], self.ids[1][i]) for i in rows], self.vocabulary)

    def operations(self, batch: Batch) -> int:
        lengths = batch.source_lengths_B.tolist(), batch.target_lengths_B.tolist()
        return operations(self.shape, self.vocabulary.target_size, *lengths)

    def _tokenised(self) -> tuple[TokenizerPair, list[list[list[int]]]]:
        """Learnt once and kept, so that contestants start quickly."""
        text = find_text()
        place = CACHE / f"training-{text.name}-{self.vocabulary_size}"
        if not (place / "ids.json").exists():
            sides = text.read("train")
            shared = train_tokenizer("bpe", [*sides[0], *sides[1]], size=self.vocabulary_size)
            place.mkdir(parents=True, exist_ok=True)
            TokenizerPair(shared, shared, shared=True).save(place)
            ids = [shared.encode_batch(side[:LINES]) for side in sides]
            (place / "ids.json").write_text(json.dumps(ids))
        return TokenizerPair.load(place), json.loads((place / "ids.json").read_text())


class Training:
    """Times `steps` updates a round; each contestant says what an update is."""

    model: nn.Module

    def __init__(self, preset: str, steps: int, half: bool = False) -> None:
        self.task, self.steps, self.half = Task(preset), steps, half
        torch.manual_seed(1)
        self.model = self.build()
        self.model.train()
        self.optimizer = self.make_optimizer()
        self.update(self.task.batch(0))  # the first one asks for all the memory: it is not timed
        self.done = 1

    @property
    def rate(self) -> float:
        return RATES.get(self.task.preset, 1e-4)

    def build(self) -> nn.Module:
        raise NotImplementedError

    def loss(self, batch: Batch) -> Tensor:
        """The mean label-smoothed loss of the batch's target tokens."""
        raise NotImplementedError

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), self.rate, betas=(0.9, 0.98), eps=1e-9)

    def run(self, number: int) -> Measured:
        batches = [self.task.batch(self.done + i) for i in range(self.steps)]
        begin = time.perf_counter()
        losses = [self.update(batch) for batch in batches]
        seconds = time.perf_counter() - begin
        self.done += self.steps
        return {
            "tokens/s": sum(batch.tokens for batch in batches) / seconds,
            "GFLOP/s": sum(map(self.task.operations, batches)) / seconds / 1e9,
            "loss": sum(losses) / len(losses),
            "peak MB": peak_memory(),
        }

    def update(self, batch: Batch) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            loss = self.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


class Ours(Training):
    """The objective, the optimizer and the allocator's settings of `glass train`."""

    attention_dropout = DROPOUT

    def build(self) -> nn.Module:
        from glassformer.train.allocator import keep_memory
        from glassformer.train.objective import TranslationObjective

        keep_memory()
        shape = {**self.task.shape, "dropout": DROPOUT, "attention_dropout": self.attention_dropout}
        config = settings.from_mapping(ModelConfig, shape)
        return TranslationObjective(build_model(config, self.task.vocabulary), smoothing=SMOOTHING)

    def make_optimizer(self) -> torch.optim.Optimizer:
        from glassformer.recipe import TrainConfig
        from glassformer.train.optim import build_optimizer, set_rate

        optimizer = build_optimizer(self.model, TrainConfig())
        set_rate(optimizer, self.rate)
        return optimizer

    def loss(self, batch: Batch) -> Tensor:
        losses = self.model(batch)
        return losses.loss_sum / losses.tokens


class Peak:
    """The machine itself: float32 matrix products for a while, at the size that suits it best."""

    sizes = (1024, 2048)

    def __init__(self, seconds: float = 1.5) -> None:
        torch.set_num_threads(cores())
        self.seconds = seconds
        self.matrices = {size: torch.randn(3, size, size) for size in self.sizes}
        self.run(0)

    def run(self, number: int) -> Measured:
        return {"GFLOP/s": max(self._sustained(size) for size in self.sizes)}

    def _sustained(self, size: int) -> float:
        """The median over many products: what goes on, not what happened once."""
        a, b, product = self.matrices[size]
        speeds: list[float] = []
        until = time.perf_counter() + self.seconds / len(self.sizes)
        while not speeds or time.perf_counter() < until:
            begin = time.perf_counter()
            torch.mm(a, b, out=product)
            speeds.append(2 * size**3 / (time.perf_counter() - begin) / 1e9)
        return statistics.median(speeds)


PEERS = {
    "torch.nn.Transformer": "benchmarks.peers:TorchTransformer",
    "Hugging Face Marian": "benchmarks.peers:HuggingFace",
    "x-transformers": "benchmarks.peers:XTransformers",
}
OURS, HALF = "Glassformer", ", bfloat16"
BESIDE = {"": OURS, ", tuned": f"{OURS}, beside the tuned", HALF: OURS + HALF}
"""what ours is called in the table of each contest"""


def run(preset: str = "tiny", rounds: int = 5, steps: int = 10, *, tuned: bool = True) -> dict[str, Any]:
    """Everyone as installed; then, in a contest of its own, with the allocator tuned, as ours does by itself;
    and where `glass train` would choose bfloat16, everyone in that.

    All contestants at once would need more memory, with base models, than many machines have.
    """
    Task(preset)
    contests: list[tuple[str, Mapping[str, str]]] = [("", {})]
    if tuned:
        contests.append((", tuned", TUNED))
    if pays(torch.device("cpu"), PRESETS[preset]["width"]):
        contests.append((HALF, {}))
    rows, ratios, everything = [], {}, {}
    for suffix, environment in contests:
        results = _contest(preset, rounds, steps, suffix, environment)
        ours, peak = results[OURS], results.pop(PEAK)
        for name, measured in results.items():
            rows.append(row(BESIDE[suffix] if name == OURS else name, measured, ours, peak))
            if name != OURS and suffix != HALF and near(measured, ours):
                ratios[name] = list(ratio(ours, measured, "tokens/s").values)
        everything.update(
            {f"{name}{suffix}" if name == OURS else name: found for name, found in results.items()}
        )
        everything[PEAK + suffix] = peak
    return {
        "preset": preset,
        "corpus": find_text().name,
        "rounds": rounds,
        "updates a round": steps,
        "peak GFLOP/s": median(everything[PEAK], "GFLOP/s"),
        "rows": rows,
        "ratios": ratios,
        "all": everything,
    }


def _contest(
    preset: str, rounds: int, steps: int, suffix: str, environment: Mapping[str, str]
) -> dict[str, list[Measured]]:
    arguments = {"preset": preset, "steps": steps, "half": suffix == HALF}
    entries = [Entry(OURS, "benchmarks.training:Ours", arguments), Entry(PEAK, "benchmarks.training:Peak")]
    entries += [Entry(name + suffix, target, arguments, environment) for name, target in PEERS.items()]
    return contest(entries, rounds)


def near(measured: Sequence[Measured], ours: Sequence[Measured]) -> bool:
    """Has a peer's loss, after equal updates, come as far as ours?"""
    return abs(measured[-1]["loss"] / ours[-1]["loss"] - 1) <= NEAR


def row(
    name: str, measured: Sequence[Measured], ours: Sequence[Measured], peak: Sequence[Measured]
) -> dict[str, Any]:
    """One contestant in the table. Whoever's loss is not near ours is not compared."""
    quoted = near(measured, ours)
    shares = [mine["GFLOP/s"] / machine["GFLOP/s"] for mine, machine in zip(measured, peak, strict=True)]
    return {
        "contestant": name,
        "target tokens/s": median(measured, "tokens/s") if quoted else "not quoted",
        "ours is × as fast": str(ratio(ours, measured, "tokens/s")) if quoted else "not quoted",
        "share of peak": f"{statistics.median(shares):.0%}" if quoted else "not quoted",
        "last loss": measured[-1]["loss"],
        "loss against ours": f"{measured[-1]['loss'] / ours[-1]['loss'] - 1:+.1%}",
        "peak MB": median(measured, "peak MB"),
    }
