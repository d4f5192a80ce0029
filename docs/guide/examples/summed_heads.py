"""Attention as some tutorials have it, wrong on purpose: the heads are added up, not put side by side."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.model.attention import attend, split_heads


class SummedHeads(nn.Module):
    """Try it: glass check docs/guide/examples/summed_heads.py:SummedHeads"""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))
        self.output = nn.Linear(d_model // num_heads, d_model)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        projected = ((self.query, q), (self.key, k), (self.value, v))
        q_BHTK, k_BHSK, v_BHSK = (split_heads(linear(x), self.num_heads) for linear, x in projected)
        attended_BHTK, _ = attend(q_BHTK, k_BHSK, v_BHSK, mask)
        return self.output(attended_BHTK.sum(1))
