"""BPE-dropout (Provilkov et al. 2020): SentencePiece's merges, each of them skipped now and then.

SentencePiece can do this too, but what it draws depends on where the process happens to lie in memory: its
sampling mixes the seed with a hash of the text that is salted by an address. A run that is resumed must see
the same splits again, so the merges are done here, with random numbers of ours. Without dropout the result
is SentencePiece's own, which a test compares.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SPACE = "▁"


class Merges:
    """The merges of a SentencePiece BPE model."""

    def __init__(self, processor: Any) -> None:
        count = processor.get_piece_size()
        special = (processor.is_control, processor.is_unknown, processor.is_unused, processor.is_byte)
        usual = [i for i in range(count) if not any(test(i) for test in special)]
        self._ids = {processor.id_to_piece(i): i for i in usual}
        self._ranks = {piece: -processor.get_score(i) for piece, i in self._ids.items()}
        self._bytes = {processor.id_to_piece(i): i for i in range(count) if processor.is_byte(i)}
        self._unknown = processor.unk_id()
        self._normalise: Callable[[str], str] = processor.normalize
        # No piece reaches over a space (unless somebody trained it to): words can be looked at one by one.
        self._by_word = not any(SPACE in piece[1:] for piece in self._ids)
        self._plain: dict[str, tuple[list[int], int]] = {}

    def encode_batch(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Ids of texts: a pure function of the arguments."""
        draw = random.Random(seed).random
        return [self._encode(text, dropout, draw) for text in texts]

    def _encode(self, text: str, dropout: float, draw: Callable[[], float]) -> list[int]:
        ids: list[int] = []
        for word in self._words(self._normalise(text)):
            plain, merges = self._without_dropout(word)
            drawn = [draw() for _ in range(merges)]
            if not drawn or min(drawn) >= dropout:  # the usual case: no merge of this word is skipped
                ids += plain
            else:
                # The same numbers again, from the start, and new ones where they do not suffice.
                numbers = itertools.chain(drawn, iter(draw, None))
                ids += self._merge(word, numbers.__next__, dropout)[0]
        return ids

    def _words(self, text: str) -> Iterator[str]:
        """Pieces of text that no merge joins, each with the space before it."""
        if not self._by_word:
            yield from [text] if text else []
            return
        start = 0
        while start < len(text):
            end = text.find(SPACE, start + 1)
            end = len(text) if end < 0 else end
            yield text[start:end]
            start = end

    def _without_dropout(self, word: str) -> tuple[list[int], int]:
        """The ids of a word, and how many merges make them."""
        if word not in self._plain:
            if len(self._plain) > 200_000:
                self._plain.clear()
            self._plain[word] = self._merge(word, lambda: 1.0, 0.0)
        return self._plain[word]

    def _merge(self, word: str, draw: Callable[[], float], dropout: float) -> tuple[list[int], int]:
        """Join neighbours, the best pair first, the left one of equals, until no pair is a piece.

        A pair that is skipped stays apart, unless one of the two grows and makes another pair.
        """
        parts: list[str] = list(word)
        following = [*range(1, len(parts)), -1]
        before = [-1, *range(len(parts) - 1)]
        agenda: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right >= 0 and (joined := parts[left] + parts[right]) in self._ranks:
                heapq.heappush(agenda, (self._ranks[joined], left, right, joined))

        for place in range(len(parts) - 1):
            offer(place, place + 1)
        merges = 0
        while agenda:
            _, left, right, joined = heapq.heappop(agenda)
            if not parts[left] or not parts[right] or parts[left] + parts[right] != joined:
                continue  # one of the two has been joined with another meanwhile
            merges += 1
            if draw() < dropout:
                continue
            parts[left], parts[right] = joined, ""
            following[left] = following[right]
            if following[left] >= 0:
                before[following[left]] = left
            offer(before[left], left)
            offer(left, following[left])
        return [i for part in parts if part for i in self._spell(part)], merges

    def _spell(self, part: str) -> list[int]:
        """The id of a piece; a character that is none is spelled in bytes, if the model has them."""
        if part in self._ids:
            return [self._ids[part]]
        if not self._bytes:
            return [self._unknown]
        return [self._bytes[f"<0x{byte:02X}>"] for byte in part.encode()]
