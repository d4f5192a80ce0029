"""The chunked loss against PyTorch's cross-entropy, which computes all logits at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.train.loss import smoothed_loss


def problem(
    rows: int, vocabulary: int = 13, width: int = 6, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    states, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((rows, width), (vocabulary, width), (vocabulary,))
    )
    return [states, weight, bias, torch.randint(0, vocabulary - 1, (rows,), generator=generator)]


def reference(
    states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
) -> Tensor:
    logits = F.linear(states, weight, bias)
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 40])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("biased", [False, True])
def test_equals_cross_entropy_with_its_gradients(rows: int, smoothing: float, biased: bool) -> None:
    states, weight, bias, targets = problem(rows)
    inputs = [states, weight, bias] if biased else [states, weight]
    expected = reference(states, weight, bias if biased else None, targets, smoothing)
    loss, nll = smoothed_loss(states, weight, bias if biased else None, targets, smoothing=smoothing, chunk=8)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, reference(states, weight, bias if biased else None, targets, 0.0))
    for ours, theirs in zip(
        torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("excluded", [0, 5, 12])
def test_the_excluded_column_takes_no_part(excluded: int) -> None:
    states, weight, bias, targets = problem(20)
    kept = [place for place in range(13) if place != excluded]
    targets = torch.tensor(kept)[targets]
    position = torch.tensor([kept.index(target) for target in targets.tolist()])
    expected = reference(states, weight[kept], bias[kept], position, 0.1)
    loss, _ = smoothed_loss(states, weight, bias, targets, smoothing=0.1, excluded=excluded, chunk=8)
    torch.testing.assert_close(loss, expected)
    inputs = [states, weight, bias]
    ours, theirs = torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    assert not ours[1][excluded].any()


def test_gradients_by_finite_differences() -> None:
    *inputs, targets = problem(9, vocabulary=7, width=4)
    assert torch.autograd.gradcheck(
        lambda s, w, b: smoothed_loss(s, w, b, targets, smoothing=0.1, excluded=6, chunk=4)[0], inputs
    )


def test_a_scaled_loss_scales_its_gradients() -> None:
    states, weight, _, targets = problem(9)
    loss, _ = smoothed_loss(states, weight, None, targets, smoothing=0.1, chunk=4)
    (plain,) = torch.autograd.grad(loss, [weight], retain_graph=True)
    (scaled,) = torch.autograd.grad(loss / 3, [weight])
    torch.testing.assert_close(scaled, plain / 3)


def test_logits_far_apart_stay_finite() -> None:
    states, weight, _, targets = problem(9, dtype=torch.float32)
    with torch.no_grad():
        weight *= 1e4
    loss, nll = smoothed_loss(states, weight, None, targets, smoothing=0.1, excluded=12)
    assert torch.isfinite(loss)
    assert torch.isfinite(nll)
    torch.testing.assert_close(nll, reference(states, weight[:12], None, targets, 0.0))


def test_bfloat16_under_autocast_is_computed_in_float32() -> None:
    states, weight, _, targets = problem(9, dtype=torch.float32)
    expected, _ = smoothed_loss(states.bfloat16().float(), weight, None, targets, smoothing=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = smoothed_loss(states.bfloat16(), weight, None, targets, smoothing=0.1)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    half = states.detach().bfloat16().requires_grad_()
    smoothed_loss(half, weight, None, targets, smoothing=0.1)[0].backward()
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16


def test_without_gradients_only_the_value_is_computed() -> None:
    states, weight, _, targets = problem(9)
    with torch.no_grad():
        loss, _ = smoothed_loss(states, weight, None, targets, smoothing=0.1)
    assert not loss.requires_grad


@pytest.mark.parametrize("excluded", [None, 12])
@pytest.mark.parametrize("rows", [0, 2, 22])
def test_pairs_are_pulled_together_by_their_divergence(rows: int, excluded: int | None) -> None:
    states, weight, bias, targets = problem(rows)
    targets = targets[: rows // 2].repeat_interleave(2)
    keep = slice(0, 13 if excluded is None else 12)
    logits = F.linear(states, weight, bias)[:, keep]
    p, q = logits[0::2].log_softmax(-1), logits[1::2].log_softmax(-1)
    kl = torch.nn.KLDivLoss(reduction="sum", log_target=True)
    plain = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum")
    expected = plain + 3.0 * 0.5 * (kl(p, q) + kl(q, p))
    ours, nll = smoothed_loss(
        states, weight, bias, targets, smoothing=0.1, excluded=excluded, pull=3.0, chunk=4
    )
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum"))
    inputs = [states, weight, bias]
    for a, b in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(a, b)


def test_pairs_that_could_not_lie_further_apart_are_finite() -> None:
    """Probabilities that underflow on one side of a pair: their logarithms do not."""
    states = torch.tensor([[200.0], [-200.0]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    loss, _ = smoothed_loss(states, weight, None, torch.tensor([0, 0]), smoothing=0.1, excluded=2, pull=1.0)
    gradients = torch.autograd.grad(loss, [states, weight])
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
