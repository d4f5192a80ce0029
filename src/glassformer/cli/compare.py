"""`glass compare`: what the Transformer replaced, and what each of its parts is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

Flag = Annotated[bool, Parameter(negative=())]

WHAT = """
LSTMs without attention and with dot, additive and bilinear attention learn the same text as the Transformer
in the same time, each at its own learning rate, in turns of a few seconds. Then come quality by sentence
length (is one vector a bottleneck?), tokens a second in training, and the time of one pass over ever longer
sentences (what does it cost to read one word after the other?). The report says of each claim of the
tutorials whether this run has seen it, not seen it, or contradicts it.

glass compare: eleven minutes of training, then the tests

glass compare --ablations --to parts: what each part of the Transformer is worth

glass compare --data tatoeba-en-es --longest 12 --minutes 60: real sentences, and longer ones than in training
"""

compare = App(name="compare", help_epilogue=WHAT)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Compare:
    """What is compared, on what, for how long."""

    to: Path = Path("comparison")
    """directory for README.md (the report), result.json and the figures"""
    ablations: Flag = False
    """one row a part instead: the Transformer without scaling, heads, projections, positions, residual, norm,
    feed-forward, depth; with learned positions; with each other score"""
    data: str = "language"
    """language: a made-up one in which length matters, no download; or a named corpus such as tatoeba-en-es
    (see `glass data list`); or a .tsv or .jsonl file of pairs"""
    minutes: float = 11.0
    """of training, shared equally among the contestants; testing and timing take another two or so"""
    only: str = ""
    """these contestants only, such as transformer,lstm,lstm-dot or transformer,learned,rotary,alibi"""
    longest: int = 0
    """train on pairs of at most so many tokens a side, so that the test has longer ones than training
    (0: 24 for the made-up language, else nothing is left out)"""
    tune: Flag = False
    """try five learning rates for each contestant first, on validation pairs; takes as long again"""
    seed: int = 1
    """decides the data, the initial weights and the order of training"""
    threads: int = 0
    """processor threads; 0 means one for each core"""


@compare.default
def run(what: Compare = Compare()) -> None:  # noqa: B008 - frozen
    """Train the Transformer beside what it replaced, or without each of its parts."""
    import torch

    from glassformer.compare.report import table
    from glassformer.compare.run import Settings
    from glassformer.compare.run import compare as train_and_test
    from glassformer.compare.verdicts import verdicts
    from glassformer.train.allocator import keep_memory

    if what.threads:
        torch.set_num_threads(what.threads)
    keep_memory()
    names = [name.strip() for name in what.only.split(",") if name.strip()]
    asked = Settings(what.data, what.ablations, names, what.minutes, what.longest, what.tune, what.seed)
    result, _, paths = train_and_test(asked, what.to)
    print(table(result))
    print()
    for verdict in verdicts(result):
        print(f"{verdict.outcome:<12} {verdict.claim}\n{'':12} {verdict.evidence}")
    print(f"\n{', '.join(path.name for path in paths)} are in {what.to}")
