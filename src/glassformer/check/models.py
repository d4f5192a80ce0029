"""Whole models: how are they called? Token ids of a source and a target go in, logits come out."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.build import plain, signature
from glassformer.check.calling import is_mask
from glassformer.check.mask_forms import MaskForm, forms
from glassformer.check.tools import CannotCallError, tensors

BATCH, SOURCE, TARGET = 3, 7, 5
_SOURCE_NAMES = ("inputids", "src", "source", "ids", "idx", "tokens", "x", "inputs")
_TARGET_NAMES = (
    *("tgt", "trg", "target", "targets", "dec", "decinputs", "decinput", "y", "output", "outputs", "decx"),
    *("tgtids", "tgttokens", "decoderinput", "decoderinputids", "decoderinputs", "trgids", "targettokens"),
)


@dataclass
class ModelCaller:
    """call(source_BS, target_BT) gives logits_BTV, whatever the model's own way is.

    A language model has no source: `source_name` is empty. `made_masks` are masks that the caller has to
    make: name -> (form, source or target).
    """

    module: nn.Module
    vocabulary: int
    source_name: str
    target_name: str
    fixed: dict[str, Any] = field(default_factory=dict)
    masks: tuple[str, ...] = ()
    made_masks: dict[str, tuple[MaskForm, str]] = field(default_factory=dict)
    time_first: bool = False
    pad: int | None = None
    repeat: str = ""  # a second argument that wants the target again (labels)

    @property
    def has_source(self) -> bool:
        return bool(self.source_name)

    def output(self, source_BS: Tensor, target_BT: Tensor) -> Any:
        given: dict[str, Any] = {self.target_name: self._forth(target_BT)}
        if self.source_name:
            given[self.source_name] = self._forth(source_BS)
        if self.repeat:
            given[self.repeat] = self._forth(target_BT)
        for name, (form, side) in self.made_masks.items():
            given[name] = form.make(self._may_attend(source_BS, target_BT, side), 4)
        return self.module(**{**self.fixed, **given})

    def __call__(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        batch, length = target_BT.shape
        output = self.output(source_BS, target_BT)
        # States before the last projection will do as well: who sees whom is the same.
        found = sorted(tensors(output), key=lambda tensor: tensor.shape[-1:] != (self.vocabulary,))
        for tensor in found:
            if not tensor.is_floating_point():
                continue
            if tensor.dim() == 2 and len(tensor) in (batch * length, batch * (length - 1)):
                tensor = tensor.view(batch, -1, tensor.shape[-1])
            if tensor.dim() == 3:
                logits = tensor.transpose(0, 1) if self.time_first else tensor
                if logits.shape[:2] in ((batch, length), (batch, length - 1)):
                    # Some never predict the padding: its -inf would be in the way of all comparisons.
                    return logits.masked_fill(logits.isneginf(), 0.0)
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors(output))
        raise CannotCallError(f"no logits of shape {(batch, length, self.vocabulary)}: it returns {shapes}")

    def describe(self) -> str:
        names = [name for name in (self.source_name, self.target_name, *self.made_masks) if name]
        order = ", (time, batch)" if self.time_first else ""
        return f"forward({', '.join(f'{name}=…' for name in names)}){order}"

    def _forth(self, ids_BT: Tensor) -> Tensor:
        return ids_BT.T if self.time_first else ids_BT

    def _may_attend(self, source_BS: Tensor, target_BT: Tensor, side: str) -> Tensor:
        """For the source: its real tokens. For the target: real tokens up to each position."""
        ids, queries = (source_BS, source_BS) if side == "source" else (target_BT, target_BT)
        real_BTS = torch.ones_like(ids, dtype=torch.bool) if self.pad is None else ids != self.pad
        real_BTS = real_BTS[:, None].expand(-1, queries.shape[1], -1)
        return (
            real_BTS
            if side == "source"
            else real_BTS & torch.ones(queries.shape[1], ids.shape[1]).tril().bool()
        )


def ids(rows: int, length: int, vocabulary: int, seed: int = 0) -> Tensor:
    """Tokens that are no special ones: 4 and above."""
    generator = torch.Generator().manual_seed(2000 + seed)
    return torch.randint(4, vocabulary, (rows, length), generator=generator)


def find_model(module: nn.Module, vocabulary: int) -> ModelCaller:
    """The first way of calling that gives logits; CannotCallError if none does."""
    source, target = ids(BATCH, SOURCE, vocabulary), ids(BATCH, TARGET, vocabulary, seed=1)
    errors = []
    for caller in _candidates(module, vocabulary):
        try:
            with torch.no_grad():
                caller(source, target)
                _find_layout(caller, source, target)
            return caller
        except Exception as error:
            errors.append(
                str(error) if isinstance(error, CannotCallError) else f"{type(error).__name__}: {error}"
            )
    raise CannotCallError(errors[0] if errors else "its forward takes no token ids")


def _candidates(module: nn.Module, vocabulary: int) -> Iterator[ModelCaller]:
    parameters = {
        name: p
        for name, p in signature(module.forward).parameters.items()
        if p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    masks = tuple(name for name in parameters if is_mask(name))
    required = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in masks]
    needed = [n for n in masks if parameters[n].default is inspect.Parameter.empty]
    targets = [n for n in parameters if plain(n) in _TARGET_NAMES and n not in masks]
    shapes: list[tuple[str, str, str]] = []
    if not required:
        sources = [n for n in parameters if plain(n) in _SOURCE_NAMES]
        shapes += [(source, target, "") for source in sources for target in targets]
        shapes += [("", source, "") for source in sources]
    if len(required) >= 2:
        target = next((n for n in targets if n in required), required[1])
        source = next(n for n in required if n != target)
        shapes.append((source, target, ""))
    if len(required) == 1:
        shapes += [("", required[0], repeat) for repeat in ("", *targets) if repeat != required[0]]
        shapes += [(required[0], n, "") for n in targets if n != required[0]]
    for source, target, repeat in shapes:
        missing = {n: None for n in required if n not in (source, target)}
        fixed = {**missing, **dict.fromkeys(needed)}
        for time_first in (False, True):
            yield ModelCaller(
                module, vocabulary, source, target, fixed, masks, time_first=time_first, repeat=repeat
            )
        for made in _needed_masks(needed, bool(source)):
            yield ModelCaller(module, vocabulary, source, target, missing, masks, made, repeat=repeat)


def _needed_masks(needed: list[str], has_source: bool) -> Iterator[dict[str, tuple[MaskForm, str]]]:
    """Masks that a model can't do without: of one type, but of two shapes for source and target."""
    if not needed:
        return
    for for_source, for_target in itertools.product(forms(), forms()):
        if (for_source.value, "T" in for_source.shape, "T" in for_target.shape) == (
            for_target.value,
            False,
            True,
        ):
            sides = {name: side_of(name, has_source) for name in needed}
            yield {n: (for_source if side == "source" else for_target, side) for n, side in sides.items()}


def side_of(name: str, has_source: bool) -> str:
    """Whose tokens a mask hides. Memory is the source as the decoder sees it."""
    if not has_source or any(
        part in plain(name) for part in ("tgt", "trg", "target", "dec", "causal", "ahead")
    ):
        return "target"
    return "source"


def _find_layout(caller: ModelCaller, source: Tensor, target: Tensor) -> None:
    """Is the first axis batch or time? A change in one sentence must not reach the others."""
    if caller.time_first:
        return
    changed = target.clone()
    changed[0, 0] = 4 + (changed[0, 0] - 3) % (caller.vocabulary - 4)
    width = min(source.shape[1], target.shape[1])
    moved = (caller(source[:, :width], changed) - caller(source[:, :width], target)).abs().amax(-1) > 1e-6
    if bool(moved[1:, 0].any()) and not bool(moved[0, 1:].any()):
        caller.time_first = True


def influence_on(run: Callable[[Tensor], Tensor], tokens_BT: Tensor, vocabulary: int) -> Tensor:
    """moved[t, s]: do the logits at t change with the token at s?"""
    before = run(tokens_BT)
    columns = []
    for place in range(tokens_BT.shape[1]):
        changed = tokens_BT.clone()
        changed[:, place] = 4 + (changed[:, place] - 3) % (vocabulary - 4)
        columns.append(
            (run(changed) - before).abs().amax((0, 2)) > 1e-6 * max(1.0, before.abs().max().item())
        )
    return torch.stack(columns, dim=1)
