"""`glass generate`: go on with a text, with a language model."""

from __future__ import annotations

import dataclasses
import json as json_
import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from glassformer.errors import RequestError

FLAG = Parameter(negative=())


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class How:
    """How the next token is chosen. Nothing said: always the likeliest one."""

    max_tokens: int = 60
    """most tokens that are written; the end of a line ends the text sooner"""
    beams: int | None = None
    """search with so many hypotheses instead"""
    length_penalty: float | None = None
    """of beam search; 0 compares plain log-probabilities"""
    no_repeat_ngram: int | None = None
    """never say the same n tokens twice"""
    sampling: Annotated[bool, Parameter(name="--sample", negative=())] = False
    """draw at random instead"""
    temperature: float | None = None
    """with --sample: below 1 makes likely words likelier"""
    top_k: int | None = None
    """with --sample: draw from the k likeliest tokens"""
    top_p: float | None = None
    """with --sample: draw from the fewest tokens that hold this share of the probability"""
    seed: int | None = None
    """with --sample: the same seed gives the same text"""
    n_best: int | None = None
    """how many texts"""


def generate(
    *prompt: str,
    model: str,
    how: How = How(),  # noqa: B008 - frozen
    json: Annotated[bool, FLAG] = False,
) -> None:
    """Go on with PROMPT. The text appears as it is written.

    Parameters
    ----------
    prompt
        how the text begins; it may be left out
    model
        a bundle or a training run of task language_model
    json
        print a JSON object for each text instead, when all is done
    """
    import random

    from glassformer.bundle import load_reader
    from glassformer.generate import Generator

    options = {key: value for key, value in dataclasses.asdict(how).items() if value is not None}
    drawing = [key for key in ("temperature", "top_k", "top_p", "seed") if key in options]
    if drawing and not how.sampling:
        raise RequestError(f"--{drawing[0].replace('_', '-')} needs --sample")
    if how.sampling and how.seed is None:
        options["seed"] = random.randrange(2**31)
    generator = Generator(load_reader(model, ("language_model",)))
    alone = (how.n_best or 1) == 1 and not json

    def hear(part: str) -> None:
        sys.stdout.write(part)
        sys.stdout.flush()

    found = generator.generate(" ".join(prompt), hear=hear if alone else None, **options)
    if alone:
        print()
        return
    for one in found:
        print(json_.dumps(dataclasses.asdict(one), ensure_ascii=False) if json else one.text)
