"""From a class to an instance: guess what the arguments of a constructor want.

Names are only used to find a call that works. What is right and wrong is judged by behaviour alone.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from glassformer.check.tools import CannotCallError


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Small, and different from each other, so that axes can't be confused unnoticed."""

    width: int = 24
    heads: int = 4
    feed_forward: int = 40
    expansion: int = 2
    layers: int = 2
    vocabulary: int = 17
    max_length: int = 32
    dropout: float = 0.3
    pad: int = 0

    @property
    def head_width(self) -> int:
        return self.width // self.heads


@dataclasses.dataclass
class Built:
    """An instance, the arguments that made it, and which sizes they stand for."""

    instance: Any
    arguments: dict[str, Any]
    roles: dict[str, str]
    unknown: list[str]  # arguments whose meaning was guessed

    def __str__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.arguments.items())
        return f"({', '.join(value for value in shown if len(value) < 40)})"


# The first role that a pattern gives is tried first; names are lower case, without underscores.
_PATTERNS: list[tuple[str, tuple[str, ...]]] = [
    (
        r"(src|source|trg|tgt|target|input|output|n|num)*(vocab|vocabulary|tokens?)(size|len|dim)?",
        ("vocabulary",),
    ),
    (r"ntokens?|dictsize|numembeddings|(src|tgt|trg)(size|ntoken|dim)|(enc|dec)vocsize", ("vocabulary",)),
    (r"inputdim|indim|outputdim|outdim|inputsize|outputsize|insize|outsize", ("width", "vocabulary")),
    (r"(src|trg|tgt|source|target)?pad(ding)?(idx|id|index|tokenid|token)?", ("pad",)),
    (r"(num|n)?heads?|h|nhead|nheads|numattentionheads|headcount|attentionheads|numhead", ("heads",)),
    (
        r"d?k|d?v|dq|headdim|dimhead|dhead|headsize|headwidth|dimperhead|(d|dim)(key|value|query)s?",
        ("head_width",),
    ),
    (r"(key|value|query)s?(size|dim|width)|[kv]dim", ("width", "head_width")),
    (r".*drop.*|p|pdrop|rate", ("dropout",)),
    (r"d?inner|.*(ff|feedforward|mlp|pf).*|innerdim", ("feed_forward", "width")),
    (r".*expansion", ("expansion",)),
    (
        r"(num|n)(encoder|decoder|enc|dec)?(layers?|blocks?|blks?)|layers|depth|n|(enc|dec)layers|nblock",
        ("layers",),
    ),
    (
        r"max.*(len|length|positions?|size)|blocksize|seqlen(gth)?|contextlength|nposition|maxlen|length",
        ("max_length",),
    ),
    (r"temperature|scale|temp", ("temperature",)),
    (
        r"d|dmodel|(embed|emb|embedding|embeddings)(dim|size)?|(hid|hidden|model|word)(dim|size|width|s)?",
        ("width",),
    ),
    (r"dim|width|nembd|units|numhiddens|features|dwordvec|nhid|ninp|normalizedshape|normshape", ("width",)),
    (r"size|classes|numclasses|nclasses", ("width", "vocabulary")),
    (r"device", ("device",)),
    (r"config|cfg|conf|args|hparams|params|options|opt", ("config",)),
]


def build(target: Callable[..., Any], sizes: Sizes, given: dict[str, Any]) -> Iterator[Built]:
    """Instances of `target`, likeliest arguments first. `given` arguments are taken as they are."""
    parameters = _parameters(target)
    choices: dict[str, list[tuple[str, Any]]] = {}
    for name, parameter in parameters.items():
        if name in given:
            choices[name] = [("given", given[name])]
            continue
        wanted = ["config"] if dataclasses.is_dataclass(parameter.annotation) else _roles(name)
        found = [(role, _value(role, parameter, sizes)) for role in wanted]
        found = [(role, value) for role, value in found if value is not None]
        if parameter.default is inspect.Parameter.empty:
            choices[name] = found or [("unknown", value) for value in _guesses(sizes)]
        elif found and parameter.default not in (None, True, False, 0):
            choices[name] = found
    unknown = [name for name, choice in choices.items() if choice[0][0] == "unknown"]
    if len(unknown) > 2:
        raise cannot_guess(unknown)
    if len(unknown) == 2:  # a width and a number of heads, in one order or the other
        choices |= {name: choices[name][:2] for name in unknown}
    errors: list[str] = []
    for combination in itertools.islice(itertools.product(*choices.values()), 50):
        arguments = {name: value for name, (_, value) in zip(choices, combination, strict=True)}
        roles = {name: role for name, (role, _) in zip(choices, combination, strict=True)}
        try:
            torch.manual_seed(0)
            yield Built(target(**arguments), arguments, roles, unknown)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    if errors:
        raise CannotCallError(f"its constructor fails: {errors[0]}")


def cannot_guess(unknown: list[str]) -> CannotCallError:
    return CannotCallError(
        f"its constructor wants {', '.join(unknown)}, which we can't guess: give them with --argument, "
        "or write an adapter"
    )


def _parameters(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        found = signature(target).parameters
    except (TypeError, ValueError) as error:
        raise CannotCallError(f"it has no signature that can be read: {error}") from error
    spread = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: parameter for name, parameter in found.items() if parameter.kind not in spread}


def signature(target: Callable[..., Any]) -> inspect.Signature:
    """With annotations as objects if they can be resolved, else as they are written."""
    try:
        return inspect.signature(target, eval_str=True)
    except Exception:
        return inspect.signature(target)


def plain(name: str) -> str:
    """d_model, dModel and d_model_BTD alike become dmodel: axes at the end of a name are dropped."""
    return re.sub(r"_[A-Z][A-Z0-9]*$", "", name).replace("_", "").lower()


def _roles(name: str) -> list[str]:
    return [role for pattern, roles in _PATTERNS if re.fullmatch(pattern, plain(name)) for role in roles]


def _value(role: str, parameter: inspect.Parameter, sizes: Sizes) -> Any:
    if role == "temperature":
        return None if parameter.default is not inspect.Parameter.empty else sizes.head_width**0.5
    if role == "device":
        return torch.device("cpu") if parameter.default is inspect.Parameter.empty else None
    if role == "config":
        return _config(parameter, sizes) if parameter.default is inspect.Parameter.empty else None
    return getattr(sizes, role)


def _config(parameter: inspect.Parameter, sizes: Sizes) -> Any:
    """A configuration object: an instance of its annotated class, or one that answers to any name."""
    annotation = parameter.annotation
    if dataclasses.is_dataclass(annotation):
        return next(build(annotation, sizes, {})).instance  # type: ignore[arg-type]
    return _AnyConfig(sizes)


class _AnyConfig(dict[str, Any]):
    """Answers config.n_embd and config["n_embd"] by what the name seems to want."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self._sizes = sizes

    def __missing__(self, name: str) -> Any:
        roles = [role for role in _roles(name) if hasattr(self._sizes, role)]
        if roles:
            return getattr(self._sizes, roles[0])
        if "bias" in name:
            return True
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _guesses(sizes: Sizes) -> list[Any]:
    return [sizes.width, sizes.heads, sizes.head_width, sizes.dropout, sizes.max_length]
