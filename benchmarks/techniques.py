"""What makes us faster: one technique at a time is switched off, and the rest stays on.

    python -m benchmarks techniques [--preset tiny]

The switches are here and not in the model: each contestant replaces one function of ours by the plain way of
doing the same, before it starts. A ratio above 1 is what the technique gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import decode
from benchmarks.contest import Entry, Measured, contest, cores, median, ratio
from benchmarks.corpus import find_text
from benchmarks.training import SMOOTHING, Ours, Task
from glassformer.engine import TorchEngine
from glassformer.model import attention, packing, parts, products
from glassformer.train import allocator, objective


def replace(owner: object, name: str, plain: object) -> None:
    """Put `plain` in place of one of our functions, for the rest of this process."""
    mock.patch.object(owner, name, plain).start()


# --- training ---


class WholeLoss(Ours):
    """Logits of the whole batch at once, torch's cross-entropy, autograd's gradient."""

    def build(self) -> nn.Module:
        def loss(states_ND: Tensor, weight_VD: Tensor, bias_V: Any, targets_N: Tensor, **_: Any) -> Any:
            # The padding is the last entry: it takes no part.
            logits_NV = F.linear(states_ND, weight_VD[:-1])
            total = F.cross_entropy(logits_NV, targets_N, label_smoothing=SMOOTHING, reduction="sum")
            return total, total.detach()

        replace(objective, "smoothed_loss", loss)
        return super().build()


class TorchDropout(Ours):
    """torch's dropout, which draws a random number for each element."""

    def build(self) -> nn.Module:
        def forward(self: parts.Dropout, x: Tensor) -> Tensor:
            return F.dropout(x, self.p, self.training)

        replace(parts.Dropout, "forward", forward)
        return super().build()


class ApartProjections(Ours):
    """Queries, keys and values in products of their own."""

    def build(self) -> nn.Module:
        def split(parts: Sequence[Tensor], sizes: list[int], heads: Sequence[int], packing: Any) -> Any:
            each = zip(parts, heads, strict=True)
            return [attention._split(part, number, packing) for part, number in each]

        replace(attention, "split_parts", split)
        model = super().build()
        for module in list(model.modules()):
            for name in ("query_key_value", "key_value"):
                if hasattr(module, name) and hasattr(module, "packed"):
                    setattr(module, name, Apart(getattr(module, name), cast("list[int]", module.packed)))
        return model


class Apart(nn.Module):
    """A packed linear map as several; what it returns is split already."""

    def __init__(self, packed: nn.Linear, sizes: Sequence[int]) -> None:
        super().__init__()
        weights, biases = packed.weight.detach().split(list(sizes)), packed.bias.detach().split(list(sizes))
        self.weights = nn.ParameterList(weight.clone() for weight in weights)
        self.biases = nn.ParameterList(bias.clone() for bias in biases)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.linear(x, w, b) for w, b in zip(self.weights, self.biases, strict=True))


class PlainAdam(Ours):
    """torch's Adam as it comes, not fused."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            self.model.parameters(), self.rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0
        )


class FreeMemory(Ours):
    """glibc's malloc as it comes: memory goes back to the system after every batch."""

    def build(self) -> nn.Module:
        replace(allocator, "keep_memory", lambda: False)
        return super().build()


class AnyOrder(Ours):
    """Sentences of any length side by side, up to the same budget of tokens and padding."""

    def build(self) -> nn.Module:
        self.task.order = list(unsorted(self.task))  # type: ignore[assignment]
        return super().build()


def unsorted(task: Task) -> Iterator[np.ndarray[Any, Any]]:
    """Batches in random order, none beyond the budget."""
    rows: list[int] = []
    longest = 0
    for row in np.random.default_rng(1).permutation(len(task.ids[0])).tolist():
        longest = max(longest, len(task.ids[1][row]) + 1)
        if rows and longest * (len(rows) + 1) > task.batch_tokens:
            yield np.array(rows)
            rows, longest = [], len(task.ids[1][row]) + 1
        rows.append(row)
    yield np.array(rows)


class PaddedLayers(Ours):
    """Linear maps, norms and dropout work on padding, too."""

    def build(self) -> nn.Module:
        replace(packing.Packing, "in_training", lambda *_: None)
        return super().build()


class MklProducts(Ours):
    """torch's own matrix products, MKL's; rows need no round number there."""

    def build(self) -> nn.Module:
        replace(products, "_has_onednn", lambda: False)
        replace(packing, "MULTIPLE", 1)
        return super().build()


class FusedAttention(Ours):
    """No dropout on attention weights: one kernel that never stores them can be used."""

    attention_dropout = 0.0


class ExplicitAttention(FusedAttention):
    """The same mathematics, weights stored."""

    def build(self) -> nn.Module:
        def explicit(q: Tensor, k: Tensor, v: Tensor, may_attend: Any = None, **given: Any) -> Tensor:
            if given.pop("causal", False):
                may_attend = attention.causal_mask(q.shape[-2], q.device, may_attend)
            given.pop("factor", None)
            return attention.attend(q, k, v, may_attend, **given)[0]

        replace(attention, "attend_fused", explicit)
        return super().build()


# --- decoding ---


class OneWorker(decode.OurTorch):
    """One batch at a time, torch on all cores."""

    def open(self) -> None:
        from glassformer.translate import Translator

        torch.set_num_threads(cores())
        self.translator = Translator(self.bundle, engine="torch", threads=1)


class AsTheyCome(decode.OurTorch):
    """Sentences in the order of the file, not sorted by length."""

    def open(self) -> None:
        def batches(self: TorchEngine, lengths: Sequence[int]) -> Iterator[list[int]]:
            for first in range(0, len(lengths), self.batch_sentences):
                yield list(range(first, min(first + self.batch_sentences, len(lengths))))

        replace(TorchEngine, "_batches", batches)
        super().open()


class NobodyLeaves(decode.OurTorch):
    """Finished sentences stay in the batch until all are."""

    def open(self) -> None:
        from glassformer.search import beam, greedy

        for module in (beam, greedy):
            replace(module, "worth_leaving", lambda alive, rows: alive == 0)
        super().open()


ON = "everything on"
TRAINING = {
    ON: "benchmarks.training:Ours",
    "loss in chunks, gradients in the same pass": "WholeLoss",
    "dropout from 16 bits an element": "TorchDropout",
    "queries, keys, values in one product": "ApartProjections",
    "fused Adam": "PlainAdam",
    "memory kept between updates": "FreeMemory",
    "batches of about equal lengths": "AnyOrder",
    "padding left out between attentions": "PaddedLayers",
    "products by oneDNN": "MklProducts",
}
ATTENTION = {ON: "FusedAttention", "fused attention (without dropout on weights)": "ExplicitAttention"}
DECODING = {
    ON: "benchmarks.decode:OurTorch",
    "a worker of one thread on each core": "OneWorker",
    "sentences sorted by length": "AsTheyCome",
    "finished sentences leave the batch": "NobodyLeaves",
}


def run(preset: str = "tiny", rounds: int = 5, steps: int = 8, sentences: int = 500) -> dict[str, Any]:
    Task(preset)
    training = {"preset": preset, "steps": steps}
    decoding = {
        "place": str(decode.prepare(preset)),
        "beams": 4,
        "sentences": sentences,
        "latency_seconds": 0,
    }
    rows: list[dict[str, Any]] = []
    everything = {}
    for kind, table, arguments, key in (
        ("training", TRAINING, training, "tokens/s"),
        ("training", ATTENTION, training, "tokens/s"),
        ("decoding, torch engine, beam 4", DECODING, decoding, "sentences/s"),
    ):
        results = contest([_entry(*item, arguments) for item in table.items()], rounds)
        everything.update({f"{kind}: {name}": _plain(found) for name, found in results.items()})
        rows += [_row(kind, name, found, results[ON], key) for name, found in results.items() if name != ON]
    return {
        "preset": preset,
        "corpus": find_text().name,
        "rounds": rounds,
        "rows": rows,
        "all": everything,
    }


def _entry(name: str, kind: str, arguments: dict[str, Any]) -> Entry:
    return Entry(name, kind if ":" in kind else f"benchmarks.techniques:{kind}", arguments)


def _row(kind: str, name: str, off: Sequence[Measured], on: Sequence[Measured], key: str) -> dict[str, Any]:
    return {
        "technique": name,
        "of": f"{kind}, {key}",
        "on": median(on, key),
        "off": median(off, key),
        "gain": str(ratio(on, off, key)),
        "memory on, MB": median(on, "peak MB"),
        "memory off, MB": median(off, "peak MB"),
    }


def _plain(results: Sequence[Measured]) -> list[Measured]:
    return [decode.without_lists(one) for one in results]
