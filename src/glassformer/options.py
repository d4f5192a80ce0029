"""What a request may ask for: a bundle's own search settings, and what is wanted otherwise this time."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypedDict

from glassformer import settings
from glassformer.config import BundleConfig
from glassformer.errors import ConfigError, RequestError
from glassformer.search.scoring import Penalty, SearchOptions


class Options(TypedDict, total=False):
    """What a request may ask for; what is left out is as the bundle says."""

    beams: int
    """hypotheses kept at each step; 1 is greedy search"""
    n_best: int
    """how many translations: the best one and its alternatives; with sampling, how many are drawn"""
    penalty: Penalty
    """length: score = log p / length^α; wu: log p / ((5 + length) / 6)^α"""
    length_penalty: float
    """α of the penalty"""
    stop: Literal["beam_finished", "exact"]
    """exact goes on until no better translation can come"""
    min_length: int
    """fewest tokens"""
    max_length: int
    """most tokens, the end included; 0 means 2 × source + 32"""
    no_repeat_ngram: int
    """never say the same n tokens twice"""
    prefix: str | Sequence[str]
    """what the translation has to begin with, in whole words; one for all texts, or one for each"""
    sampling: bool
    """draw at random instead of searching for the likeliest"""
    temperature: float
    """below 1 makes likely words likelier"""
    top_k: int
    """draw from the k likeliest tokens"""
    top_p: float
    """draw from the fewest tokens that hold this share of the probability"""
    seed: int
    """the same seed gives the same draws"""
    align: bool
    """say which source word each word came from"""


def search_options(config: BundleConfig, options: Options) -> SearchOptions:
    """A bundle's search settings with what this request asks for; all problems are named at once."""
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    unknown = [key for key in given if key not in Options.__annotations__]
    if unknown:
        raise RequestError(
            f"unknown options {', '.join(unknown)}; there are {', '.join(Options.__annotations__)}"
        )
    names = {item.name for item in dataclasses.fields(SearchOptions)}
    asked = {key: value for key, value in given.items() if key in names}
    if not asked.get("sampling") and "beams" not in asked:
        asked["beams"] = max(config.search.beams, asked.get("n_best", 1))
    try:
        return settings.from_mapping(SearchOptions, {**settings.to_mapping(config.search), **asked})
    except ConfigError as error:
        raise RequestError(str(error)) from None


def prefixes_of(prefix: str | Sequence[str] | None) -> Iterator[str]:
    """One for each text: the same again and again, or those that were given."""
    if prefix is None or isinstance(prefix, str):
        return itertools.repeat(prefix or "")
    return iter(prefix)
