"""Long texts in parts that a model can take: at sentence ends, else between words, else anywhere."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable
from typing import Literal

Cut = Literal["sentences", "words", "characters"]

MARKS = 32
"""marks on one character that are kept together with it; no writing has more"""

# An end, with the quotes and brackets that close after it. After . ! ? white space must follow (3.14, e.g.),
# after the wide marks nothing.
_CLOSING = "[\"'”’»›)\\]}」』】》）］｣]*"
# A run of marks is looked at from its first one only: a thousand dots take a thousand steps, not a million.
_END = re.compile(f"(?:[。！？｡．]+{_CLOSING}\\s*)|(?:(?<![.!?…؟۔।॥։።])[.!?…؟۔।॥։።]+{_CLOSING}\\s+)")
_CLAUSE = re.compile(r"[,;:，；：、–—]\s*")
_SPACE = re.compile(r"\s+")


def split_sentences(text: str) -> list[str]:
    """Sentences with the white space that follows them: joined, they are the text again.

    >>> split_sentences("Hello! It costs 3.14 euros. 你好。再见！")
    ['Hello! ', 'It costs 3.14 euros. ', '你好。', '再见！']
    """
    cuts = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(cuts) if end > start]


def split_to_fit(text: str, fits: Callable[[str], bool]) -> tuple[list[str], Cut | None]:
    """Parts that fit, and the roughest cut that was needed; (whole text, None) if it fits as it is.

    Joined, the parts are the text again. A part of a single character counts as fitting.
    """
    if fits(text):
        return [text], None
    parts: list[str] = []
    roughest: Cut = "sentences"
    for sentence in split_sentences(text):
        pieces, cut = _halve(sentence, fits)
        parts += pieces
        if cut == "characters" or (cut == "words" and roughest == "sentences"):
            roughest = cut
    return parts, roughest


def _halve(text: str, fits: Callable[[str], bool]) -> tuple[list[str], Cut | None]:
    """Cut in the middle, and again, until all parts fit."""
    done: list[str] = []
    roughest: Cut | None = None
    waiting = [text]
    while waiting:
        part = waiting.pop()
        if len(part) < 2 or fits(part):
            done.append(part)
            continue
        place, cut = _middle(part)
        if roughest != "characters":
            roughest = cut
        waiting += [part[place:], part[:place]]
    return done, roughest


def _middle(text: str) -> tuple[int, Cut]:
    """The best place to cut in the middle half: after a comma or the like, at a space, else anywhere."""
    half, quarter = len(text) / 2, len(text) / 4
    for pattern in (_CLAUSE, _SPACE):
        places = [match.end() for match in pattern.finditer(text, int(quarter), int(3 * quarter))]
        places = [place for place in places if 0 < place < len(text)]
        if places:
            return min(places, key=lambda place: abs(place - half)), "words"
    middle = len(text) // 2
    for place in range(middle, max(0, middle - MARKS), -1):
        if not _belongs_to_the_left(text, place):
            return place, "characters"
    return middle, "characters"


def _belongs_to_the_left(text: str, place: int) -> bool:
    """Marks, joiners and what they join stay with the character before them."""
    return unicodedata.category(text[place]) in ("Mn", "Mc", "Me", "Cf") or text[place - 1] == "\u200d"
