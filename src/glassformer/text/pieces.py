"""SentencePiece, BPE or unigram: pieces of words learnt from text, and bytes for what has none."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece

from glassformer.config import TokenizerKind
from glassformer.errors import TokenizerError
from glassformer.text.lines import LONGEST_LINE
from glassformer.text.merges import Merges
from glassformer.text.token import (
    EOS,
    SPECIALS,
    UNK,
    UNKNOWN_MARK,
    Token,
    Tokenizer,
    as_list,
    covering,
    special_name,
)

BYTES = 256
MANY = 1024
"""texts that are worth another thread"""


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece, BPE or unigram: needs no words, so Chinese works like English.

    With the default normalisation, runs of spaces become one and spaces at the ends go; all else is kept,
    and what has no piece is spelled in bytes. The mark ▁ (U+2581) reads as a space, being SentencePiece's.
    """

    suffix = ".spm"

    def __init__(self, model: bytes, origin: str | Path = "the tokenizer") -> None:
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except (RuntimeError, OSError, ValueError, TypeError):
            raise TokenizerError(f"{origin}: not a SentencePiece model, or a damaged one") from None
        self.size = self._processor.get_piece_size() + 1
        self._check_layout(origin)
        self.kind = _model_kind(model)

    def _check_layout(self, origin: str | Path) -> None:
        found = {"eos": self._processor.eos_id(), "unk": self._processor.unk_id()}
        wrong = [
            f"{name} is {found[name]}, not {wanted}"
            for name, wanted in (("eos", EOS), ("unk", UNK))
            if found[name] != wanted
        ]
        if wrong:
            raise TokenizerError(
                f"{origin}: this model's layout is another one ({'; '.join(wrong)}): "
                f"train it with eos_id={EOS}, unk_id={UNK}, bos_id=-1, pad_id=-1"
            )

    def encode_batch(self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0) -> list[list[int]]:
        if not dropout:
            if len(texts) < MANY:  # SentencePiece starts its threads anew for every list, even one thread
                return [self._processor.encode(text, out_type=int) for text in texts]
            return self._processor.encode(list(texts), out_type=int, num_threads=os.cpu_count() or 1)
        if self.kind != "bpe":
            raise TokenizerError(
                f"dropout skips merges, which only kind = 'bpe' has; this tokenizer is {self.kind}"
            )
        return self._merges.encode_batch(texts, dropout, seed)

    @cached_property
    def _merges(self) -> Merges:
        return Merges(self._processor)

    def decode(self, ids: Iterable[int]) -> str:
        kept = [i for i in as_list(ids) if EOS < i < self.pad]
        return self._processor.decode(kept) if kept else ""

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in as_list(ids)]

    @cached_property
    def _pieces(self) -> list[str]:
        """Of all ids: asking SentencePiece for one at a time is slow."""
        named = self._processor.id_to_piece(list(range(self.size - 1)))
        return [special_name(i, self.size) or name for i, name in enumerate([*named, ""])]

    def tokens(self, text: str) -> list[Token]:
        found = self._processor.encode(text, return_type="offset_mapping")
        places = zip(found["ids"], found["pieces"], found["offsets"], strict=True)
        return [Token(i, piece, start, end) for i, piece, (start, end) in places]

    def unknown(self, text: str) -> list[str]:
        spans = [text[token.start : token.end] for token in self.tokens(text) if token.id == UNK]
        return [character for span in spans for character in span if not character.isspace()]

    def normalise(self, text: str) -> str:
        return str(self._processor.normalize(text)).replace("▁", " ").lstrip(" ")

    def to_bytes(self) -> bytes:
        return self._model


def train_pieces(
    kind: TokenizerKind, lines: list[str], size: int, coverage: float, normalisation: str
) -> SentencePieceTokenizer:
    least = BYTES + len(SPECIALS) + 16
    if size < least:
        raise TokenizerError(
            f"tokenizer.size = {size} is too small: {BYTES} entries spell rare characters in bytes; "
            f"use at least {least}, or kind = 'characters'"
        )
    if not any(line.strip() for line in lines):
        raise TokenizerError("there is no text to learn a vocabulary from")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_without_rare(lines, coverage, (size - BYTES - len(SPECIALS)) // 2),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            character_coverage=1.0,
            normalization_rule_name=normalisation,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            pad_id=-1,
            byte_fallback=True,
            hard_vocab_limit=False,
            unk_surface=f" {UNKNOWN_MARK} ",
            max_sentence_length=LONGEST_LINE,  # the default drops lines of more than 4,192 bytes, silently
            num_threads=1,  # unigram gives other pieces with another number
            minloglevel=2,
        )
    except RuntimeError as error:
        raise TokenizerError(f"SentencePiece can't learn from this text: {error}") from None
    return SentencePieceTokenizer(model.getvalue())


def _without_rare(lines: list[str], coverage: float, room: int) -> Iterator[str]:
    """The lines with a tab, which ends a piece and is never in one, for each character left to the bytes.

    SentencePiece's own coverage goes no lower than 0.98, and it gives up where characters alone fill the
    vocabulary. Here they get at most half of it (`room`), so Chinese fits a small one.
    """
    counts = Counter("".join(lines))
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    kept = min(room, covering([counts[character] for character in ranked], coverage))
    rare = dict.fromkeys(map(ord, ranked[kept:]), "\t")
    return (line.translate(rare) for line in lines) if rare else iter(lines)


def _model_kind(model: bytes) -> TokenizerKind:
    """model_type in a serialised ModelProto (field 3 of field 2): 2 is BPE; 1, the default, unigram."""
    for number, value in _fields(model):
        if number == 2 and isinstance(value, bytes):
            for inner, kind in _fields(value):
                if inner == 3 and kind == 2:
                    return "bpe"
    return "unigram"


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of a protocol buffer message (SentencePiece brings no parser of its own)."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[place : place + length]
        place += length
