"""Adapters: for a module that is called in a way we do not find, five lines that call it.

    from glassformer.check import Attention

    def adapter():
        module = MyAttention(...)
        return Attention(lambda q, k, v, may_attend: module(q, k, v, may_attend), module, width=64, heads=8)

`glass check my_file.py:adapter` then checks it. Masks in adapters say may_attend: True lets through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from glassformer.check.calling import find_caller
from glassformer.check.losses import FoundLoss
from glassformer.check.models import ModelCaller
from glassformer.check.subjects import Subject
from glassformer.check.tools import randomise


@dataclass
class Attention:
    """call(query_BTD, key_BSD, value_BSD, may_attend_BTS | None) returns output_BTD, or that and weights."""

    call: Callable[[Tensor, Tensor, Tensor, Tensor | None], Any]
    module: nn.Module | None
    width: int
    heads: int | None = None


@dataclass
class Layer:
    """call(x_BTD, memory_BSD | None, may_attend_BTT | None, may_attend_BTS | None) returns x_BTD."""

    call: Callable[[Tensor, Tensor | None, Tensor | None, Tensor | None], Any]
    module: nn.Module
    width: int
    decoder: bool = False
    layers: int = 1


@dataclass
class Model:
    """call(source_BS, target_BT), token ids, returns logits_BTV: what follows each target token."""

    call: Callable[[Tensor, Tensor], Any]
    module: nn.Module
    vocabulary: int
    pad: int | None = 0


@dataclass
class Loss:
    """call(model, source_BS, target_BT) returns a scalar, where model(source, target_in) returns logits."""

    call: Callable[[Any, Tensor, Tensor], Any]
    pad: int | None = 0


ADAPTERS = (Attention, Layer, Model, Loss)


def of_adapter(adapter: Any, name: str) -> Subject:
    if isinstance(adapter, Attention):
        caller = find_caller(_ForAttention(adapter.call, adapter.module).eval(), adapter.width)
        randomise(caller.module, adapter.width)
        return Subject("attention", name, adapter, caller, adapter.width, adapter.heads, "the adapter:")
    if isinstance(adapter, Layer):
        kind = _ForDecoder if adapter.decoder else _ForEncoder
        caller = find_caller(kind(adapter.call, adapter.module).eval(), adapter.width)
        randomise(caller.module, adapter.width)
        extra = {"layers": adapter.layers}
        return Subject("layer", name, adapter, caller, adapter.width, None, "the adapter:", extra)
    if isinstance(adapter, Model):
        model = _AdaptedModel(adapter.module.eval(), adapter.vocabulary, "source", "target")
        model.call = adapter.call
        return Subject("transformer", name, adapter, extra={"model": model, "pad": adapter.pad})
    found = FoundLoss("the adapter: loss(model, source, target)", whole=adapter.call)
    return Subject("loss", name, adapter, made_by=found.name, extra={"loss": found, "pad": adapter.pad})


class _Wrapped(nn.Module):
    def __init__(self, call: Callable[..., Any], module: nn.Module | None) -> None:
        super().__init__()
        self.call, self.module = call, module


class _ForAttention(_Wrapped):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return self.call(query, key, value, mask)


class _ForEncoder(_Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return self.call(x, None, mask, None)


class _ForDecoder(_Wrapped):
    def forward(
        self, x: Tensor, memory: Tensor, target_mask: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Any:
        return self.call(x, memory, target_mask, source_mask)


class _AdaptedModel(ModelCaller):
    call: Callable[[Tensor, Tensor], Any]

    def output(self, source_BS: Tensor, target_BT: Tensor) -> Any:
        return self.call(source_BS, target_BT)
