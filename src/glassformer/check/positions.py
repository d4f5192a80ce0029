"""Probes of positional encodings: the table itself, whether it moves with the module, and who trains it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.report import Report
from glassformer.check.tools import CannotCallError, numbers, same, tensors, trained

LENGTH = 12


@dataclass
class Positions:
    """Something that gives each position a vector."""

    table_TD: Tensor
    module: nn.Module | None = None
    call: Callable[[Any, Tensor], Any] | None = None  # (module, input) -> what it returns
    sample: Tensor | None = None  # an input it takes
    layout: str = ""
    rotary: bool = False


def find_positions(target: Any, width: int) -> Positions:
    """A module that adds or returns positions, or a table; CannotCallError if it is neither."""
    if not isinstance(target, nn.Module):
        return _of_table(target, width)
    for sample in (numbers(3, LENGTH, width).float(), torch.zeros(3, LENGTH, dtype=torch.long)):
        try:
            with torch.no_grad():
                return _of_module(target, sample, width)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    raise CannotCallError(reason)


def _of_table(target: Any, width: int) -> Positions:
    try:
        table = torch.as_tensor(target, dtype=torch.float64)
    except Exception as error:
        raise CannotCallError(f"it returns {type(target).__name__}, no table of positions") from error
    while table.dim() > 2 and 1 in table.shape:
        table = table.squeeze(list(table.shape).index(1))
    if table.dim() != 2 or table.shape[-1] != width or len(table) < 2:
        raise CannotCallError(f"a table of shape {tuple(table.shape)} has no rows of width {width}")
    return Positions(table[:LENGTH])


def _of_module(module: nn.Module, sample: Tensor, width: int) -> Positions:
    def call(module: nn.Module, x: Tensor) -> Tensor:
        return next(t for t in tensors(module(x)) if t.is_floating_point() and t.shape[-1] == width)

    floating = sample.is_floating_point()
    given = call(module, sample)
    nothing = call(module, torch.zeros_like(sample))
    if not floating:
        other = call(module, torch.ones_like(sample))
        if not same(other, nothing):
            raise CannotCallError("its output depends on the tokens")
    elif given.shape == sample.shape:
        added = given - nothing
        factor = (added * sample).sum() / (sample * sample).sum()
        if same(nothing, torch.zeros_like(nothing)) and same(given.norm(dim=-1), sample.norm(dim=-1)):
            return Positions(nothing[0], module, call, sample, rotary=True)
        if not same(added, factor * sample):
            raise CannotCallError("it does more to a token than adding something to it")
    elif not same(given, nothing):
        raise CannotCallError("its output depends on the tokens")
    table, layout = _table_of(nothing)
    return Positions(table, module, call, sample, layout)


def _table_of(output: Tensor) -> tuple[Tensor, str]:
    """The vectors along the axis on which they differ."""
    found = output.double()
    if found.dim() == 2:
        return found[:LENGTH], ""
    along = [bool((found - found.select(axis, 0).unsqueeze(axis)).abs().max() > 1e-6) for axis in (0, 1)]
    if along[1] and not along[0]:
        return found[0, :LENGTH], "(batch, time, width)"
    if along[0] and not along[1]:
        return found[:LENGTH, 0], "(time, batch, width)"
    raise CannotCallError("what it adds differs in no axis, or in two")


def probe_positions(found: Positions, report: Report) -> None:
    if found.rotary:
        report.add(
            "wrong_frequencies",
            "unknown",
            "it turns vectors (rotary); only added positions are checked",
            "旋转位置编码不在检查之列",
        )
        return
    learns = found.module is not None and _learns(found)
    fit = fit_sinusoids(found.table_TD)
    _judge_table(fit, learns, found, report)
    if found.module is not None:
        _probe_moving(found, report)


@dataclass
class Fit:
    """How a table compares with the paper's. `frequencies`: those of each sine and its cosine, if others."""

    sinusoidal: bool = False
    swapped: bool = False
    right: bool = False
    frequencies: list[tuple[float, float]] | None = None
    note: str = ""


def fit_sinusoids(table_TD: Tensor) -> Fit:
    """Try the layouts (interleaved, halves), the order of sine and cosine, and the known frequencies."""
    length, width = table_TD.shape
    if width % 2:
        table_TD = torch.cat([table_TD, torch.zeros(length, 1).to(table_TD)], dim=1)
    pairs = max(width // 2, 1)
    paper = [10000 ** (-2 * i / width) for i in range(pairs)]
    spaced = [10000 ** (-i / max(pairs - 1, 1)) for i in range(pairs)]
    for layout in ("interleaved", "halves"):
        sines, cosines = _columns(table_TD, layout, pairs)
        for start in (0, 1):
            for name, frequencies in (("", paper), ("tensor2tensor's frequencies", spaced)):
                angles = (torch.arange(length) + start)[:, None] * torch.tensor(
                    frequencies, dtype=torch.float64
                )
                note = ", ".join(filter(None, [layout, name, f"from position {start}" if start else ""]))
                if _near(sines, angles.sin()) and _near(cosines, angles.cos()):
                    return Fit(True, False, True, None, note)
                if _near(sines, angles.cos()) and _near(cosines, angles.sin()):
                    return Fit(True, True, True, None, note)
    return _loose_fit(table_TD, pairs)


def _columns(table_TD: Tensor, layout: str, pairs: int) -> tuple[Tensor, Tensor]:
    if layout == "interleaved":
        return table_TD[:, 0 : 2 * pairs : 2], table_TD[:, 1 : 2 * pairs : 2]
    return table_TD[:, :pairs], table_TD[:, pairs : 2 * pairs]


def _near(first: Tensor, second: Tensor) -> bool:
    return bool((first - second).abs().max() < 1e-4)


def _loose_fit(table_TD: Tensor, pairs: int) -> Fit:
    """Sines and cosines of whatever frequencies: row 0 tells which is which, row 1 the frequency."""
    for layout in ("interleaved", "halves"):
        sines, cosines = _columns(table_TD, layout, pairs)
        for swapped in (False, True):
            if swapped:
                sines, cosines = cosines, sines
            if not (_near(sines[0], torch.zeros(pairs)) and _near(cosines[0], torch.ones(pairs))):
                continue
            in_sine = torch.asin(sines[1].clamp(-1, 1)).tolist()
            in_cosine = torch.acos(cosines[1].clamp(-1, 1)).tolist()
            return Fit(True, swapped, False, list(zip(in_sine, in_cosine, strict=True)), layout)
    return Fit()


def _judge_table(fit: Fit, learns: bool, found: Positions, report: Report) -> None:
    width = found.table_TD.shape[1]
    if not fit.sinusoidal:
        if learns:
            report.add("positions_trained", "right", "a learned table", "可学习的位置表")
        else:
            report.add(
                "positions_trained",
                "wrong",
                "the table is neither made of sines and cosines nor trained: it stays random",
                "位置表既不是正弦余弦，也不参与训练：一直是随机数",
            )
        return
    row = ", ".join(f"{number:.2f}" for number in found.table_TD[0, :4].tolist())
    if fit.swapped:
        report.add("sine_cosine_swapped", "wrong", f"position 0 is {row}, …", f"位置 0 是 {row}, …")
    else:
        report.add("sine_cosine_swapped", "right", fit.note, fit.note)
    if fit.right:
        report.add("wrong_frequencies", "right", fit.note, fit.note)
    else:
        _judge_frequencies(fit, width, report)
    if learns:
        report.add(
            "positions_trained",
            "wrong",
            "sines and cosines, but the table gets a gradient: training will bend it",
            "是正弦余弦，但位置表有梯度：训练会改变它",
        )
    else:
        report.add("positions_trained", "right")


def _judge_frequencies(fit: Fit, width: int, report: Report) -> None:
    found = fit.frequencies or []
    expected = [10000 ** (-2 * i / width) for i in range(len(found))]
    wrong = next(
        (i for i, (s, c) in enumerate(found) if abs(s - expected[i]) + abs(c - expected[i]) > 1e-3), 0
    )
    sine, cosine = found[wrong]
    unequal = abs(sine - cosine) > 1e-3 and not math.isclose(sine, math.pi - cosine, abs_tol=1e-3)
    report.add(
        "wrong_frequencies",
        "wrong",
        f"pair {wrong} turns by {sine:.4g} a position in its sine"
        + (f", by {cosine:.4g} in its cosine" if unequal else "")
        + f"; it should be 10000^(-{2 * wrong}/{width}) = {expected[wrong]:.4g}",
        f"第 {wrong} 对每个位置转过：正弦 {sine:.4g}"
        + (f"，余弦 {cosine:.4g}" if unequal else "")
        + f"；应为 10000^(-{2 * wrong}/{width}) = {expected[wrong]:.4g}",
    )


def _learns(found: Positions) -> bool:
    """Does what it adds get a gradient?"""
    assert found.module is not None
    assert found.call is not None
    assert found.sample is not None
    parameters = trained(found.module)
    if not parameters:
        return False
    output = found.call(found.module, torch.zeros_like(found.sample))
    if not output.requires_grad:
        return False
    gradients = torch.autograd.grad(output.sum(), parameters, allow_unused=True)
    return any(g is not None and bool(g.abs().max() > 0) for g in gradients)


def _probe_moving(found: Positions, report: Report) -> None:
    """Move a copy to torch's device without memory: what stays behind can't be added there."""
    assert found.module is not None
    assert found.call is not None
    assert found.sample is not None
    try:
        with torch.no_grad():
            found.call(copy.deepcopy(found.module).to("meta"), found.sample.to("meta"))
    except Exception as error:
        if "device" in str(error):
            report.add(
                "positions_not_buffer",
                "wrong",
                "after module.to(device) its table is still on the old device",
                "执行 module.to(device) 之后，位置表仍留在原来的设备上",
            )
        else:
            report.add("positions_not_buffer", "unknown", str(error), str(error))
        return
    report.add("positions_not_buffer", "right")
