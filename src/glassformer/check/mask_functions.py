"""Probes of functions that make masks: from a length (causal), or from token ids (padding, or both)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.check.report import Report
from glassformer.check.tools import CannotCallError, tensors

SIZE = 6
IDS = torch.tensor([[5, 3, 8, 2, 7, 4], [5, 3, 8, 2, 0, 0], [9, 6, 0, 0, 0, 0]])
PAD = 0


@dataclass
class MadeMask:
    """A mask that a function made. `ids` if it was made from the token ids `IDS`, else from a length."""

    mask: Tensor
    ids: bool
    how: str


def find_mask(function: Callable[..., Any]) -> MadeMask:
    """Call it with a length, or with ids and padding; CannotCallError if neither gives a mask."""
    attempts: list[tuple[tuple[Any, ...], bool, str]] = [
        ((SIZE,), False, "f(size)"),
        ((IDS,), True, "f(ids)"),
        ((IDS, PAD), True, "f(ids, pad)"),
        ((IDS, IDS), True, "f(ids, ids)"),
        ((IDS, IDS, PAD), True, "f(ids, ids, pad)"),
    ]
    reasons = []
    for arguments, ids, how in attempts:
        try:
            mask = next(t for t in tensors(function(*arguments)) if t.dim() >= 2 and t.shape[-1] == SIZE)
        except StopIteration:
            reasons.append(f"{how} returns no mask of {SIZE} keys")
        except Exception as error:
            reasons.append(f"{how}: {type(error).__name__}: {error}")
        else:
            return MadeMask(mask.detach(), ids, how)
    raise CannotCallError(reasons[0])


def probe_mask(made: MadeMask, report: Report) -> None:
    marked, added = _marked(made.mask)
    if not made.ids:
        _judge_causal(marked.reshape(-1, SIZE, SIZE)[0], added, report)
        return
    grid = _grid(marked)
    if grid is None:
        shape = tuple(made.mask.shape)
        report.add(
            "mask_not_broadcast",
            "wrong",
            f"a shape of {shape} fits no scores",
            f"形状 {shape} 无法广播到分数",
        )
        return
    _judge_padding(grid, added, report)


def _marked(mask: Tensor) -> tuple[Tensor, bool]:
    """What is marked: True or 1; or, in a mask that is added to the scores, what is let through."""
    if mask.dtype == torch.bool:
        return mask, False
    if mask.is_floating_point() and bool((mask < -1000).any()):
        return mask > -1000, True
    return mask != 0, False


def _judge_causal(marked_TT: Tensor, added: bool, report: Report) -> None:
    keep = torch.ones(SIZE, SIZE, dtype=torch.bool).tril()

    def is_(other: Tensor) -> bool:
        return torch.equal(marked_TT, other)

    if is_(keep) or (not added and is_(~keep)):
        meaning = "added" if added else "True = may attend" if is_(keep) else "True = blocked"
        report.add("causal_leak", "right", meaning, meaning)
        report.add("nan_on_masked_rows", "right")
    elif is_(keep.tril(-1)) or (not added and is_(keep.tril(-1).logical_not())):
        report.add(
            "nan_on_masked_rows",
            "wrong",
            "a position may not see itself, so the first one sees nothing at all",
            "位置看不到自己，于是第一个位置什么都看不到",
        )
    elif is_(keep.T) or is_(keep.T.logical_not()) or (added and is_(~keep)):
        report.add(
            "mask_inverted", "wrong", "what is shown is the future, not the past", "能看到的是未来而不是过去"
        )
    else:
        row = "".join("1" if cell else "0" for cell in marked_TT[1].tolist())
        report.add("causal_leak", "wrong", f"row 1 of the mask is {row}", f"掩码的第 1 行是 {row}")


def _grid(marked: Tensor) -> Tensor | None:
    """The mask as BTS, from any shape that broadcasts to (B, heads, T, S) once axes of 1 are added."""
    batch = len(IDS)
    if marked.shape == (batch, SIZE):
        return marked[:, None].expand(-1, SIZE, -1)
    if marked.dim() == 3 and len(marked) == batch:
        marked = marked[:, None]
    try:
        return marked.expand(batch, 1, SIZE, SIZE)[:, 0]
    except RuntimeError:
        return None


def _judge_padding(grid_BTS: Tensor, added: bool, report: Report) -> None:
    real_BS = IDS != PAD
    by_key = real_BS[:, None].expand(-1, SIZE, -1)
    by_query = real_BS[:, :, None].expand(-1, -1, SIZE)
    causal = torch.ones(SIZE, SIZE, dtype=torch.bool).tril()
    right = {"padding": by_key, "padding and causal": by_key & causal}
    for (what, keep), inverted in itertools.product(right.items(), (False, True)):
        if torch.equal(grid_BTS, ~keep if inverted else keep):
            if added and inverted:
                report.add(
                    "mask_inverted", "wrong", "-inf stands at the real tokens", "-inf 标在了真实的词上"
                )
                return
            meaning = "added" if added else "True = blocked" if inverted else "True = may attend"
            report.add("padding_leak", "right", f"{what}, {meaning}", f"{what}，{meaning}")
            return
    if any(torch.equal(grid_BTS, m) for m in (by_query, ~by_query)):
        report.add(
            "mask_not_broadcast",
            "wrong",
            "it marks the queries that are padding, not the keys",
            "标出的是作为查询的填充，而不是作为键的填充",
        )
        return
    differing = [
        b
        for b in range(len(IDS))
        if not torch.equal(grid_BTS[b], by_key[b]) and not torch.equal(grid_BTS[b], ~by_key[b])
    ]
    row = "".join("1" if cell else "0" for cell in grid_BTS[differing[0], -1].tolist())
    report.add(
        "padding_leak",
        "wrong",
        f"for the ids {IDS[differing[0]].tolist()} with padding {PAD}, the mask is {row}",
        f"对于 ids {IDS[differing[0]].tolist()}（填充为 {PAD}），掩码是 {row}",
    )
