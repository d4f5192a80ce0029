"""Matching across two spaces: which caption belongs to which picture?

    python -m examples.matching

Pictures come as 12 numbers, captions as 7: two programs that know nothing of each other made them, so that a
dot product between them does not even exist. A score with parameters of its own learns to compare them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.scores import Additive, Bilinear, Score

PICTURE, CAPTION, MEANING = 12, 7, 3
HIDDEN = 64
BATCH = 16


def pairs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """`count` pictures and their captions: two different views of the same hidden meaning."""
    views = torch.Generator().manual_seed(0)  # the two programs, the same in every call
    picture_MP = torch.randn(MEANING, PICTURE, generator=views)
    caption_MC = torch.randn(MEANING, CAPTION, generator=views)
    generator = torch.Generator().manual_seed(seed)
    meaning_BM = torch.randn(count, MEANING, generator=generator)
    picture_BP = (meaning_BM @ picture_MP).tanh() + 0.05 * torch.randn(count, PICTURE, generator=generator)
    caption_BC = (meaning_BM @ caption_MC).tanh() + 0.05 * torch.randn(count, CAPTION, generator=generator)
    return picture_BP, caption_BC


class Matcher(nn.Module):
    """Each caption looks for its picture among those of its batch.

    With `one`, every caption has one more number, which is always 1. So each tanh of the additive score gets
    a bias. Without it that score is odd: score(-q, -k) = -score(q, k), but likeness is even.
    """

    def __init__(self, kind: str, one: bool = True) -> None:
        super().__init__()
        width = CAPTION + one
        self.one = one
        self.score: Score = {
            "bilinear": lambda: Bilinear(1, width, PICTURE),
            "additive": lambda: Additive(1, width, PICTURE, HIDDEN),
        }[kind]()

    def forward(self, caption_BC: Tensor, picture_BP: Tensor) -> Tensor:
        """scores_BB: row by row, how well each picture goes with a caption."""
        query_BC = F.pad(caption_BC, (0, int(self.one)), value=1.0)
        return self.score(query_BC[None, None], picture_BP[None, None])[0, 0]


def train(kind: str, one: bool = True, steps: int = 300, rate: float = 0.03) -> Matcher:
    """The right picture is the one at the caption's own place: cross-entropy against the diagonal."""
    torch.manual_seed(0)
    model = Matcher(kind, one)
    adam = torch.optim.Adam(model.parameters(), rate)
    for step in range(steps):
        picture_BP, caption_BC = pairs(BATCH, seed=step + 1)
        loss = F.cross_entropy(model(caption_BC, picture_BP), torch.arange(BATCH))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return model


@torch.no_grad()
def found(model: Matcher, rounds: int = 50) -> float:
    """How often the right picture comes first among 16, all of them new."""
    right = 0
    for number in range(rounds):
        picture_BP, caption_BC = pairs(BATCH, seed=1_000_000 + number)
        right += int((model(caption_BC, picture_BP).argmax(-1) == torch.arange(BATCH)).sum())
    return right / (rounds * BATCH)


def main() -> None:
    for kind, one in (("bilinear", True), ("additive", True), ("additive", False)):
        untrained, trained = (found(train(kind, one, steps)) for steps in (0, 300))
        print(f"{kind}{'' if one else ', without the 1'}: before {untrained:.0%}, after {trained:.0%}")


if __name__ == "__main__":
    main()
