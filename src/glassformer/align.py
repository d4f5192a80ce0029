"""Attention → which source word each target word came from.

Attention is between tokens; people think in words. Tokens know their characters, so a word's weight is what
its tokens have: summed over the source word's tokens, averaged over the target word's. What a model attends
to is a hint at the alignment, not a proof.
"""

from __future__ import annotations

import bisect
import itertools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glassformer.errors import RequestError

Span = tuple[int, int]
"""first character and the one after the last"""

# Scripts that put no spaces between words: each character stands for itself. East Asian width says which
# are ideographs and kana; these ranges hold Thai and Lao, Myanmar, and Khmer.
_NO_SPACES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))


@dataclass(frozen=True)
class Alignment:
    """Words of both sides, and how strongly each target word looked at each source word."""

    source_words: list[str]
    target_words: list[str]
    weights: list[list[float]] = field(repr=False)
    """one row a target word, one column a source word"""
    links: list[tuple[int, int]] = field(default_factory=list)
    """(source word, target word): the source word that each target word looked at most"""

    def pharaoh(self) -> str:
        """As text, as other aligners write it: `0-0 1-2`."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def __add__(self, other: Alignment) -> Alignment:
        """Two texts, one after the other."""
        right, below = len(self.source_words), len(self.target_words)
        wide, tall = len(other.source_words), len(other.target_words)
        weights = [[*row, *[0.0] * wide] for row in self.weights]
        weights += [[*[0.0] * right, *other.weights[row]] for row in range(tall)]
        return Alignment(
            self.source_words + other.source_words,
            self.target_words + other.target_words,
            weights,
            self.links + [(source + right, target + below) for source, target in other.links],
        )


def words(text: str) -> list[Span]:
    """Where the words are: what white space separates; in scripts without spaces every character.

    >>> [text[a:b] for text in ["the cat, 我爱"] for a, b in words(text)]
    ['the', 'cat,', '我', '爱']
    """
    spans: list[Span] = []
    start: int | None = None
    for place, character in enumerate(text):
        alone = stands_alone(character)
        if start is not None and (alone or character.isspace()):
            spans.append((start, place))
            start = None
        if alone:
            spans.append((place, place + 1))
        elif start is None and not character.isspace():
            if _is_mark(character) and spans and spans[-1][1] == place:
                spans[-1] = (spans[-1][0], place + 1)  # a mark belongs to the character before it
            else:
                start = place
    return spans if start is None else [*spans, (start, len(text))]


def stands_alone(character: str) -> bool:
    """Is this a character of a script that puts no spaces between words?"""
    point = ord(character)
    if point < 0x0E00 or _is_mark(character):
        return False
    if unicodedata.east_asian_width(character) in "WF":
        return point < 0x1F000 and not 0xAC00 <= point <= 0xD7AF  # emoji are no script; Korean has spaces
    return any(first <= point <= last for first, last in _NO_SPACES)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def spans_of_ids(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[Span]:
    """The characters that each token adds to the decoded text.

    Read off the text as it grows: that works for every tokenizer, and for the bytes of one character, of
    which the last one gets it.
    """
    ends = [0]
    for count in range(1, len(ids) + 1):
        text = decode(ids[:count])
        ends.append(max(ends[-1], len(text.rstrip("\N{REPLACEMENT CHARACTER}"))))
    if ids:
        ends[-1] = max(ends[-1], len(decode(ids)))
    return list(itertools.pairwise(ends))


def cross_attention(attention: Mapping[str, Sequence[Tensor]]) -> Tensor:
    """weights_LBTS from what a recorder heard during one `model.decode`: the mean over each layer's heads."""
    layers = sorted((int(place.split(".")[1]), place) for place in attention if place.endswith(".cross"))
    if not layers:
        raise RequestError("this model has no attention over the source, so there is nothing to align by")
    return torch.stack([attention[place][0].mean(1) for _, place in layers])


def information(weights_XTS: Tensor) -> Tensor:
    """Bits (in e's) that a target place gives about the source place it looks at, for each of X matrices.

    The mutual information of both under the attention weights, with T and S without their ends. Large when
    each word looks at its own place; 0 when all look at the same one (a sink) or everywhere.

    >>> information(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])).abs().tolist()
    [0.6931471824645996, 0.0]
    """
    tiny = torch.finfo(weights_XTS.dtype).tiny
    weights_XTS = weights_XTS / weights_XTS.sum(-1, keepdim=True).clamp(min=tiny)
    marginal_XS = weights_XTS.mean(1)
    return _entropy(marginal_XS) - _entropy(weights_XTS).mean(-1)


def _entropy(weights: Tensor) -> Tensor:
    return -torch.special.xlogy(weights, weights).sum(-1)


def aligning(weights_LTS: Tensor) -> Tensor:
    """weights_TS of the layer that aligns one sentence best, by `information`; both sides end with eos.

    In deep models that is mostly the last layer but one (Garg et al. 2019), in shallow ones the last.
    """
    if weights_LTS.shape[1] < 2 or weights_LTS.shape[2] < 2:
        return weights_LTS[-1]
    return weights_LTS[int(information(weights_LTS[:, :-1, :-1]).argmax())]


def align(
    weights_TS: Tensor, source: str, source_spans: Sequence[Span], target: str, target_spans: Sequence[Span]
) -> Alignment:
    """Words and links from the attention between tokens; columns past the source's tokens (eos) drop out."""
    source_words, target_words = words(source), words(target)
    to_source_SW = _membership(source_spans, source_words).to(weights_TS)
    to_target_TW = _membership(target_spans, target_words).to(weights_TS)
    weights_TW = weights_TS[: len(target_spans), : len(source_spans)] @ to_source_SW
    counts_W1 = to_target_TW.sum(0).clamp(min=1).unsqueeze(1)
    weights_WW = to_target_TW.T @ weights_TW / counts_W1
    links = []
    if source_words:
        best_W = weights_WW.argmax(1).tolist()
        links = [(best, row) for row, best in enumerate(best_W) if float(weights_WW[row, best]) > 0]
    return Alignment(
        [source[start:end] for start, end in source_words],
        [target[start:end] for start, end in target_words],
        weights_WW.tolist(),
        links,
    )


def _membership(spans: Sequence[Span], words: Sequence[Span]) -> Tensor:
    """1 where a token touches a word; a token over several words counts for each."""
    member_XW = torch.zeros(len(spans), len(words))
    ends = [end for _, end in words]
    for row, (start, end) in enumerate(spans):
        place = bisect.bisect_right(ends, start)
        while place < len(words) and words[place][0] < max(end, start + 1):
            member_XW[row, place] = 1
            place += 1
    return member_XW
