"""Cross-entropy with label smoothing, in chunks: logits for the whole batch never exist.

For 2,048 target tokens and 10,000 pieces the logits are 82 MB, and their gradient as much again: touching
that memory costs more than the arithmetic. Here a few hundred rows at a time go through one small buffer, and
because the gradient of a cross-entropy is known the moment its value is (softmax minus target), both
gradients are finished in the forward pass; backward only hands them over.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.model.products import back, times


def smoothed_loss(
    states_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    *,
    smoothing: float,
    excluded: int | None = None,
    pull: float = 0.0,
    chunk: int = 256,
) -> tuple[Tensor, Tensor]:
    """(loss_sum, nll_sum) of the targets under softmax(states · weightᵀ + bias), summed over the N rows.

    Equals `F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")` (section 5.4 of the
    paper). Departs: the column `excluded`, the padding, takes no part: its logit is −∞ and the smoothing mass
    is spread over the others. `nll_sum` has no smoothing and no gradient: exp(nll_sum / N) is the perplexity.
    The arithmetic is float32 at least, under autocast too.

    With `pull`, rows 2i and 2i + 1 are two passes over the same token, with a dropout each, and `pull` times
    the divergence of what they say, ½ KL(p‖q) + ½ KL(q‖p), is added a pair (R-Drop, Liang et al. 2021).
    """
    assert chunk % 2 == 0, "pairs must not be torn apart"
    apply: Any = _ChunkedLoss.apply
    with torch.autocast(states_ND.device.type, enabled=False):
        loss, nll = apply(
            states_ND, weight_VD, bias_V, targets_N, smoothing, excluded, pull, chunk, torch.is_grad_enabled()
        )
    return loss, nll


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        smoothing: float,
        excluded: int | None,
        pull: float,
        chunk: int,
        want_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(states_ND.dtype, torch.float32)
        states_ND, weight_VD = states_ND.to(exact), weight_VD.to(exact)
        bias_V = None if bias_V is None else bias_V.to(exact)
        classes = weight_VD.shape[0] - (excluded is not None)
        # Σₖ logitₖ of a row is its state times the sum of all weight rows: no pass over the vocabulary.
        weight_sum_D = _sum_without(weight_VD, excluded)
        bias_sum = 0.0 if bias_V is None else _sum_without(bias_V, excluded)
        gradients = _Gradients(states_ND, weight_VD, bias_V, chunk) if want_gradients else None
        loss, nll = weight_VD.new_zeros(()), weight_VD.new_zeros(())
        for first in range(0, len(targets_N), chunk):
            rows = slice(first, first + chunk)
            x_CD, y_C1 = states_ND[rows], targets_N[rows, None]
            # Whole chunks are worth preparing for (model/products.py); what is left at the end is not.
            multiply = times if len(x_CD) == chunk else F.linear
            logits_CV = multiply(x_CD, weight_VD, bias_V)
            if excluded is not None:
                logits_CV[:, excluded] = -torch.inf
            apart_PV = _pairs_apart(logits_CV) if pull else None
            right_C1, highest_C = logits_CV.gather(1, y_C1), logits_CV.amax(1)
            probs_CV = torch.softmax(logits_CV, 1, out=logits_CV)
            # log Σ exp, from the likeliest entry: p = exp(logit − lse) ≥ 1/V there, safe for a log.
            lse_C = highest_C - probs_CV.amax(1).log()
            mean_logit_C = (x_CD @ weight_sum_D + bias_sum) / classes
            nll_C = lse_C - right_C1[:, 0]
            nll += nll_C.sum()
            loss += ((1 - smoothing) * nll_C + smoothing * (lse_C - mean_logit_C)).sum()
            if apart_PV is not None:
                loss += pull * _pull_together(probs_CV, lse_C, apart_PV, excluded, pull)
            if gradients is not None:
                probs_CV.scatter_add_(1, y_C1, probs_CV.new_full(y_C1.shape, smoothing - 1))
                gradients.add(rows, x_CD, probs_CV)
            # The next chunk takes the same memory, which the cache still holds.
            del logits_CV, probs_CV, apart_PV
        if gradients is not None:
            gradients.finish(smoothing / classes, weight_sum_D, excluded)
            ctx.gradients = gradients
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        return (*ctx.gradients.scaled(grad_loss), None, None, None, None, None, None)


class _Gradients:
    """∂loss/∂states, ∂loss/∂weight and ∂loss/∂bias, gathered chunk by chunk from softmax minus target."""

    def __init__(self, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, chunk: int) -> None:
        self.states_ND, self.weight_VD, self.chunk = states_ND, weight_VD, chunk
        self.of_states_ND = torch.empty_like(states_ND)
        self.of_weight_VD = torch.zeros_like(weight_VD)
        self.of_bias_V = None if bias_V is None else torch.zeros_like(bias_V)

    def add(self, rows: slice, x_CD: Tensor, difference_CV: Tensor) -> None:
        multiply = back if len(x_CD) == self.chunk else torch.mm
        self.of_states_ND[rows] = multiply(difference_CV, self.weight_VD)
        self.of_weight_VD.addmm_(difference_CV.T, x_CD)
        if self.of_bias_V is not None:
            self.of_bias_V += difference_CV.sum(0)

    def finish(self, share: float, weight_sum_D: Tensor, excluded: int | None) -> None:
        """Subtract the share of smoothing, equal for all rows and classes: one vector, not N × V numbers."""
        if share:
            self.of_states_ND -= share * weight_sum_D
            self.of_weight_VD -= share * self.states_ND.sum(0)
            if self.of_bias_V is not None:
                self.of_bias_V -= share * len(self.states_ND)
        if excluded is not None:
            self.of_weight_VD[excluded] = 0
            if self.of_bias_V is not None:
                self.of_bias_V[excluded] = 0

    def scaled(self, scale: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        if (
            scale.device.type == "cpu" and scale == 1
        ):  # a plain sum, as in training: nothing to do, nothing to copy
            return self.of_states_ND, self.of_weight_VD, self.of_bias_V
        of_bias_V = None if self.of_bias_V is None else self.of_bias_V * scale
        return self.of_states_ND * scale, self.of_weight_VD * scale, of_bias_V


def _pairs_apart(logits_CV: Tensor) -> Tensor:
    """How far the two rows of each pair lie from each other, before the softmax."""
    return logits_CV[0::2] - logits_CV[1::2]


def _pull_together(
    probs_CV: Tensor, lse_C: Tensor, apart_PV: Tensor, excluded: int | None, pull: float
) -> Tensor:
    """The divergence of the P pairs; `pull` times its gradient is added to `probs_CV`.

    With d = log p − log q, the divergence is ½ Σ (p − q) d, and its gradients with respect to the logits of
    p and q are ½ (p (d − Σ p d) + p − q) and −½ (q (d − Σ q d) + p − q).
    """
    pairs_P2V = probs_CV.unflatten(0, (-1, 2))
    apart_PV -= (lse_C[0::2] - lse_C[1::2])[:, None]
    if excluded is not None:
        apart_PV[:, excluded] = 0  # it was ∞ − ∞
    means_P2 = torch.bmm(pairs_P2V, apart_PV[..., None])[..., 0]
    gap_PV = pairs_P2V[:, 0] - pairs_P2V[:, 1]
    for row, weight in enumerate((pull / 2, -pull / 2)):
        own_PV = pairs_P2V[:, row]
        own_PV.addcmul_(own_PV, apart_PV - means_P2[:, row, None], value=weight).add_(gap_PV, alpha=weight)
    return 0.5 * (means_P2[:, 0] - means_P2[:, 1]).sum()


def _sum_without(weight: Tensor, excluded: int | None) -> Tensor:
    total = weight.sum(0)
    return total if excluded is None else total - weight[excluded]
