"""Probes of losses, with a model of our own that answers whatever we want it to.

`loss(model, source, target)` is shown three models: one that knows the next token of each sentence, one
that repeats the token it is fed, and one that is wrong at the padding only. A bare criterion
`loss(logits, target)` is shown logits directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.report import Report, Status
from glassformer.check.tools import CannotCallError, tensors

VOCABULARY, BATCH, LENGTH = 17, 3, 8
LENGTHS = (8, 6, 4)
SURE = 12.0  # logit of what the model is sure of


@dataclass
class FoundLoss:
    """How to get a number out of it: `whole` takes (model, source, target), `criterion` (logits, target)."""

    name: str
    whole: Callable[[Any, Tensor, Tensor], Tensor] | None = None
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None


def sentences(pad: int) -> Tensor:
    """Targets with start (2) and end (3), every token different from the one before it, padded."""
    generator = torch.Generator().manual_seed(7)
    target = torch.full((BATCH, LENGTH), pad)
    for row, length in enumerate(LENGTHS):
        tokens = [2]
        while len(tokens) < length - 1:
            token = int(torch.randint(4, VOCABULARY - 1, (1,), generator=generator))
            if token not in tokens:
                tokens.append(token)
        target[row, :length] = torch.tensor([*tokens, 3])
    return target


def find_loss(target: Any) -> FoundLoss:
    """Try the three ways of calling; CannotCallError if none returns a number."""
    ids, logits = sentences(0), torch.randn(BATCH, LENGTH, VOCABULARY)
    reasons = []
    attempts: list[tuple[str, Callable[[], Any], FoundLoss]] = [
        (
            "loss(model, source, target)",
            lambda: target(_Teller("next", ids), ids, ids),
            FoundLoss("", whole=target),
        ),
        ("loss(logits_BTV, target_BT)", lambda: target(logits, ids), FoundLoss("", criterion=target)),
        (
            "loss(logits_NV, target_N)",
            lambda: target(logits.flatten(0, 1), ids.flatten()),
            FoundLoss("", criterion=lambda x, y: target(x.flatten(0, 1), y.flatten())),
        ),
        (
            "loss(log_probs_NV, target_N)",
            lambda: target(logits.flatten(0, 1).log_softmax(-1), ids.flatten()),
            FoundLoss("", criterion=lambda x, y: target(x.flatten(0, 1).log_softmax(-1), y.flatten())),
        ),
    ]
    for name, attempt, found in attempts:
        try:
            number(attempt())
        except Exception as error:
            reasons.append(f"{name}: {type(error).__name__}: {error}")
        else:
            found.name = name
            return found
    raise CannotCallError(reasons[0])


def find_own_loss(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """A model that takes a source and a target and returns a number."""
    ids = sentences(0)
    try:
        number(module(ids, ids))
    except Exception as error:
        raise CannotCallError(f"loss(source, target): {type(error).__name__}: {error}") from error
    return lambda source, target: number(module(source, target))


def number(output: Any) -> Tensor:
    """The scalar in what was returned."""
    if isinstance(output, float):
        return torch.tensor(output)
    for tensor in tensors(output):
        if tensor.numel() == 1 and tensor.is_floating_point():
            return tensor.reshape(())
    raise CannotCallError("it returns no single number")


class _Teller(nn.Module):
    """A model that answers from the sentences it was made with."""

    def __init__(self, way: str, target_BT: Tensor, pad: int = 0, at_padding: int | None = None) -> None:
        super().__init__()
        self.way, self.known, self.pad, self.at_padding = way, target_BT, pad, at_padding
        self.anchor = nn.Parameter(torch.zeros(()))  # so that a backward pass has somewhere to go

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        tokens = [t for t in tensors([list(inputs), named]) if not t.is_floating_point() and t.dim() == 2]
        fed = tokens[1] if len(tokens) > 1 else tokens[0]
        answers = fed.clone()
        if self.way == "next":
            for row in range(len(fed)):
                following = {
                    int(a): int(b) for a, b in zip(self.known[row], self.known[row][1:], strict=False)
                }
                answers[row] = torch.tensor([following.get(int(token), self.pad) for token in fed[row]])
        if self.at_padding is not None:
            answers = torch.where(answers == self.pad, self.at_padding, answers)
        return SURE * nn.functional.one_hot(answers, VOCABULARY).float() + self.anchor


def probe_loss(found: FoundLoss, pad: int | None, report: Report) -> None:
    pads = [pad] if pad is not None else [0, 1, VOCABULARY - 1, -100]
    if found.whole is not None:
        _probe_shift(found.whole, pads, report)
    _probe_padding(found, pads, report)


def _probe_shift(loss: Callable[[Any, Tensor, Tensor], Tensor], pads: list[int], report: Report) -> None:
    ids = sentences(max(pads[0], 0))
    knows = number(loss(_Teller("next", ids), ids.clone(), ids)).item()
    repeats = number(loss(_Teller("same", ids), ids.clone(), ids)).item()
    if knows < repeats:
        report.add("target_not_shifted", "right")
        return
    report.add(
        "target_not_shifted",
        "wrong",
        f"a model that repeats the token it is fed gets a loss of {repeats:.2f}, "
        f"one that knows the next token {knows:.2f}",
        f"只会重复输入的模型损失是 {repeats:.2f}，知道下一个词的模型反而是 {knows:.2f}",
    )


def _probe_padding(found: FoundLoss, pads: list[int], report: Report) -> None:
    """Whatever is predicted where the target is padding must not matter, nor how much padding there is."""
    reasons = []
    for pad in pads:
        try:
            answers = _loss_at_padding(found, pad)
        except Exception as error:  # this padding is not for this loss
            reasons.append(str(error))
            continue
        first, second, wider = answers
        if math.isclose(first, second, rel_tol=1e-4, abs_tol=1e-5) and math.isclose(
            first, wider, rel_tol=1e-4, abs_tol=1e-5
        ):
            status: Status = "unknown" if pad == -100 and len(pads) > 1 else "right"  # torch's own default
            report.add("loss_counts_padding", status, f"padding is token {pad}", f"填充是 {pad} 号词")
            return
        reasons.append(
            f"{first:.3f} → {second:.3f}"
            if not math.isclose(first, second, rel_tol=1e-4)
            else f"{first:.3f} → {wider:.3f}"
        )
    report.add(
        "loss_counts_padding",
        "wrong",
        f"other predictions at the padding, or more padding, change the loss: {reasons[0]}",
        f"填充处的预测不同，或填充更多，损失就变了：{reasons[0]}",
    )


def _loss_at_padding(found: FoundLoss, pad: int) -> tuple[float, float, float]:
    """The loss with two different predictions at the padding, and with more of it."""
    target = sentences(pad)
    wider = torch.cat([target, torch.full((BATCH, 3), pad)], dim=1)
    if found.whole is not None:
        if pad < 0:
            raise CannotCallError("a model can't be fed negative tokens")
        runs = ((target, 5), (target, 6), (wider, 5))
        return tuple(  # type: ignore[return-value]
            number(found.whole(_Teller("next", ids, pad, answer), ids.clone(), ids)).item()
            for ids, answer in runs
        )
    assert found.criterion is not None
    results = []
    for ids, seed in ((target, 1), (target, 2), (wider, 1)):
        generator = torch.Generator().manual_seed(3)
        logits = torch.randn(BATCH, LENGTH + 3, VOCABULARY, generator=generator)[:, : ids.shape[1]].clone()
        other = torch.randn(BATCH, LENGTH + 3, VOCABULARY, generator=torch.Generator().manual_seed(seed))
        logits = torch.where((ids == pad)[..., None], other[:, : ids.shape[1]], logits)
        results.append(number(found.criterion(logits, ids)).item())
    return results[0], results[1], results[2]


def probe_own_loss(
    module: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], pad: int | None, report: Report
) -> None:
    """A model that returns its loss itself: can it learn what can't be learned, and does padding count?

    Random targets have nothing in common with the source or with each other. A loss that falls far below
    ln(vocabulary) on fresh ones means that the model is shown the answers.
    """
    with torch.no_grad():
        target = sentences(pad or 0)
        wider = torch.cat([target, torch.full((BATCH, 3), pad or 0)], dim=1)
        before, after = loss(target, target).item(), loss(target, wider).item()
    if math.isclose(before, after, rel_tol=1e-4):
        report.add("loss_counts_padding", "right")
    else:
        report.add(
            "loss_counts_padding",
            "wrong",
            f"three more columns of padding change the loss from {before:.3f} to {after:.3f}",
            f"再加三列填充，损失从 {before:.3f} 变成 {after:.3f}",
        )
    reached, chance = _train(module, loss), math.log(VOCABULARY - 4)
    if reached > 0.5 * chance:
        report.add("target_not_shifted", "right")
        return
    report.add(
        "target_not_shifted",
        "wrong",
        f"trained on random targets, it reaches {reached:.2f} on new ones; guessing gives {chance:.2f}",
        f"用随机目标训练，在新的随机目标上损失降到 {reached:.2f}，而瞎猜是 {chance:.2f}",
    )


def _train(module: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], steps: int = 100) -> float:
    generator, last = torch.Generator().manual_seed(5), []
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(steps):
        source = torch.randint(4, VOCABULARY, (16, LENGTH), generator=generator)
        target = torch.randint(4, VOCABULARY, (16, LENGTH), generator=generator)
        found = loss(source, target)
        optimiser.zero_grad()
        found.backward()
        optimiser.step()
        last.append(found.item())
        if len(last) >= 10 and sum(last[-10:]) < 3:
            break
    return sum(last[-10:]) / 10
