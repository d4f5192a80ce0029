"""SentencePiece with a table of ids beside it: the tokenizers of Marian models from Hugging Face.

There, `source.spm` and `target.spm` only cut text into pieces; `vocab.json` says which id a piece has. The
ids stay as they are, the special ones included. In a bundle the table of `source.spm` is `source.ids.json`.

Two things are as in transformers' MarianTokenizer: a text that begins with a language code, as in
`>>deu<< Hello`, has that code as its first token; a character that this side's SentencePiece does not know
has the id of the piece that is spelled the same, if the table holds one. One thing is not: `</s>`, `<pad>`
and `<unk>` inside a text are text here. (MarianTokenizer takes them for special tokens unless it is told
`split_special_tokens=True`: anybody's text could then end a sentence.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import TokenizerError
from glassformer.text.pieces import SentencePieceTokenizer
from glassformer.text.token import Token, Tokenizer, as_list


class MappedTokenizer(SentencePieceTokenizer):
    """SentencePiece cuts, a table gives the ids. The special ids are data."""

    def __init__(
        self,
        model: bytes,
        ids: Mapping[str, int],
        *,
        eos: int,
        unk: int,
        pad: int,
        origin: str | Path = "the tokenizer",
    ) -> None:
        super().__init__(model, origin)
        problems = table_problems(ids, eos=eos, unk=unk, pad=pad)
        if problems:
            raise TokenizerError("\n  - ".join([f"{origin}: the table of ids is wrong", *problems]))
        self.ids = dict(ids)
        self.size = len(ids)
        self.eos, self.unk, self._pad = eos, unk, pad
        self._names = sorted(ids, key=ids.__getitem__)
        # What text can become. A literal </s> never reaches a special id.
        self._of_text = {piece: i for piece, i in ids.items() if i not in (eos, unk, pad)}

    def _check_layout(self, origin: str | Path) -> None:
        """Any layout will do: SentencePiece's own ids are not used."""

    @property
    def pad(self) -> int:
        return self._pad

    def same_ids(self, other: Tokenizer) -> bool:
        return isinstance(other, MappedTokenizer) and self._table() == other._table()

    def encode_batch(self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0) -> list[list[int]]:
        if dropout:
            raise TokenizerError("dropout of merges is not made for a tokenizer with a table of ids")
        parts = [split_code(text) for text in texts]
        batch = [self._processor.encode(rest, out_type=str) for _, rest in parts]
        return [
            [self._of_text.get(piece, self.unk) for piece in ([code] if code else []) + pieces]
            for (code, _), pieces in zip(parts, batch, strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        kept = [self._names[i] for i in as_list(ids) if i not in (self.eos, self.pad)]
        text = str(self._processor.decode_pieces(kept))
        return text.replace("▁", " ").strip()  # pieces of the other side keep their mark

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._names[i] for i in as_list(ids)]

    def tokens(self, text: str) -> list[Token]:
        code, rest = split_code(text)
        found = self._processor.encode(rest, return_type="offset_mapping")
        tokens = [Token(self._of_text.get(code, self.unk), code, 0, len(code))] if code else []
        for piece, (start, end) in zip(found["pieces"], found["offsets"], strict=True):
            i = self._of_text.get(piece, self.unk)
            tokens.append(Token(i, piece, start + len(code), end + len(code)))
        return tokens

    def unknown(self, text: str) -> list[str]:
        spans = [text[token.start : token.end] for token in self.tokens(text) if token.id == self.unk]
        return [character for span in spans for character in span if not character.isspace()]

    def normalise(self, text: str) -> str:
        code, rest = split_code(text)
        return " ".join(part for part in (code, super().normalise(rest).strip()) if part)

    def save(self, path: Path) -> None:
        super().save(path)
        content = json.dumps(self._table(), ensure_ascii=False, indent=0) + "\n"
        table_path(path).write_text(content, "utf-8")

    def fingerprint(self) -> str:
        table = json.dumps(self._table(), sort_keys=True)
        return hashlib.sha256(self.to_bytes() + table.encode()).hexdigest()

    def _table(self) -> dict[str, Any]:
        return {"format": 1, "eos": self.eos, "unk": self.unk, "pad": self.pad, "ids": self.ids}


def split_code(text: str) -> tuple[str, str]:
    """A language code at the very start, and the rest.

    >>> split_code(">>deu<< Hello"), split_code("Hello")
    (('>>deu<<', ' Hello'), ('', 'Hello'))
    """
    end = text.find("<<") if text.startswith(">>") else -1
    return (text[: end + 2], text[end + 2 :]) if end >= 0 else ("", text)


def table_problems(ids: Mapping[str, int], *, eos: int, unk: int, pad: int) -> list[str]:
    """Why a table can't be used: every reason."""
    problems = []
    if not all(type(i) is int for i in ids.values()):
        problems.append("an id is not a whole number")
    elif sorted(ids.values()) != list(range(len(ids))):
        problems.append(f"its {len(ids)} ids are not 0 to {len(ids) - 1}, each once")
    specials = {"eos": eos, "unk": unk, "pad": pad}
    outside = [f"{name} = {i}" for name, i in specials.items() if not 0 <= i < len(ids)]
    if outside:
        problems.append(f"outside the vocabulary of {len(ids)}: {', '.join(outside)}")
    if len(set(specials.values())) < len(specials):
        problems.append(f"the special ids must differ: {specials}")
    return problems


def table_path(model: Path) -> Path:
    """Where the table of a SentencePiece file stands, if it has one."""
    return model.with_name(f"{model.name.removesuffix('.spm')}.ids.json")


def load_mapped(model: bytes, path: Path) -> MappedTokenizer:
    """The tokenizer of a SentencePiece file that has a table beside it."""
    origin = table_path(path)
    try:
        loaded = json.loads(origin.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{origin}: can't be read: {error}") from None
    keys = ("eos", "unk", "pad")
    if not isinstance(loaded, dict) or loaded.get("format") != 1 or not isinstance(loaded.get("ids"), dict):
        raise TokenizerError(f'{origin}: an object with "format": 1 and "ids" was expected')
    wrong = [f"{key} = {loaded.get(key)!r}" for key in keys if type(loaded.get(key)) is not int]
    if wrong:
        raise TokenizerError(f"{origin}: not a whole number: {', '.join(wrong)}")
    specials = {key: loaded[key] for key in keys}
    return MappedTokenizer(model, loaded["ids"], **specials, origin=origin)
