"""Attention outside text: a child, a shelf of toys, and the parents who pay.

    python -m examples.shop

The child's taste is the query, the look of each toy a key, and what the parents care about in it a value. The
three have different widths. All that is known is whether a toy was bought in the end; where the child looked
nobody wrote down. Attention has to find that out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.attention import attend
from glassformer.model.scores import Bilinear

TASTE = ("animals", "wheels", "noise", "colours")
LOOK = ("fur", "wheels", "buttons", "red", "blue", "size")
CARE = ("price", "safety", "learning")


@dataclass
class Visits:
    """Visits to the shop: B children, each in front of S toys."""

    taste_BQ: Tensor
    look_BSK: Tensor
    care_BSV: Tensor
    bought_B: Tensor
    wanted_B: Tensor
    """the toy that the child wanted most: kept apart, for judging the attention, never for training it"""


def visits(count: int, toys: int = 5, seed: int = 0) -> Visits:
    """Made-up visits: the child falls for one toy, and the parents pay if that one suits them."""
    generator = torch.Generator().manual_seed(seed)
    taste_BQ = torch.randn(count, len(TASTE), generator=generator)
    look_BSK = torch.randn(count, toys, len(LOOK), generator=generator)
    care_BSV = torch.randn(count, toys, len(CARE), generator=generator)
    likes_QK = torch.tensor(  # which taste goes for which look
        [[2.0, 0, 0, 0, 0, 0.5], [0, 2, 0, 0, 0, 0.5], [0, 0, 2, 0, 0, 0], [0, 0, 0, 1.5, 1.5, 0]]
    )
    wanted_B = (taste_BQ[:, None] @ likes_QK @ look_BSK.mT)[:, 0].argmax(-1)
    care_BV = care_BSV[torch.arange(count), wanted_B]
    bought_B = (care_BV @ torch.tensor([-1.5, 1.0, 1.0]) > 0).float()
    return Visits(taste_BQ, look_BSK, care_BSV, bought_B, wanted_B)


class Shop(nn.Module):
    """Will it be bought? The child looks, the parents weigh what the child looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.score = Bilinear(1, len(TASTE), len(LOOK))
        self.parents = nn.Linear(len(CARE), 1)

    def forward(self, visit: Visits) -> tuple[Tensor, Tensor]:
        """How likely it is to be bought, as logit_B, and where the child looks, as weights_BS."""
        # One head and one query: axes of length 1, as attention expects them.
        taste_B11Q = visit.taste_BQ[:, None, None]
        care_B11V, weights_B11S = attend(
            taste_B11Q, visit.look_BSK[:, None], visit.care_BSV[:, None], score=self.score
        )
        return self.parents(care_B11V)[:, 0, 0, 0], weights_B11S[:, 0, 0]


class Average(nn.Module):
    """The same without attention: the parents weigh the whole shelf, whatever the child wants."""

    def __init__(self) -> None:
        super().__init__()
        self.parents = nn.Linear(len(CARE), 1)

    def forward(self, visit: Visits) -> tuple[Tensor, Tensor]:
        even_BS = torch.full(visit.care_BSV.shape[:2], 1 / visit.care_BSV.shape[1])
        return self.parents(visit.care_BSV.mean(1))[:, 0], even_BS


@dataclass(frozen=True)
class Result:
    """Shares of new visits, never trained on."""

    bought: float
    """right about the purchase"""
    wanted: float
    """most attention on the toy that the child wanted"""


def train(model: nn.Module, visit: Visits, steps: int = 150, rate: float = 0.1) -> nn.Module:
    """Learn from purchases alone."""
    adam = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        logit_B, _ = model(visit)
        loss = F.binary_cross_entropy_with_logits(logit_B, visit.bought_B)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return model


@torch.no_grad()
def judge(model: nn.Module, visit: Visits) -> Result:
    logit_B, weights_BS = model(visit)
    return Result(
        ((logit_B > 0) == visit.bought_B.bool()).float().mean().item(),
        (weights_BS.argmax(-1) == visit.wanted_B).float().mean().item(),
    )


def main() -> None:
    torch.manual_seed(0)
    seen, new = visits(2000, seed=1), visits(2000, seed=2)
    for model in (Average(), Shop()):
        result = judge(train(model, seen), new)
        print(f"{type(model).__name__:8} purchases {result.bought:.0%}, toys {result.wanted:.0%}")


if __name__ == "__main__":
    main()
