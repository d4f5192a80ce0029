"""64-bit hashes of text, and a set of them in eight bytes each: duplicates in any amount of text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


def hash_text(text: str, key: bytes = b"") -> int:
    """The same number in every process and version (Python's own hash is not)."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little")


class HashSet:
    """Which hashes were seen before, a chunk at a time.

    Sorted runs, each more than twice as long as the next: adding n hashes costs O(n log n), and nothing is
    kept but the numbers. The chance that any two of n different texts fall together is n²/2 ÷ 2⁶⁴: three in
    a hundred million for a million texts, three in ten thousand for a hundred million.
    """

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, hashes: Iterable[int]) -> npt.NDArray[np.bool_]:
        """Add a chunk; True where a hash is new, the first of several like ones counting as new."""
        chunk = np.fromiter(hashes, np.uint64)
        unique, first = np.unique(chunk, return_index=True)
        unseen = np.ones(len(unique), bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, unique), len(run) - 1)
            unseen &= run[places] != unique
        new = np.zeros(len(chunk), bool)
        new[first[unseen]] = True
        if unseen.any():
            self._push(unique[unseen])
        return new

    def _push(self, run: Hashes) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
