"""The forms in which people hand a mask to attention: shapes, types, and whether True keeps or blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MaskForm:
    """A way to write down which keys a query may attend. `keeps`: what is True or 1 may be attended."""

    shape: str
    value: str
    keeps: bool | None  # None for masks that are added to the scores

    def make(self, may_attend_BTS: Tensor, heads: int) -> Tensor | None:
        """The mask in this form, or None if the form can't say it."""
        shaped = _SHAPES[self.shape](may_attend_BTS, heads)
        return None if shaped is None else _VALUES[self.value][1](shaped)

    def __str__(self) -> str:
        meaning = {True: "True = may attend", False: "True = blocked", None: "0 and -inf, added"}[self.keeps]
        return f"{self.shape} {meaning}" if self.shape != "lengths" else "lengths (B,)"


def forms() -> Iterator[MaskForm]:
    """Likeliest first."""
    for shape in _SHAPES:
        if shape == "lengths":
            yield MaskForm(shape, "int", True)
            continue
        for value, (keeps, _) in _VALUES.items():
            yield MaskForm(shape, value, keeps)


def _same_for_queries(mask: Tensor) -> bool:
    return bool((mask == mask[:, :1]).all())


def _same_for_batch(mask: Tensor) -> bool:
    return bool((mask == mask[:1]).all())


def _lengths(mask: Tensor) -> Tensor | None:
    lengths = mask[:, 0].sum(-1)
    prefix = torch.arange(mask.shape[-1]) < lengths[:, None]
    return lengths if _same_for_queries(mask) and bool((prefix == mask[:, 0]).all()) else None


_SHAPES: dict[str, Callable[[Tensor, int], Tensor | None]] = {
    "(B, 1, 1, S)": lambda m, h: m[:, None, :1] if _same_for_queries(m) else None,
    "(B, 1, T, S)": lambda m, h: m[:, None],
    "(B, T, S)": lambda m, h: m,
    "(B, S)": lambda m, h: m[:, 0] if _same_for_queries(m) else None,
    "(B, 1, S)": lambda m, h: m[:, :1] if _same_for_queries(m) else None,
    "(T, S)": lambda m, h: m[0] if _same_for_batch(m) else None,
    "(1, T, S)": lambda m, h: m[:1] if _same_for_batch(m) else None,
    "(1, 1, T, S)": lambda m, h: m[:1, None] if _same_for_batch(m) else None,
    "(B, H, T, S)": lambda m, h: m[:, None].repeat(1, h, 1, 1),
    "(B·H, T, S)": lambda m, h: m.repeat_interleave(h, dim=0),
    "lengths": lambda m, h: _lengths(m),
}

_VALUES: dict[str, tuple[bool | None, Callable[[Tensor], Tensor]]] = {
    "bool keep": (True, lambda m: m.clone()),
    "bool block": (False, lambda m: ~m),
    "int": (True, lambda m: m.long()),
    "float": (True, lambda m: m.to(torch.get_default_dtype())),
    "int block": (False, lambda m: (~m).long()),
    "added": (None, lambda m: torch.zeros(m.shape).masked_fill(~m, float("-inf"))),
}
