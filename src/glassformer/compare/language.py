"""A language that is made up here, for comparisons in which length matters. No torch, no download.

    si kuna daru koge lata gopo kota bugi
    KUNA LATA KOGE-a BUGI GOPO-o KOTA-o DARU-si-o

A source is mood, subject, verb and phrases; its translation is subject, phrases and verb. A phrase is a noun
with up to two adjectives before it. Translating takes what real languages ask for too: a dictionary; order
and agreement nearby (adjectives go behind their noun and take its gender); and order and agreement far away
(the verb goes to the end, and its form depends on the mood and on the subject's gender, which stand at the
beginning). The longer the sentence, the farther words must be carried.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache

Pair = tuple[str, str]

MOODS = ("si", "su", "sa")
GENDERS = ("a", "o", "e")
NOUNS, ADJECTIVES, VERBS = 36, 16, 12
SHORTEST = 4
"""mood, subject, verb and a noun"""


def sentence_pairs(count: int, lengths: Sequence[int], seed: int) -> Iterator[Pair]:
    """`count` pairs, none of them twice; the length of each source, in words, is drawn from `lengths`.

    >>> next(sentence_pairs(1, [8], seed=1))[0]
    'si kuna daru koge lata gopo kota bugi'
    """
    nouns, adjectives, verbs = _words()
    draw = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < count:
        mood, subject, verb = draw.choice(MOODS), draw.choice(nouns), draw.choice(verbs)
        source = [mood, subject, verb]
        target = [subject.upper()]
        left = draw.choice(lengths) - len(source)
        while left > 0:
            described = draw.choices(adjectives, k=min(left - 1, draw.randint(0, 2)))
            noun = draw.choice(nouns)
            source += [*described, noun]
            target += [noun.upper(), *(f"{word.upper()}-{gender(noun)}" for word in described)]
            left -= len(described) + 1
        target.append(f"{verb.upper()}-{mood}-{gender(subject)}")
        text = " ".join(source)
        if text not in seen:
            seen.add(text)
            yield text, " ".join(target)


def gender(noun: str) -> str:
    """Nothing in the noun's spelling tells it: it is learnt with the word, as in German."""
    return GENDERS[_words()[0].index(noun) % len(GENDERS)]


@cache
def _words() -> tuple[list[str], list[str], list[str]]:
    """Nouns, adjectives and verbs: four letters each, the same in every run."""
    syllables = [c + v for c in "bdgklmnprt" for v in "aeiou"]
    draw = random.Random(0)
    words = list(dict.fromkeys(draw.choice(syllables) + draw.choice(syllables) for _ in range(200)))
    ends = (NOUNS, NOUNS + ADJECTIVES, NOUNS + ADJECTIVES + VERBS)
    return words[: ends[0]], words[ends[0] : ends[1]], words[ends[1] : ends[2]]
