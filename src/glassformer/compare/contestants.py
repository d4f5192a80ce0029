"""Who takes part: the Transformer, what it replaced, and the Transformer without each of its parts. No torch.

A contestant is a model's settings and the learning rate that suits it. Ablations that no setting can express
name a `change` that `ablations.py` makes to the model once it is built.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from glassformer.errors import RequestError

Expected = Literal["worse", "equal", ""]


@dataclass(frozen=True)
class Contestant:
    """One row of the comparison."""

    name: str
    title: str
    model: Mapping[str, Any] = field(default_factory=dict)
    """settings of ModelConfig, beside those of the plan"""
    change: str = ""
    """what `ablations.py` does to the model once it is built"""
    expected: Expected = ""
    """what the tutorials say: how it does in comparison with the whole Transformer"""
    says: str = ""
    """… and why"""
    rate: float = 0.0

    @property
    def recurrent(self) -> bool:
        return self.model.get("architecture") == "recurrent"

    @property
    def attends(self) -> bool:
        """A recurrent model with attention."""
        return self.recurrent and self.model["recurrent_attention"] != "none"


def _lstm(name: str, title: str, attention: str) -> Contestant:
    return Contestant(name, title, {"architecture": "recurrent", "recurrent_attention": attention})


TRANSFORMER = Contestant("transformer", "Transformer")
ARCHITECTURES = (
    TRANSFORMER,
    _lstm("lstm", "LSTM, no attention", "none"),
    _lstm("lstm-dot", "LSTM, dot attention", "dot"),
    _lstm("lstm-additive", "LSTM, additive attention", "additive"),
    _lstm("lstm-bilinear", "LSTM, bilinear attention", "bilinear"),
)
ABLATIONS = (
    TRANSFORMER,
    Contestant(
        "no-scaling",
        "no scaling by √d_k",
        {"score": "unscaled"},
        expected="worse",
        says="large dot products saturate the softmax, and its gradient dies",
    ),
    Contestant(
        "one-head", "one head", {"heads": 1}, expected="worse", says="heads look at different things at once"
    ),
    Contestant(
        "raw",
        "raw Q = K = V",
        change="raw",
        expected="worse",
        says="without W^Q, W^K and W^V a token mostly attends to itself",
    ),
    Contestant(
        "no-positions",
        "no positions",
        {"positions": "none"},
        expected="worse",
        says="attention alone sees a bag of words",
    ),
    Contestant(
        "no-residual",
        "no residual",
        change="no-residual",
        expected="worse",
        says="gradients and the tokens themselves get lost on the way up",
    ),
    Contestant(
        "no-norm",
        "no norm",
        {"norm_kind": "no-norm"},
        expected="worse",
        says="the sums grow from layer to layer and training becomes unstable",
    ),
    Contestant(
        "no-feed-forward",
        "no feed-forward",
        change="no-feed-forward",
        expected="worse",
        says="attention only mixes; the feed-forward layers transform",
    ),
    Contestant(
        "one-layer",
        "one layer instead of two",
        {"encoder_layers": 1, "decoder_layers": 1},
        expected="worse",
        says="depth composes",
    ),
    Contestant(
        "learned",
        "learned positions",
        {"positions": "learned"},
        expected="equal",
        says="nearly identical results (table 3, row E of the paper)",
    ),
    Contestant(
        "additive",
        "additive score",
        {"score": "additive"},
        expected="equal",
        says="about as good, but slower in practice (section 3.2.1 of the paper)",
    ),
    Contestant(
        "bilinear", "bilinear score", {"score": "bilinear"}, expected="equal", says="another way to compare"
    ),
    Contestant(
        "projected",
        "projected score",
        {"score": "projected"},
        expected="equal",
        says="another way to compare",
    ),
)
OTHERS = (
    Contestant("rotary", "rotary positions", {"positions": "rotary"}, expected="equal"),
    Contestant("alibi", "ALiBi", {"positions": "alibi"}, expected="equal"),
    Contestant("post-norm", "norms after the sub-layers", {"norm": "post"}, expected="equal"),
)
"""known by name, but not part of the default rows"""


@dataclass(frozen=True)
class Plan:
    """What all contestants on one kind of text share, and the rate that was found for each."""

    transformer: Mapping[str, Any]
    recurrent: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    train: Mapping[str, Any]
    metric: str
    """`words`, `exact` or `bleu`: see `measure.py`"""
    rates: Mapping[str, float]
    """peak learning rates; who is not named takes that of the Transformer, or of the LSTM with attention.
    `glass compare --tune` looks for better ones on validation pairs"""

    def settled(self, contestant: Contestant) -> Contestant:
        """The contestant with this plan's sizes, and its rate unless it brings one."""
        sizes = self.recurrent if contestant.recurrent else self.transformer
        rate = contestant.rate or self.rates.get(contestant.name) or self.rates[_family(contestant)]
        return replace(contestant, model={**sizes, **contestant.model}, rate=rate)


def _family(contestant: Contestant) -> str:
    return "lstm-dot" if contestant.recurrent else "transformer"


_NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
_TRANSFORMER = {"encoder_layers": 2, "decoder_layers": 2, "norm": "pre", **_NO_DROPOUT}
_LSTM = {"encoder_layers": 1, "decoder_layers": 1, **_NO_DROPOUT}
_FRAGILE = {"no-norm": 0.001, "no-residual": 0.001}
# Few layers: short runs want many updates. Widths are such that all have about as many weights.
PLANS = {
    "language": Plan(
        {**_TRANSFORMER, "width": 96, "feed_forward": 384, "heads": 4},
        {**_LSTM, "width": 160},
        {"kind": "symbols"},
        {"batch_tokens": 600, "warmup": 100, "ema": 50, "label_smoothing": 0.0},
        "words",
        # The best of two to five rates each, 400 updates (docs/LOG.md), for bilinear attention whole runs;
        # who is not here was best at 0.003.
        {
            "transformer": 0.003,
            "lstm": 0.006,
            "lstm-dot": 0.008,
            "lstm-additive": 0.008,
            "lstm-bilinear": 0.006,
            "raw": 0.004,
            "no-norm": 0.004,
            "no-residual": 0.001,
            "no-positions": 0.006,
            "no-feed-forward": 0.004,
            "projected": 0.002,
        },
    ),
    "characters": Plan(
        {**_TRANSFORMER, "width": 128, "feed_forward": 512, "heads": 4},
        {**_LSTM, "width": 208},
        {"kind": "characters"},
        {"batch_tokens": 1500, "warmup": 200, "ema": 100, "label_smoothing": 0.0},
        "exact",
        {"transformer": 0.003, "lstm": 0.004, "lstm-dot": 0.004, **_FRAGILE},
    ),
    "sentences": Plan(
        {**_TRANSFORMER, "width": 192, "feed_forward": 768, "heads": 4},
        {**_LSTM, "width": 320},
        {"kind": "bpe", "size": 4000},
        {"batch_tokens": 700, "warmup": 300, "ema": 150, "label_smoothing": 0.1},
        "bleu",
        {"transformer": 0.003, "lstm": 0.003, "lstm-dot": 0.003, **_FRAGILE},
    ),
}
SWEEP = (0.001, 0.002, 0.004, 0.008, 0.016)
"""peak learning rates that `--tune` tries"""


def choose(names: Sequence[str], default: Sequence[Contestant]) -> list[Contestant]:
    """The contestants of these names, or the default ones."""
    known = {one.name: one for one in (*ARCHITECTURES, *ABLATIONS, *OTHERS)}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise RequestError(f"there is no contestant '{name}'; {hint}")
    return [known[name] for name in dict.fromkeys(names)] or list(default)
