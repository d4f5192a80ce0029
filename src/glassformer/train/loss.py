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
from torch.utils.checkpoint import checkpoint

from glassformer.model.products import back, times


def smoothed_loss(
    states_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    *,
    smoothing: float,
    excluded: int | None = None,
    chunk: int = 256,
) -> tuple[Tensor, Tensor]:
    """(loss_sum, nll_sum) of the targets under softmax(states · weightᵀ + bias), summed over the N rows.

    Equals `F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")` (section 5.4 of the
    paper). Departs: the column `excluded`, the padding, takes no part: its logit is −∞ and the smoothing mass
    is spread over the others. `nll_sum` has no smoothing and no gradient: exp(nll_sum / N) is the perplexity.
    The arithmetic is float32 at least, under autocast too.
    """
    apply: Any = _ChunkedLoss.apply
    with torch.autocast(states_ND.device.type, enabled=False):
        loss, nll = apply(
            states_ND, weight_VD, bias_V, targets_N, smoothing, excluded, chunk, torch.is_grad_enabled()
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
            right_C1, highest_C = logits_CV.gather(1, y_C1), logits_CV.amax(1)
            probs_CV = torch.softmax(logits_CV, 1, out=logits_CV)
            # log Σ exp, from the likeliest entry: p = exp(logit − lse) ≥ 1/V there, safe for a log.
            lse_C = highest_C - probs_CV.amax(1).log()
            mean_logit_C = (x_CD @ weight_sum_D + bias_sum) / classes
            nll_C = lse_C - right_C1[:, 0]
            nll += nll_C.sum()
            loss += ((1 - smoothing) * nll_C + smoothing * (lse_C - mean_logit_C)).sum()
            if gradients is not None:
                probs_CV.scatter_add_(1, y_C1, probs_CV.new_full(y_C1.shape, smoothing - 1))
                gradients.add(rows, x_CD, probs_CV)
            del logits_CV, probs_CV  # the next chunk takes the same memory, which the cache still holds
        if gradients is not None:
            gradients.finish(smoothing / classes, weight_sum_D, excluded)
            ctx.gradients = gradients
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        return (*ctx.gradients.scaled(grad_loss), None, None, None, None, None)


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


def divergence(
    one_ND: Tensor,
    other_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    *,
    excluded: int | None = None,
    chunk: int = 256,
) -> Tensor:
    """R-Drop's term (Liang et al. 2021): ½ KL(p‖q) + ½ KL(q‖p), summed over rows, of two passes' predictions.

    Chunked as well, by computing each chunk's logits again in backward: three more projections in all, while
    memory stays at one chunk.
    """

    def of_chunk(one_CD: Tensor, other_CD: Tensor, weight_VD: Tensor, bias_V: Tensor | None) -> Tensor:
        p_CV = _log_probs(one_CD, weight_VD, bias_V, excluded)
        q_CV = _log_probs(other_CD, weight_VD, bias_V, excluded)
        # ½ Σ p (log p − log q) + ½ Σ q (log q − log p)
        return 0.5 * ((p_CV.exp() - q_CV.exp()) * (p_CV - q_CV)).sum()

    total = torch.zeros((), device=one_ND.device, dtype=torch.promote_types(one_ND.dtype, torch.float32))
    with torch.autocast(one_ND.device.type, enabled=False):
        for first in range(0, len(one_ND), chunk):
            rows = slice(first, first + chunk)
            total = total + checkpoint(
                of_chunk, one_ND[rows], other_ND[rows], weight_VD, bias_V, use_reentrant=False
            )
    return total


def _log_probs(x_CD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, excluded: int | None) -> Tensor:
    """Over all entries but the excluded one, whose column is left out."""
    exact = torch.promote_types(x_CD.dtype, torch.float32)
    logits_CV = F.linear(x_CD.to(exact), weight_VD.to(exact), None if bias_V is None else bias_V.to(exact))
    if excluded is not None:
        logits_CV = torch.cat([logits_CV[:, :excluded], logits_CV[:, excluded + 1 :]], dim=1)
    return logits_CV.log_softmax(1)


def _sum_without(weight: Tensor, excluded: int | None) -> Tensor:
    total = weight.sum(0)
    return total if excluded is None else total - weight[excluded]
