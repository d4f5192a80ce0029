"""Which tokens begin a word? Tags belong to words, and words are hidden whole."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.text.token import Tokenizer


def word_starts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The places of the tokens that begin a word, a word being what white space separates.

    Pieces carry the space before them as ▁; symbols are words themselves; among characters it is the first
    one after a space.
    """
    pieces = tokenizer.pieces(ids)
    if tokenizer.kind in ("bpe", "unigram"):
        return [place for place, piece in enumerate(pieces) if place == 0 or piece.startswith("▁")]
    if tokenizer.kind == "characters":
        spaces = [True, *(piece.isspace() for piece in pieces)]
        return [place for place, piece in enumerate(pieces) if spaces[place] and not piece.isspace()]
    return list(range(len(pieces)))


def units(tokenizer: Tokenizer, ids: Sequence[int]) -> list[range]:
    """What is hidden together: whole words, where tokens are pieces of words; else single tokens."""
    starts = word_starts(tokenizer, ids) if tokenizer.kind in ("bpe", "unigram") else range(len(ids))
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(ids)], strict=True)]
