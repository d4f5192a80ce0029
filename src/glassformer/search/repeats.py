"""Endless repetition: a model that says the same again and again until it is stopped.

Cut after decoding, on token ids, so that every engine gives the same text.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_UNIT = 32
"""tokens of the longest unit that is looked for"""
LEAST_TIMES, LEAST_TOKENS = 4, 12
"""a run counts when it says its unit this often and has this many tokens: `no no no no` is left alone"""

Run = tuple[int, int, int]
"""(first token, tokens of the unit, tokens of the whole run)"""


def find_run(tokens: Sequence[int]) -> Run | None:
    """The first long repetition of the shortest unit, if there is one.

    >>> find_run([5, *[7, 8] * 6, 9])
    (1, 2, 12)
    """
    if len(tokens) - len(set(tokens)) < LEAST_TOKENS - LEAST_TOKENS // LEAST_TIMES:
        return None  # a run says its few tokens again and again: most texts are cleared by this
    for unit in range(1, min(LONGEST_UNIT, len(tokens) // LEAST_TIMES) + 1):
        same = 0
        for place in range(unit, len(tokens) + 1):
            if place < len(tokens) and tokens[place] == tokens[place - unit]:
                same += 1
                continue
            length = same + unit
            if length >= LEAST_TOKENS and length // unit >= LEAST_TIMES:
                return place - length, unit, length
            same = 0
    return None


def kept_without_repeats(tokens: Sequence[int], source: Sequence[int]) -> tuple[list[int], Run | None]:
    """Places of the tokens that stay when long runs are cut to one unit, and the first run that was cut.

    A source that repeats itself half as often may be translated so: then nothing is cut.
    """
    places = list(range(len(tokens)))
    in_source = find_run(source)
    times_in_source = in_source[2] // in_source[1] if in_source else 1
    first: Run | None = None
    while (run := find_run([tokens[place] for place in places])) is not None:
        start, unit, length = run
        if times_in_source > 1 and length // unit <= 2 * times_in_source:
            break
        first = first or run
        del places[start + unit : start + length]
    return places, first
