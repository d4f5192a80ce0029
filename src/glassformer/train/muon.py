"""Muon: the layers' matrices move by orthogonal updates; everything else moves by AdamW.

The gradient of a matrix is mostly a few strong directions, and Adam follows those. Muon (Jordan et al. 2024)
takes the momentum and makes all its directions equally strong: of its singular value decomposition U·S·Vᵀ
only U·Vᵀ remains. A few products come close to that without any decomposition (Newton–Schulz).

Each update is worth more and costs more, so this is for small batches on small data. Embeddings, biases and
norms are no linear maps from vectors to vectors, and stay with AdamW.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.model.parts import Linear
from glassformer.model.stacks import DecoderLayer, EncoderLayer
from glassformer.train.precision import multiplies_bfloat16

# The polynomial a·x + b·x³ + c·x⁵ that Jordan et al. chose: applied a few times, it takes every singular
# value between 0.01 and 1 to somewhere between 0.7 and 1.2, which serves as well as exactly 1.
A, B, C = 3.4445, -4.7750, 2.0315
ROUNDS = 5

# An orthogonal update, scaled up by its longer side, has numbers as large as AdamW's usually are, and the
# same learning rate serves both (Liu et al. 2025).
LIKE_ADAM = 0.2


class Block(NamedTuple):
    """Rows of a matrix that are a linear map of their own, such as the keys' of queries, keys and values."""

    matrix: int
    rows: slice


class Muon(torch.optim.AdamW):
    """AdamW for the groups, Muon for the matrices, under the learning rate of the first group.

    `rate` multiplies it for the matrices. Blocks of one shape are made orthogonal together.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        layers: Sequence[Linear],
        *,
        momentum: float,
        rate: float,
        weight_decay: float,
        betas: tuple[float, float],
        eps: float,
        fused: bool,
    ) -> None:
        super().__init__(groups, lr=0.0, betas=betas, eps=eps, fused=fused)
        self.matrices = [layer.weight for layer in layers]
        self.momentum, self.rate, self.weight_decay = momentum, rate, weight_decay
        self.blocks = _blocks(layers)
        for matrix in self.matrices:
            self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for matrix in self.matrices:
            matrix.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        rate = self.rate * self.param_groups[0]["lr"]
        gradients = [torch.zeros_like(m) if m.grad is None else m.grad for m in self.matrices]
        memory = [self.state[matrix]["momentum_buffer"] for matrix in self.matrices]
        torch._foreach_lerp_(memory, gradients, 1 - self.momentum)
        ahead = torch._foreach_lerp(gradients, memory, self.momentum)  # Nesterov's momentum
        if self.weight_decay:
            torch._foreach_mul_(self.matrices, 1 - rate * self.weight_decay)
        for shape, blocks in self.blocks.items():
            updates_NRC = orthogonal(torch.stack([ahead[block.matrix][block.rows] for block in blocks]))
            weights = [self.matrices[block.matrix][block.rows] for block in blocks]
            scale = LIKE_ADAM * max(shape) ** 0.5
            torch._foreach_add_(weights, list(updates_NRC.unbind()), alpha=-rate * scale)
        return loss


def orthogonal(x_NRC: Tensor, rounds: int = ROUNDS) -> Tensor:
    """Each matrix with its singular values brought near 1; zeros stay zeros.

    >>> near = orthogonal(torch.tensor([[[3.0, 0.0], [0.0, 0.1]]]))
    >>> bool(((near.diagonal(dim1=1, dim2=2) > 0.6) & (near.diagonal(dim1=1, dim2=2) < 1.3)).all())
    True
    """
    tall = x_NRC.shape[1] > x_NRC.shape[2]
    small_NRC = x_NRC.to(_enough(x_NRC.device.type))
    # The products are with the shorter side: fewer operations, and the same singular values.
    small_NRC = small_NRC.mT.contiguous() if tall else small_NRC
    length_N11 = small_NRC.float().norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    small_NRC = small_NRC / length_N11.to(small_NRC.dtype)
    for _ in range(rounds):
        square_NRR = small_NRC @ small_NRC.mT
        factor_NRR = torch.baddbmm(square_NRR, square_NRR, square_NRR, beta=B, alpha=C)
        small_NRC = torch.baddbmm(small_NRC, factor_NRR, small_NRC, beta=A)
    return (small_NRC.mT if tall else small_NRC).to(x_NRC.dtype)


def matrices_of(model: nn.Module) -> list[Linear]:
    """The linear maps inside the model's layers that are to learn."""
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer | DecoderLayer)]
    maps = [part for layer in layers for part in layer.modules() if isinstance(part, Linear)]
    return [part for part in maps if part.weight.requires_grad]


def _blocks(layers: Sequence[Linear]) -> Mapping[tuple[int, int], list[Block]]:
    by_shape: dict[tuple[int, int], list[Block]] = {}
    for number, layer in enumerate(layers):
        start = 0
        for out in layer.outs:
            block = Block(number, slice(start, start + out))
            by_shape.setdefault((out, layer.in_features), []).append(block)
            start += out
    return by_shape


def _enough(device: str) -> torch.dtype:
    """bfloat16 is exact enough for a direction; where a processor has to emulate it, float32 is faster."""
    return torch.float32 if device == "cpu" and not multiplies_bfloat16() else torch.bfloat16
