"""From whatever the user names to something that can be probed: build it, call it, and see what kind it is.

The kind is told by behaviour as well: attention of one token is linear, a layer is not, positions do not
depend on the token, a model takes token ids, a loss returns one number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.adapters import ADAPTERS, of_adapter
from glassformer.check.build import Built, Sizes, build, cannot_guess
from glassformer.check.calling import Caller, find_caller
from glassformer.check.losses import find_loss, find_own_loss
from glassformer.check.mask_functions import find_mask
from glassformer.check.models import ModelCaller, find_model, ids, influence_on
from glassformer.check.positions import find_positions
from glassformer.check.subjects import Subject
from glassformer.check.tools import (
    CannotCallError,
    is_gain,
    no_biases,
    no_dropout,
    numbers,
    randomise,
    safe_copy,
    same,
    trained,
)


def adapt(target: Any, kind: str, sizes: Sizes, given: dict[str, Any]) -> Subject:
    """The target as a subject of the wanted kind ("" to find out); CannotCallError with the reason."""
    with no_dropout():  # chance must not hide what it is
        return _adapt(target, kind, sizes, given)


def _adapt(target: Any, kind: str, sizes: Sizes, given: dict[str, Any]) -> Subject:
    name = getattr(target, "__name__", type(target).__name__)
    if type(target) in ADAPTERS:
        return of_adapter(target, name)
    errors: list[CannotCallError] = []
    for built in _instances(target, sizes, given):
        if type(built.instance) in ADAPTERS:
            return of_adapter(built.instance, name)
        try:
            subject = replace(_recognise(built, kind, sizes), name=name)
            if "layers" in built.roles.values():
                subject.extra["grows"] = _grows(target, built, sizes, given)
            return subject
        except CannotCallError as error:
            errors.append(cannot_guess(built.unknown) if built.unknown else error)
    raise max(errors, key=_telling) if errors else CannotCallError("it is nothing that can be called")


def _instances(target: Any, sizes: Sizes, given: dict[str, Any]) -> Iterator[Built]:
    """An instance as it is; a class built; a function as it is, then what it returns if it is a factory."""
    if isinstance(target, nn.Module) or not (inspect.isclass(target) or inspect.isfunction(target)):
        yield Built(target, {}, {}, [])
    elif inspect.isclass(target):
        yield from build(target, sizes, given)
    else:
        yield Built(target, {}, {}, [])
        for built in build(target, sizes, given):
            if (
                isinstance(built.instance, (nn.Module, Tensor))
                or type(built.instance) in ADAPTERS
                or _is_array(built)
            ):
                yield built


def _grows(target: Any, built: Built, sizes: Sizes, given: dict[str, Any]) -> bool:
    """Does it have more parameters with one more layer?"""
    larger = next(build(target, replace(sizes, layers=sizes.layers + 1), given))
    before, after = (sum(p.numel() for p in trained(one.instance)) for one in (built, larger))
    return after > before


def _is_array(built: Built) -> bool:
    return hasattr(built.instance, "__array__")


def _recognise(built: Built, kind: str, sizes: Sizes) -> Subject:
    instance = safe_copy(built.instance)
    errors: dict[str, CannotCallError] = {}
    for wanted, adapt_as in _KINDS.items():
        if kind in ("", wanted):
            try:
                return adapt_as(built, instance, sizes)
            except CannotCallError as error:
                errors[wanted] = CannotCallError(str(error), wanted)
                instance = safe_copy(built.instance)
    if "layer" in errors and "Error" not in str(errors["layer"]):
        raise errors["layer"]  # it can be called with vectors, but is none of what we know
    raise max(errors.values(), key=_telling)


def _telling(error: CannotCallError) -> int:
    """What torch says about shapes tells more than that an argument is missing, or that it is no loss."""
    said = str(error)
    if "RuntimeError" in said:
        return 3 if error.during == "attention" else 2
    return 1 if "Error" in said and "TypeError" not in said else 0


def _on_vectors(built: Built, instance: Any, sizes: Sizes) -> tuple[Caller, int]:
    """A caller and its width. An instance tells its width by the only one it takes."""
    widths = [sizes.width]
    if not trained(instance) and "width" not in built.roles.values():
        widths = [sizes.head_width, sizes.width]
    elif not built.arguments:
        widths = sorted({size for p in trained(instance) for size in p.shape if size > 1}, reverse=True)
    errors = []
    for width in widths or [sizes.width]:
        try:
            return find_caller(instance, width), width
        except CannotCallError as error:
            errors.append(str(error))
    raise CannotCallError(errors[0])


def _attention(built: Built, instance: Any, sizes: Sizes) -> Subject:
    caller, width = _on_vectors(built, instance, sizes)
    if sorted(set(caller.roles.values())) == ["key", "query", "value"]:
        if sum(map(is_gain, trained(instance))) > 1 and _tokens_mix(caller, width):
            raise CannotCallError("it has norms, and its queries see each other: a decoder's layer")
    elif not _looks_like_attention(caller, width):
        raise CannotCallError("it takes one sequence, but does not weigh its tokens as attention does")
    randomise(caller.module, width)
    heads = next((built.arguments[name] for name, role in built.roles.items() if role == "heads"), None)
    if heads is None and built.arguments and trained(instance) and "config" in built.roles.values():
        heads = sizes.heads
    return Subject("attention", "", instance, caller, width, heads, _made(built))


@torch.no_grad()
def _looks_like_attention(caller: Caller, width: int) -> bool:
    """One token alone gets its own value, a linear map of it and of nothing else; several are weighed."""
    first, second = numbers(1, 1, width, seed=1), numbers(1, 1, width, seed=2)
    with no_biases(caller.module, width):
        if caller.cross and not same(caller(first, second), caller(second, second)):
            return False
        zero = caller(torch.zeros_like(first))
        several = numbers(1, 5, width, seed=3), numbers(1, 5, width, seed=4)
        alone = same(zero, torch.zeros_like(zero)) and _additive(caller, first, second)
        return alone and not _additive(caller, *several)


def _additive(caller: Caller, first: Tensor, second: Tensor) -> bool:
    return same(caller(first) + caller(second), caller(first + second))


@torch.no_grad()
def _tokens_mix(caller: Caller, width: int) -> bool:
    x, memory = numbers(1, 4, width, seed=1), numbers(1, 4, width, seed=2)
    changed = x.clone()
    changed[0, 0] = numbers(width, seed=3)
    before, after = caller(x, memory), caller(changed, memory)
    return not same(before[:, 1:], after[:, 1:])


def _positions(built: Built, instance: Any, sizes: Sizes) -> Subject:
    if callable(instance) and not isinstance(instance, nn.Module):
        raise CannotCallError("a function of tensors makes no table of positions")
    widths = {p.shape[-1] for p in [*trained(instance), *_buffers(instance)] if p.dim() >= 2}
    for width in [sizes.width] if built.arguments else sorted(widths) or [sizes.width]:
        found = find_positions(instance, width)
    return Subject("positions", "", instance, width=width, made_by=_made(built), extra={"positions": found})


def _buffers(instance: Any) -> list[Tensor]:
    return list(instance.buffers()) if isinstance(instance, nn.Module) else []


def _mask(built: Built, instance: Any, sizes: Sizes) -> Subject:
    if isinstance(instance, nn.Module) or not callable(instance):
        raise CannotCallError("a mask is made by a function")
    found = find_mask(instance)
    return Subject("mask", "", instance, made_by=found.how, extra={"mask": found})


def _layer(built: Built, instance: Any, sizes: Sizes) -> Subject:
    if not isinstance(instance, nn.Module):
        raise CannotCallError("a layer is a module")
    caller, width = _on_vectors(built, instance, sizes)
    if not _tokens_mix(caller, width):
        raise CannotCallError("it is neither attention nor positions, and treats each token by itself")
    randomise(caller.module, width)
    layers = sizes.layers if "layers" in built.roles.values() else 1
    return Subject("layer", "", instance, caller, width, sizes.heads, _made(built), {"layers": layers})


def _transformer(built: Built, instance: Any, sizes: Sizes) -> Subject:
    if not isinstance(instance, nn.Module):
        raise CannotCallError("a model is a module")
    vocabularies = [sizes.vocabulary]
    if not built.arguments:
        vocabularies = sorted({p.shape[0] for p in trained(instance) if p.dim() == 2}, reverse=True)
    errors = []
    for vocabulary in vocabularies:
        try:
            caller = find_model(instance, vocabulary)
        except CannotCallError as error:
            errors.append(str(error))
            continue
        if not _sees_others(caller):
            raise CannotCallError("it treats each token by itself")
        extra = {"model": caller, "pad": sizes.pad if "pad" in built.roles.values() else None}
        return Subject("transformer", "", instance, made_by=_made(built), extra=extra)
    raise CannotCallError(errors[0] if errors else "it has no embedding")


@torch.no_grad()
def _sees_others(caller: ModelCaller) -> bool:
    """Does any prediction depend on another token than its own?"""
    source, target = ids(2, 5, caller.vocabulary), ids(2, 5, caller.vocabulary, seed=1)
    seen_TT = influence_on(lambda tokens: caller(source, tokens), target, caller.vocabulary)
    return caller.has_source or bool((seen_TT & ~torch.eye(*seen_TT.shape, dtype=torch.bool)).any())


def _loss(built: Built, instance: Any, sizes: Sizes) -> Subject:
    pad = sizes.pad if "pad" in built.roles.values() else None
    if isinstance(instance, nn.Module) and len(trained(instance)) > 4:
        own = find_own_loss(instance)
        return Subject("loss", "", instance, made_by=_made(built), extra={"own": own, "pad": pad})
    if not callable(instance):
        raise CannotCallError("a loss is called")
    found = find_loss(instance)
    return Subject(
        "loss", "", instance, made_by=f"{_made(built)} {found.name}", extra={"loss": found, "pad": pad}
    )


def _made(built: Built) -> str:
    return str(built) if built.arguments else ""


_KINDS: dict[str, Callable[[Built, Any, Sizes], Subject]] = {
    "mask": _mask,
    "positions": _positions,
    "attention": _attention,
    "layer": _layer,
    "transformer": _transformer,
    "loss": _loss,
}
