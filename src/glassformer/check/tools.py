"""What every probe needs: numbers to feed, a way to compare, and a module that is safe to play with."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CannotCallError(Exception):
    """A target could not be built or called in any way that we know; the message is shown as evidence.

    `during` is the kind it was tried as when that message came.
    """

    def __init__(self, message: str, during: str = "") -> None:
        super().__init__(message)
        self.during = during


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers, the same ones for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 + seed), dtype=torch.float64)


def same(first: Tensor, second: Tensor) -> bool:
    """Equal but for rounding."""
    return first.shape == second.shape and gap(first, second) < tolerance(first)


def gap(first: Tensor, second: Tensor) -> float:
    """The largest difference, as a share of the largest number (or of 1 if all are smaller)."""
    if not bool(torch.isfinite(first).all() and torch.isfinite(second).all()):
        return math.inf
    size = max(1.0, first.abs().max().item(), second.abs().max().item())
    return (first - second).abs().max().item() / size


def tolerance(tensor: Tensor) -> float:
    return 1e-8 if tensor.dtype == torch.float64 else 2e-5


def safe_copy(module: Any) -> Any:
    """A copy in evaluation mode: what the probes change must not reach the user's own module."""
    try:
        copied = copy.deepcopy(module)
    except Exception as error:
        raise CannotCallError(f"copy.deepcopy of the module fails: {error}") from error
    if isinstance(copied, nn.Module):
        copied.eval()
    return copied


@contextlib.contextmanager
def restored(module: nn.Module | None) -> Iterator[None]:
    """Afterwards the module is as it was before: numbers, types and modes. For what can't be copied."""
    parts = [] if module is None else list(module.modules())
    modes = [part.training for part in parts]
    numbers_of = [
        {name: p.data.clone() for name, p in part.named_parameters(recurse=False)} for part in parts
    ]
    buffers_of = [{name: b.clone() for name, b in part.named_buffers(recurse=False)} for part in parts]
    try:
        yield
    finally:
        for part, mode, kept, buffers in zip(parts, modes, numbers_of, buffers_of, strict=True):
            part.training = mode
            for name, parameter in part.named_parameters(recurse=False):
                parameter.data = kept[name]
            for name, buffer in buffers.items():
                part._buffers[name] = buffer


def weights_and_biases(module: Any, width: int) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Trained matrices, and trained vectors that are added. Gains of norms (all ones) are neither."""
    matrices, vectors = [], []
    for parameter in trained(module):
        if parameter.dim() >= 2 and parameter.numel() > width:
            matrices.append(parameter)
        elif parameter.numel() > 1 and not is_gain(parameter):
            vectors.append(parameter)
    return matrices, vectors


def is_gain(parameter: Tensor) -> bool:
    """A norm multiplies by ones when it is new."""
    return parameter.dim() == 1 and parameter.numel() > 1 and bool((parameter == 1).all())


def trained(module: Any) -> list[nn.Parameter]:
    if not isinstance(module, nn.Module):
        return []
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


@torch.no_grad()
def randomise(module: Any, width: int, seed: int = 0, biases: float = 0.1) -> None:
    """Give all matrices entries of spread 1/√width, whatever their layout, and all vectors small ones.

    Initial values hide mistakes: a zero output projection or zero biases would.
    """
    matrices, vectors = weights_and_biases(module, width)
    for place, matrix in enumerate(matrices):
        # A matrix without an axis of the full width works on each head by itself.
        inputs = width if width in matrix.shape else max(matrix.shape)
        matrix.copy_(numbers(*matrix.shape, seed=seed * 100 + place) / math.sqrt(inputs))
    for place, vector in enumerate(vectors):
        vector.copy_(biases * numbers(*vector.shape, seed=seed * 100 + 50 + place))


@contextlib.contextmanager
def no_dropout() -> Iterator[None]:
    """Inside, functional dropout does nothing: one mistake must not hide the others."""
    dropout, plain_dropout, attention = F.dropout, torch.dropout, F.scaled_dot_product_attention

    def nothing(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input

    def without(*args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("dropout_p", None)
        return attention(*args[:4], **(dict(zip(("is_causal",), args[5:6], strict=False)) | kwargs))

    F.dropout, torch.dropout, F.scaled_dot_product_attention = nothing, nothing, without
    try:
        yield
    finally:
        F.dropout, torch.dropout, F.scaled_dot_product_attention = dropout, plain_dropout, attention


@contextlib.contextmanager
def no_biases(module: Any, width: int) -> Iterator[None]:
    """Inside, vectors that are added are 0: a zero input then has a zero query, key and value."""
    vectors = weights_and_biases(module, width)[1]
    kept = [vector.detach().clone() for vector in vectors]
    with torch.no_grad():
        for vector in vectors:
            vector.zero_()
    try:
        yield
    finally:
        with torch.no_grad():
            for vector, old in zip(vectors, kept, strict=True):
                vector.copy_(old)


def tensors(output: Any) -> list[Tensor]:
    """All tensors in what a module returned: itself, or the members of a tuple, list, dict or dataclass."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        return [found for member in output.values() for found in tensors(member)]
    if isinstance(output, (tuple, list)):
        return [found for member in output for found in tensors(member)]
    return tensors(vars(output)) if hasattr(output, "__dict__") and not isinstance(output, nn.Module) else []


def rank(matrix: Tensor, threshold: float) -> int:
    """Directions that count: singular values above a share of the largest one."""
    values = torch.linalg.svdvals(matrix.detach().double())
    return int((values > threshold * values[0]).sum()) if values.numel() and values[0] > 0 else 0
