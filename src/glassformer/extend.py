"""Parts of your own that a configuration may name: a score, positions, a norm. No torch here.

    @extend.score("cosine")
    class Cosine(Score): ...

    build_model(ModelConfig(score="cosine"), vocabulary)

docs/EXTENDING.md has whole examples. A name lives as long as the program runs: whoever opens a model that
was built with one runs the same lines first, and is told so otherwise. What is plugged in is any callable
that makes the part from a few plain numbers, mostly the class itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from glassformer.config import ModelConfig
from glassformer.errors import ConfigError

Make = TypeVar("Make", bound=Callable[..., Any])

SCORES: dict[str, Callable[[int, int], Any]] = {}
"""(heads, head_width) → Score"""
ADDED_POSITIONS: dict[str, Callable[[int], Any]] = {}
"""(width) → Positions that are added to the embeddings"""
ATTENTION_POSITIONS: dict[str, Callable[[int, int], Any]] = {}
"""(heads, head_width) → Positions that act inside self-attention"""
NORMS: dict[str, Callable[[int], Any]] = {}
"""(width) → a module that normalises the last axis"""

_KEYS: dict[str, list[dict[str, Any]]] = {
    "score": [SCORES],
    "positions": [ADDED_POSITIONS, ATTENTION_POSITIONS],
    "norm_kind": [NORMS],
}


def score(name: str) -> Callable[[Make], Make]:
    """`model.score = name` stands for what is decorated; it is called with heads and head_width."""
    return _plug_in("score", name, SCORES)


def added_positions(name: str) -> Callable[[Make], Make]:
    """`model.positions = name` stands for what is decorated; it is called with width."""
    return _plug_in("positions", name, ADDED_POSITIONS)


def attention_positions(name: str) -> Callable[[Make], Make]:
    """`model.positions = name` stands for what is decorated; it is called with heads and head_width."""
    return _plug_in("positions", name, ATTENTION_POSITIONS)


def norm(name: str) -> Callable[[Make], Make]:
    """`model.norm_kind = name` stands for what is decorated; it is called with width."""
    return _plug_in("norm_kind", name, NORMS)


def names(key: str) -> list[str]:
    """What has been plugged in for a key of ModelConfig."""
    return list(dict.fromkeys(name for parts in _KEYS.get(key, []) for name in parts))


def hint(key: str) -> str:
    """What to add to the message when a key of ModelConfig names what is not there."""
    return "; a part of your own must be plugged in first (docs/EXTENDING.md)" if key in _KEYS else ""


def _plug_in(key: str, name: str, parts: dict[str, Any]) -> Callable[[Make], Make]:
    if name in get_args(get_type_hints(ModelConfig)[key]):
        # Other models count on the name meaning what it has always meant.
        raise ConfigError(f"model.{key} = {name!r} is there already: choose another name for your own")

    def plug_in(make: Make) -> Make:
        parts[name] = make  # again, in a notebook: the newest counts
        return make

    return plug_in
