"""What stands around a token, looked up as a whole.

Where tokens are letters, what one of them means is decided by its neighbours, and attention has to learn
first to put them together. An n-gram that has a vector of its own says it at once: every run of 2, 3, …
tokens around a place is looked up in one table and added to the token's own vector (Huang et al. 2025 call it
over-encoding). The table has far fewer rows than there are n-grams; their hashes decide who shares one, as in
fastText (Bojanowski et al. 2017).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.model.parts import Dropout

PRIME, FACTOR = 2**31 - 1, 1_000_003
"""of the hash: h · FACTOR + id, modulo PRIME, token by token; ids decide it, on every machine alike"""


class Neighbours(nn.Module):
    """The sum of the vectors of all n-grams around each token, from 2 tokens up to `longest`.

    The vectors begin at zero: a row that no text of the training falls on says nothing. In training whole
    n-grams are left out, so that the model does not lean on the rare ones alone.
    """

    def __init__(self, rows: int, width: int, longest: int, pad: int, dropout: float) -> None:
        super().__init__()
        self.weight_RD = nn.Parameter(torch.zeros(rows, width))
        self.longest, self.pad, self.dropout = longest, pad, Dropout(dropout)

    def forward(self, ids_BT: Tensor) -> Tensor:
        rows_BTN = torch.stack([self.rows(ids_BT, n) for n in range(2, self.longest + 1)], dim=-1)
        kept_BTN = self.dropout(torch.ones_like(rows_BTN, dtype=self.weight_RD.dtype))
        x_PD = F.embedding_bag(
            rows_BTN.flatten(0, 1), self.weight_RD, mode="sum", per_sample_weights=kept_BTN.flatten(0, 1)
        )
        return x_PD.view(*ids_BT.shape, -1)

    def rows(self, ids_BT: Tensor, n: int) -> Tensor:
        """The row of the n-gram around each token; beyond both ends of a text stands padding."""
        around_BTn = F.pad(ids_BT, (n // 2, n - 1 - n // 2), value=self.pad).unfold(1, n, 1)
        hash_BT = torch.full_like(ids_BT, n)
        for ids_BT in around_BTn.unbind(-1):
            hash_BT = (hash_BT * FACTOR + ids_BT) % PRIME
        return hash_BT % len(self.weight_RD)
