"""Probes of encoder and decoder layers, alone or stacked: residuals, norms, and parameters of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.calling import BATCH, SOURCE, TARGET, Caller
from glassformer.check.mask_forms import forms
from glassformer.check.masking import masked, situation
from glassformer.check.report import Report
from glassformer.check.tools import is_gain, numbers, same, tolerance, trained, weights_and_biases


@dataclass
class Stack:
    """x_BTD goes through layers and comes out with its shape. `layers` is their number, if it is known."""

    module: nn.Module
    run: Callable[[Tensor], Tensor]
    x_BTD: Tensor
    decoder: bool = False
    layers: int = 1


@dataclass
class Calls:
    """Which modules were called how often during one forward pass, with their first inputs and outputs."""

    count: Counter[nn.Module] = field(default_factory=Counter)
    seen: dict[nn.Module, tuple[tuple[Any, ...], dict[str, Any], Any]] = field(default_factory=dict)


@torch.no_grad()
def watch(module: nn.Module, run: Callable[[], Any]) -> Calls:
    """Run once and count the calls of every module inside."""
    calls, hooks = Calls(), []

    def note(inner: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        calls.count[inner] += 1
        calls.seen.setdefault(inner, (args, kwargs, output))

    for inner in module.modules():
        if inner is not module:
            hooks.append(inner.register_forward_hook(note, with_kwargs=True))
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def probe_stack(stack: Stack, report: Report) -> None:
    probe_sharing(stack.module, lambda: stack.run(stack.x_BTD), report)
    if probe_residual(stack, report):
        probe_norm(stack, report)


def probe_sharing(module: nn.Module, run: Callable[[], Any], report: Report) -> bool:
    """A part with two matrices or more that works twice in one pass is shared between layers."""
    calls = watch(module, run)
    shared = [
        (inner, times)
        for inner, times in calls.count.items()
        if times > 1 and len(weights_and_biases(inner, 1)[0]) >= 2
    ]
    if not shared:
        report.add("shared_layers", "right")
        return True
    inner, times = max(shared, key=lambda item: len(trained(item[0])))
    report.add(
        "shared_layers",
        "wrong",
        f"one {type(inner).__name__} object is called {times} times in one pass, with the same parameters",
        f"同一个 {type(inner).__name__} 对象在一次前向中被调用 {times} 次，每次都用同样的参数",
    )
    return False


@torch.no_grad()
def probe_residual(stack: Stack, report: Report) -> bool:
    """With every matrix and bias at 0 all sub-layers return 0: only residuals carry the input on."""
    parts = [p for group in weights_and_biases(stack.module, 1) for p in group]
    kept = [part.clone() for part in parts]
    try:
        for part in parts:
            part.zero_()
        first, second = stack.run(stack.x_BTD), stack.run(stack.x_BTD.flip(0))
    finally:
        for part, old in zip(parts, kept, strict=True):
            part.copy_(old)
    if same(first, second):
        report.add(
            "missing_residual",
            "wrong",
            "with all weights at 0 nothing of the input reaches the output: a sub-layer is not bypassed",
            "把所有权重置零后，输入完全到不了输出：有子层没有残差旁路",
        )
        return False
    report.add("missing_residual", "right")
    return True


@torch.no_grad()
def probe_norm(stack: Stack, report: Report) -> None:
    """A norm takes the size away: before the sub-layers (pre-norm) or behind them (post-norm)."""
    size = 1e4
    vectors = weights_and_biases(stack.module, 1)[1]
    kept = [vector.clone() for vector in vectors]
    try:
        for vector in vectors:
            vector.zero_()
        x = stack.x_BTD
        large = stack.run(x * size)
    finally:
        for vector, old in zip(vectors, kept, strict=True):
            vector.copy_(old)
    after = large.norm() / (x * size).norm()  # small if a norm stands behind the sum
    before = (large - x * size).norm() / (x * size).norm()  # small if norms stand before the sub-layers
    if after > 0.02 and before > 0.02:
        report.add(
            "missing_norm",
            "wrong",
            f"an input {size:.0e} times larger makes what the layer adds larger as well: "
            "a sub-layer works on numbers that no norm has held",
            f"输入放大 {size:.0e} 倍，这一层所加的量也跟着放大：有子层处理的是没有归一化的数",
        )
        return
    if after <= 0.02 and not _unit_size(large):
        report.add(
            "missing_norm",
            "wrong",
            f"the output is not normalised: its root mean square is {_size(large):.2f}, not 1",
            f"输出没有归一化：均方根是 {_size(large):.2f}，而不是 1",
        )
        return
    norms = _norm_calls(stack)
    wanted = (3 if stack.decoder else 2 if _feeds_forward(stack) else 1) * stack.layers
    if after <= 0.02 and before > 0.02 and 0 < norms < wanted:
        report.add(
            "missing_norm",
            "wrong",
            f"{wanted} sub-layers, but only {norms} norms",
            f"有 {wanted} 个子层，却只有 {norms} 次归一化",
        )
        return
    report.add("missing_norm", "right")


def _feeds_forward(stack: Stack) -> bool:
    """An attention with its residual and norm is no whole layer: its matrices are all of its width."""
    width = stack.x_BTD.shape[-1]
    shapes = [set(matrix.shape) - {width, 3 * width} for matrix in weights_and_biases(stack.module, 1)[0]]
    return any(shapes)


def _size(x_BTD: Tensor) -> float:
    return x_BTD.pow(2).mean(-1).sqrt().mean().item()


def _unit_size(x_BTD: Tensor) -> bool:
    sizes = x_BTD.pow(2).mean(-1).sqrt()
    return bool(((sizes - 1).abs() < 0.1).all())


def _norm_calls(stack: Stack) -> int:
    """How often a module with gains of its own is called in one pass."""
    calls = watch(stack.module, lambda: stack.run(stack.x_BTD))
    return sum(
        times
        for inner, times in calls.count.items()
        if any(is_gain(p) for p in inner.parameters(recurse=False))
    )


@torch.no_grad()
def probe_decoder_masks(caller: Caller, width: int, report: Report) -> None:
    """A decoder hides the future of the target and the padding of the source, by itself or by masks."""
    future = torch.ones(TARGET, TARGET, dtype=torch.bool).tril()
    seen_TT = _target_influence(caller, width)
    if torch.equal(seen_TT, future):
        report.add("causal_leak", "right", "it is causal by itself", "模块自带因果掩码")
    elif name := _mask_that(
        caller, lambda masks: torch.equal(_target_influence(caller, width, **masks), future), future
    ):
        report.add("causal_leak", "right", name, name)
    else:
        t, s = (seen_TT & ~future).nonzero()[0].tolist()
        report.add(
            "causal_leak",
            "wrong",
            f"no mask keeps position {t} of the target from seeing position {s}",
            f"没有任何掩码能让目标的位置 {t} 看不到位置 {s}",
        )
    now = situation(caller, width, [SOURCE - 2, SOURCE - 1, SOURCE])

    def hides(masks: dict[str, Tensor]) -> bool:
        ((name, mask),) = masks.items()
        return now.fits(masked(caller, now, name, mask)[0])

    if caller.masks and (name := _mask_that(caller, hides, now.may_attend_BTS)):
        report.add("padding_leak", "right", name, name)
    elif caller.masks:
        report.add(
            "padding_leak", "wrong", "no mask hides the source's padding", "没有任何掩码能遮住源句的填充"
        )


def _target_influence(caller: Caller, width: int, **masks: Tensor) -> Tensor:
    x, memory = numbers(BATCH, TARGET, width, seed=1), numbers(BATCH, SOURCE, width, seed=2)
    before, columns = caller(x, memory, **masks), []
    for place in range(TARGET):
        changed = x.clone()
        changed[:, place] = numbers(BATCH, width, seed=50 + place)
        moved = (caller(changed, memory, **masks) - before).abs().amax((0, 2))
        columns.append(moved > 10 * tolerance(before))
    return torch.stack(columns, dim=1)


def _mask_that(caller: Caller, works: Callable[[dict[str, Tensor]], bool], may_attend: Tensor) -> str:
    """The first argument and form under which `works` holds."""
    may_attend = may_attend.expand(BATCH, TARGET, -1).contiguous()
    for name in caller.masks:
        for form in forms():
            mask = form.make(may_attend, 4)
            try:
                if mask is not None and works({name: mask}):
                    return f"{name}: {form}"
            except Exception:  # this form is not for this module
                continue
    return ""
