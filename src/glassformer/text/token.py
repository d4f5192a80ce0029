"""What a tokenizer is, whatever its kind: text ↔ token ids.

One layout for all: end of sentence 0, unknown 1, then pieces, and the padding last, outside whatever is
saved. What looks like a special token in a text (`</s>`, `<pad>`) is text, and no id of a special token ever
becomes text.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from glassformer.config import TokenizerKind

EOS, UNK = 0, 1
SPECIALS = ["</s>", "<unk>"]
UNKNOWN_MARK = "⁇"
"""what an unknown token looks like in an output, as in SentencePiece"""


@dataclass(frozen=True)
class Token:
    """One token of a text: `text[start:end]` is what it stands for.

    The bytes that spell one character share its place: all but the last are empty.
    """

    id: int
    piece: str
    start: int
    end: int


class Tokenizer(ABC):
    """What every kind of tokenizer can do."""

    kind: TokenizerKind
    suffix: ClassVar[str]
    """how its file's name ends"""
    eos = EOS
    unk = UNK
    size: int
    """entries, the padding included"""

    @property
    def pad(self) -> int:
        return self.size - 1

    @property
    def file_name(self) -> str:
        return f"tokenizer{self.suffix}"

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without the end of sentence."""
        return self.encode_batch([text])[0]

    @abstractmethod
    def encode_batch(self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0) -> list[list[int]]:
        """Ids of texts. `dropout` is the chance that a merge is skipped (BPE only; Provilkov et al. 2020);
        the result is a pure function of texts, dropout and seed."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text; end of sentence and padding say nothing."""

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id is called, special tokens included: for people who look inside."""

    @abstractmethod
    def tokens(self, text: str) -> list[Token]:
        """Ids and pieces of a text with the characters that each stands for."""

    @abstractmethod
    def unknown(self, text: str) -> list[str]:
        """Characters (or symbols) of the text that this tokenizer can't spell, in order."""

    @abstractmethod
    def normalise(self, text: str) -> str:
        """What `decode(encode(text))` gives back, if nothing is unknown."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The file's content."""

    def save(self, path: Path) -> None:
        path.write_bytes(self.to_bytes())

    def fingerprint(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def same_ids(self, other: Tokenizer) -> bool:
        """The two are one vocabulary: an id means the same piece to both."""
        return self is other


def special_name(i: int, size: int) -> str | None:
    return {EOS: "</s>", UNK: "<unk>", size - 1: "<pad>"}.get(i)


def as_list(ids: Iterable[int]) -> list[int]:
    """Plain integers, from a list, an array or a tensor (whose elements are slow to walk through)."""
    return ids.tolist() if hasattr(ids, "tolist") else list(ids)


def covering(counts: Sequence[int], coverage: float) -> int:
    """How many of the counts (falling) make up this share of their sum."""
    wanted, total = coverage * sum(counts), 0
    for place, count in enumerate(counts):
        if total >= wanted:
            return place
        total += count
    return len(counts)
