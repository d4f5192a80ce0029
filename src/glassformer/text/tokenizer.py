"""Text ↔ token ids: learn, load and save the tokenizers of a source and a target side."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from glassformer.config import TokenizerConfig, TokenizerKind, VocabularyConfig
from glassformer.errors import TokenizerError
from glassformer.text.entries import KINDS, ListTokenizer, load_entries, train_entries
from glassformer.text.mapped import load_mapped, table_path
from glassformer.text.pieces import SentencePieceTokenizer, train_pieces
from glassformer.text.token import Token, Tokenizer

__all__ = ["Token", "Tokenizer", "TokenizerPair", "load_tokenizer", "train_tokenizer", "train_tokenizers"]

Pairs = Callable[[], Iterable[tuple[str, str]]]

SAMPLE = 500_000
"""lines a tokenizer is trained on, at most: more change nothing but time and memory"""
SUFFIXES = (SentencePieceTokenizer.suffix, ListTokenizer.suffix)


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of both sides. Shared: one vocabulary, and mostly one and the same tokenizer."""

    source: Tokenizer
    target: Tokenizer
    shared: bool

    def __post_init__(self) -> None:
        if self.shared != self.source.same_ids(self.target):
            raise TokenizerError(
                f"shared = {self.shared}, but source and target are the same: {not self.shared}"
            )

    def vocabulary(self) -> VocabularyConfig:
        return VocabularyConfig(
            source_size=self.source.size,
            target_size=self.target.size,
            shared=self.shared,
            eos=self.target.eos,
            unk=self.target.unk,
            source_pad=self.source.pad,
            target_pad=self.target.pad,
            start=self.target.pad,
        )

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.source.fingerprint()} {self.target.fingerprint()}".encode()).hexdigest()

    def files(self) -> dict[str, Tokenizer]:
        """File names and what they hold."""
        if self.source is self.target:
            return {f"tokenizer{self.source.suffix}": self.source}
        return {f"source{self.source.suffix}": self.source, f"target{self.target.suffix}": self.target}

    def save(self, directory: Path) -> None:
        for name, tokenizer in self.files().items():
            tokenizer.save(directory / name)

    @staticmethod
    def load(directory: Path) -> TokenizerPair:
        found = {
            side: [path for suffix in SUFFIXES if (path := directory / f"{side}{suffix}").is_file()]
            for side in ("tokenizer", "source", "target")
        }
        if len(found["tokenizer"]) == 1 and not found["source"] and not found["target"]:
            both = load_tokenizer(found["tokenizer"][0])
            return TokenizerPair(both, both, shared=True)
        if len(found["source"]) == len(found["target"]) == 1 and not found["tokenizer"]:
            source, target = load_tokenizer(found["source"][0]), load_tokenizer(found["target"][0])
            return TokenizerPair(source, target, shared=source.same_ids(target))
        names = ", ".join(sorted(path.name for paths in found.values() for path in paths)) or "none of them"
        raise TokenizerError(
            f"{directory}: expected tokenizer.spm, or source.spm and target.spm, or .vocab.json ones; "
            f"found {names}"
        )


def load_tokenizer(path: str | Path) -> Tokenizer:
    """A tokenizer from its file: .spm (or .model) is SentencePiece, .vocab.json a list."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path}: can't be read: {error.strerror}") from None
    if path.name.endswith(ListTokenizer.suffix):
        return load_entries(content, path)
    if table_path(path).is_file():
        return load_mapped(content, path)
    return SentencePieceTokenizer(content, path)


def train_tokenizer(
    kind: TokenizerKind,
    texts: Iterable[str],
    *,
    size: int = 8000,
    character_coverage: float = 1.0,
    normalisation: str = "identity",
) -> Tokenizer:
    """Learn a tokenizer from lines of text; the same lines in the same order give the same one."""
    if kind in KINDS:
        return train_entries(kind, texts, character_coverage)
    sample = _Sample()
    for text in texts:
        sample.add(text)
    return train_pieces(kind, sample.lines, size, character_coverage, normalisation)


def train_tokenizers(config: TokenizerConfig, pairs: Pairs) -> TokenizerPair:
    """The tokenizers of both sides; `pairs()` begins a new pass over the text pairs."""
    learn = partial(
        train_tokenizer,
        size=config.size,
        character_coverage=config.character_coverage,
        normalisation=config.normalisation,
    )
    if config.joint:
        both = learn(config.kind_of("source"), (text for pair in pairs() for text in pair))
        return TokenizerPair(both, both, shared=True)
    return TokenizerPair(
        learn(config.kind_of("source"), (source for source, _ in pairs())),
        learn(config.kind_of("target"), (target for _, target in pairs())),
        shared=False,
    )


class _Sample:
    """Up to SAMPLE lines of any number, each as likely as any other (reservoir), the same in every run."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._seen = 0
        self._generator = random.Random(0)

    def add(self, line: str) -> None:
        self._seen += 1
        if len(self.lines) < SAMPLE:
            self.lines.append(line)
        elif (place := self._generator.randrange(self._seen)) < SAMPLE:
            self.lines[place] = line
