"""How is this module called? Find out which argument takes which input, and which axis is time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.build import plain, signature
from glassformer.check.mask_forms import MaskForm, forms
from glassformer.check.tools import CannotCallError, numbers, tensors, tolerance

BATCH, TARGET, SOURCE = 3, 5, 7

_QUERY = ("q", "query", "queries", "xq", "queryinput", "queryx")
_KEY = ("k", "key", "keys", "xk", "keyinput")
_VALUE = ("v", "value", "values", "val", "xv", "valueinput")
_MEMORY = (
    *("memory", "context", "ctx", "enc", "encsrc", "encoutput", "encout", "encoderoutput", "encoderoutputs"),
    *("encoutputs", "encoderout", "encoderhiddenstates", "kv", "encx", "encoded", "encoderstates", "cross"),
)
_SWITCHES = {"needweights": False}


@dataclass
class Caller:
    """A module on sequences of vectors, called the same way whatever its own way is.

    `roles` says which parameter takes what: query, key, value, or memory (keys and values at once). A
    module with nothing but a query is self-attention or a layer. Results are batch first.
    """

    function: Callable[..., Any]
    roles: dict[str, str]
    masks: tuple[str, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    open_masks: dict[str, MaskForm] = field(
        default_factory=dict
    )  # must be given even to let everything through
    time_first: bool = False
    head_axis: bool = False
    dtype: torch.dtype = torch.float32

    @property
    def module(self) -> nn.Module | None:
        return self.function if isinstance(self.function, nn.Module) else None

    @property
    def self_only(self) -> bool:
        return set(self.roles.values()) == {"query"}

    @property
    def cross(self) -> bool:
        return not self.self_only

    def __call__(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, **masks: Any
    ) -> Tensor:
        """The output_BTD. Left out, key and value are the query."""
        output = self.everything(query, key, value, **masks)
        expected = (len(query), query.shape[1])
        for tensor in tensors(output):
            shaped = self._back(tensor)
            if shaped.dim() == 3 and shaped.shape[:2] == expected and shaped.is_floating_point():
                return shaped
        raise CannotCallError(
            f"no output of shape {(*expected, query.shape[-1])}: it returns "
            f"{', '.join(str(tuple(tensor.shape)) for tensor in tensors(output)) or type(output).__name__}"
        )

    def everything(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, **masks: Any
    ) -> Any:
        """What the module itself returns."""
        key = query if key is None else key
        inputs = {"query": query, "key": key, "value": key if value is None else value, "memory": key}
        given = {name: self._forth(inputs[role].to(self.dtype)) for name, role in self.roles.items()}
        everything = torch.ones(len(query), query.shape[1], key.shape[1], dtype=torch.bool)
        opened = {name: form.make(everything, 4) for name, form in self.open_masks.items()}
        return self.function(**{**given, **self.fixed, **opened, **masks})

    def weights(self, query: Tensor, key: Tensor) -> Tensor | None:
        """Attention weights, if they are returned besides the output."""
        shape = (query.shape[1], key.shape[1])
        found = [t for t in tensors(self.everything(query, key)) if t.dim() >= 3 and t.shape[-2:] == shape]
        return found[0] if found else None

    def describe(self) -> str:
        shown = [f"{name}=…" if role else name for name, role in self.roles.items()]
        order = "(time, batch, width)" if self.time_first else "(batch, time, width)"
        return f"forward({', '.join(shown + [f'{name}=' for name in self.masks])}), inputs {order}"

    def _forth(self, x_BTD: Tensor) -> Tensor:
        if self.head_axis:
            return x_BTD[:, None].repeat(1, 2, 1, 1)
        return (x_BTD.transpose(0, 1) if self.time_first else x_BTD).contiguous()

    def _back(self, x: Tensor) -> Tensor:
        if self.head_axis:
            return x[:, 0] if x.dim() == 4 else x
        return x.transpose(0, 1) if self.time_first and x.dim() == 3 else x


def find_caller(function: Callable[..., Any], width: int) -> Caller:
    """The first way of calling that gives an output of the right length; CannotCallError if none does."""
    errors: list[str] = []
    for caller in _candidates(function):
        try:
            with torch.no_grad():
                _run(caller, width)
                if not _uses_memory(caller, width):
                    continue
                caller = _with_layout(caller, width)
            return _with_precision(caller, width)
        except Exception as error:
            errors.append(
                error.args[0] if isinstance(error, CannotCallError) else f"{type(error).__name__}: {error}"
            )
    raise CannotCallError(errors[0] if errors else "its forward takes no inputs")


def _run(caller: Caller, width: int, seed: int = 0) -> Tensor:
    x_BTD = numbers(BATCH, TARGET, width, seed=seed)
    key, value = numbers(BATCH, TARGET, width, seed=seed + 1), numbers(BATCH, TARGET, width, seed=seed + 2)
    return caller(x_BTD) if caller.self_only else caller(x_BTD, key, value)


def _candidates(function: Callable[..., Any]) -> Iterator[Caller]:
    target = function.forward if isinstance(function, nn.Module) else function
    parameters = _inputs(target)
    every_mask = tuple(name for name in parameters if is_mask(name))
    switches = {name: _SWITCHES[plain(name)] for name in parameters if plain(name) in _SWITCHES}
    needed = [n for n in every_mask if parameters[n].default is inspect.Parameter.empty]
    for roles in _role_guesses(parameters):
        # Without memory there is nothing for its masks to hide.
        alone = "memory" not in roles.values()
        masks = tuple(name for name in every_mask if not (alone and _of_memory(name)))
        given = {name for name, p in parameters.items() if p.default is inspect.Parameter.empty}
        missing = dict.fromkeys(given - set(roles) - set(switches))
        for head_axis in (False, True):
            yield Caller(function, roles, masks, {**missing, **switches}, head_axis=head_axis)
        for form in forms() if needed else ():
            fixed = {**{name: None for name in missing if name not in needed}, **switches}
            yield Caller(function, roles, masks, fixed, dict.fromkeys(needed, form))


def _inputs(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        parameters = signature(target).parameters
    except (TypeError, ValueError) as error:
        raise CannotCallError(f"it has no signature that can be read: {error}") from error
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in parameters.items() if parameter.kind in kinds}


def is_mask(name: str) -> bool:
    return any(part in plain(name) for part in ("mask", "valid", "mayattend", "padding"))


def _of_memory(name: str) -> bool:
    return any(part in plain(name) for part in ("encoder", "memory", "cross"))


def _role_guesses(parameters: dict[str, inspect.Parameter]) -> Iterator[dict[str, str]]:
    """Which parameter is what: by its name, else by its place."""
    by_name: dict[str, str] = {}
    for role, names in (("query", _QUERY), ("key", _KEY), ("value", _VALUE), ("memory", _MEMORY)):
        by_name |= {name: role for name in parameters if plain(name) in names}
    found = set(by_name.values())
    if {"query", "key", "value"} <= found:
        yield {name: role for name, role in by_name.items() if role != "memory"}
    plain_inputs = [
        n for n in parameters if n not in by_name and not is_mask(n) and plain(n) not in _SWITCHES
    ]
    required = [n for n in plain_inputs if parameters[n].default is inspect.Parameter.empty]
    if "memory" in found and "query" in found:
        yield {name: role for name, role in by_name.items() if role in ("query", "memory")}
    if "memory" in found and required:
        yield {required[0]: "query"} | {name: role for name, role in by_name.items() if role == "memory"}
    every = [n for n in parameters if not is_mask(n) and parameters[n].default is inspect.Parameter.empty]
    if len(every) >= 3:
        yield dict(zip(every, ("query", "key", "value"), strict=False))
    if len(every) == 2:
        yield dict(zip(every, ("query", "memory"), strict=False))
    if every:
        yield {every[0]: "query"}


def _uses_memory(caller: Caller, width: int) -> bool:
    """A layer may take an encoder's output and have no use for it; then it is not asked for."""
    if "memory" not in caller.roles.values():
        return True
    x, first, second = (numbers(BATCH, TARGET, width, seed=seed) for seed in (1, 2, 3))
    return bool((caller(x, first) - caller(x, second)).abs().max() > tolerance(x))


def _with_layout(caller: Caller, width: int) -> Caller:
    """Is the first axis batch or time? Sentences must not mix, tokens should."""
    if caller.head_axis:
        return caller
    x = numbers(BATCH, TARGET, width, seed=5)
    changed = x.clone()
    changed[0, 0] += 1.0

    def difference(one: Tensor, other: Tensor) -> Tensor:
        before = caller(one) if caller.self_only else caller(x, one, one)
        after = caller(other) if caller.self_only else caller(x, other, other)
        return (before - after).abs().amax(-1)

    moved = difference(x, changed) > tolerance(x)
    mixes_rows, mixes_columns = bool(moved[1:, 0].any()), bool(moved[0, 1:].any())
    if mixes_rows and not mixes_columns:
        caller.time_first = True
    return caller


def _with_precision(caller: Caller, width: int) -> Caller:
    """Double precision, if the module takes it: what is zero and what is small can then be told apart."""
    if _works_in(caller, torch.float64, width):
        return caller
    _works_in(caller, torch.float32, width)
    return caller


def _works_in(caller: Caller, dtype: torch.dtype, width: int) -> bool:
    caller.dtype = dtype
    if caller.module is not None:
        caller.module.to(dtype)
    try:
        with torch.no_grad():
            return _run(caller, width).dtype == dtype
    except Exception:  # whatever a foreign module says to a type it does not like
        return False
