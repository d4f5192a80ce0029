"""A translation and what it is made of: texts in parts that fit, and back in one piece."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from glassformer.align import Alignment, stands_alone
from glassformer.search.repeats import Run, kept_without_repeats
from glassformer.search.scoring import Hypothesis, Later, Penalty, length_factor
from glassformer.text.sentences import Cut, split_to_fit
from glassformer.text.token import UNKNOWN_MARK, Tokenizer


@dataclass(frozen=True)
class Note:
    """Something that a reader of the translation should know."""

    kind: Literal["split", "cut", "repetition", "unknown", "error"]
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass
class Translation:
    """One text and what became of it."""

    source: str
    text: str
    log_prob: float = 0.0
    """sum over all tokens: how likely the model finds this translation"""
    score: float = 0.0
    """log_prob after the length penalty: what translations are compared by"""
    ids: list[int] = field(default_factory=list)
    """the tokens of the text, by number"""
    tokens: list[str] = field(default_factory=list)
    """and by name"""
    token_log_probs: Sequence[float] = field(default_factory=list)
    """one for each token, and one for each end of a sentence"""
    alignment: Alignment | None = None
    """which source word each word came from, if asked for"""
    notes: list[Note] = field(default_factory=list)
    """split, cut, repeating, unknown characters: nothing is hidden"""
    alternatives: list[Translation] = field(default_factory=list)
    """the other n-best translations, best first, each text once"""


@dataclass
class Part:
    """A stretch of a text that is translated at once."""

    text: str
    """empty: nothing to translate"""
    joint: str | None
    """what stands before its translation; None: a space where the script has them"""
    ids: list[int] = field(default_factory=list)
    prefix: list[int] = field(default_factory=list)
    """what its translation has to begin with"""
    longest: int = 0
    """most tokens of its translation, the end included"""
    seed: int = 0
    found: list[Translation] = field(default_factory=list)
    """best first"""


@dataclass
class Line:
    """A text on its way: its parts, and what there is to say about it."""

    source: str
    parts: list[Part]
    notes: list[Note] = field(default_factory=list)


def prepare(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> list[Line]:
    r"""Texts in parts of at most `limit` tokens, ids included. Lines (\n) within a text stay lines."""
    lines = []
    for text in texts:
        paragraphs = [paragraph.strip() for paragraph in _without_surrogates(text).split("\n")]
        parts = [
            Part("" if is_blank(body) else body, "\n" if at else "") for at, body in enumerate(paragraphs)
        ]
        lines.append(Line(text, parts))
    whole = [part for line in lines for part in line.parts if part.text]
    for part, ids in zip(whole, tokenizer.encode_batch([part.text for part in whole]), strict=True):
        part.ids = ids
    for line in lines:
        if any(len(part.ids) > limit for part in line.parts):
            _split(line, tokenizer, limit)
        if any(tokenizer.unk in part.ids for part in line.parts):
            line.notes.append(_unknown(line, tokenizer))
    return lines


def _split(line: Line, tokenizer: Tokenizer, limit: int) -> None:
    """Replace the parts that are too long by shorter ones, and say so."""
    parts: list[Part] = []
    roughest: Cut = "sentences"
    longest = max(len(part.ids) for part in line.parts)
    for part in line.parts:
        if len(part.ids) <= limit:
            parts.append(part)
            continue
        pieces, cut = split_to_fit(part.text, lambda text: len(tokenizer.encode(text)) <= limit)
        if cut == "characters" or (cut == "words" and roughest == "sentences"):
            roughest = cut
        texts = [piece.strip() for piece in pieces if not is_blank(piece)]
        for at, (text, ids) in enumerate(zip(texts, tokenizer.encode_batch(texts), strict=True)):
            # A single character that is still too long would be many bytes in a very small model.
            parts.append(Part(text, None if at else part.joint, ids[:limit]))
    line.parts = parts
    where = {"sentences": "between sentences", "words": "between words", "characters": "inside words"}
    line.notes.append(
        Note(
            "split",
            f"{longest} tokens, but the model takes {limit}: translated in {len(parts)} parts, "
            f"split {where[roughest]}",
        )
    )


def _unknown(line: Line, tokenizer: Tokenizer) -> Note:
    found = [unknown for part in line.parts if part.text for unknown in tokenizer.unknown(part.text)]
    shown = ", ".join(repr(unknown) for unknown in list(dict.fromkeys(found))[:10])
    return Note("unknown", f"the model does not know {shown}")


def read(jobs: Sequence[tuple[Part, Sequence[Hypothesis]]], tokenizer: Tokenizer) -> None:
    """Hypotheses as text, each text once, endless repetitions cut: what each part has `found`."""
    rows = [
        (part, hypothesis, *kept_without_repeats(hypothesis.tokens, part.ids))
        for part, hypotheses in jobs
        for hypothesis in hypotheses
    ]
    ids = [[hypothesis.tokens[place] for place in kept] for _, hypothesis, kept, _ in rows]
    texts = tokenizer.decode_batch(ids)
    for (part, hypothesis, kept, run), said, text in zip(rows, ids, map(one_line, texts), strict=True):
        if any(text == other.text for other in part.found):
            continue
        part.found.append(
            Translation(
                part.text,
                text,
                hypothesis.log_prob,
                hypothesis.score,
                said,
                tokenizer.pieces(said),
                _log_probs(hypothesis, kept),
                notes=_notes(hypothesis, run, tokenizer, part.longest),
            )
        )


def _log_probs(hypothesis: Hypothesis, kept: Sequence[int]) -> Sequence[float]:
    """Of the tokens that are kept, and of the end. Nobody has looked yet: they may be `Later`."""
    all_of_them, tokens = hypothesis.token_log_probs, len(hypothesis.tokens)
    if len(kept) == tokens:
        return all_of_them
    places = [*kept, *range(tokens, len(all_of_them))]
    return Later(len(places), lambda: [all_of_them[place] for place in places])


def _notes(hypothesis: Hypothesis, run: Run | None, tokenizer: Tokenizer, longest: int) -> list[Note]:
    notes = []
    if run is not None:
        start, unit, length = run
        said = tokenizer.decode(hypothesis.tokens[start : start + unit]).strip()
        notes.append(Note("repetition", f"an endless repetition was cut: '{said}' {length // unit} times"))
    elif not hypothesis.finished:
        notes.append(Note("cut", f"cut at the maximum of {longest} tokens"))
    if tokenizer.unk in hypothesis.tokens:
        notes.append(Note("unknown", f"{UNKNOWN_MARK} stands for something the model could not say"))
    return notes


def joined(line: Line, alpha: float, penalty: Penalty) -> Translation:
    """The translation of a whole text, with its alternatives, from those of its parts."""
    ways = max((len(part.found) for part in line.parts), default=0) or 1
    found: dict[str, Translation] = {}
    for way in range(ways):
        one = _join(line, way, alpha, penalty)
        found.setdefault(one.text, one)
    best, *others = found.values()
    best.alternatives = others
    return best


def _join(line: Line, way: int, alpha: float, penalty: Penalty) -> Translation:
    """Translation number `way` of each part, or the last one that it has."""
    chosen = [part.found[min(way, len(part.found) - 1)] for part in line.parts if part.found]
    notes = line.notes + [note for one in chosen for note in one.notes]
    if len(line.parts) == 1 and chosen:
        only = chosen[0]
        only.source, only.notes = line.source, notes
        return only
    text, places = "", iter(chosen)
    for part in line.parts:
        said = next(places).text if part.found else ""
        text += joint(text, part) + said
    result = Translation(line.source, text, notes=notes)
    result.log_prob = sum(one.log_prob for one in chosen)
    result.ids = [token for one in chosen for token in one.ids]
    result.tokens = [token for one in chosen for token in one.tokens]
    result.token_log_probs = [log_prob for one in chosen for log_prob in one.token_log_probs]
    if chosen:
        result.score = result.log_prob / length_factor(max(1, len(result.token_log_probs)), alpha, penalty)
    alignments = [one.alignment for one in chosen if one.alignment is not None]
    if alignments:
        result.alignment = sum(alignments[1:], start=alignments[0])
    return result


def joint(before: str, part: Part) -> str:
    """What stands between a text and the translation of the part that follows."""
    if part.joint is not None:
        return part.joint
    return "" if not before or before[-1].isspace() or stands_alone(before[-1]) else " "


def likeliest(translation: Translation, form: Callable[[str], str]) -> str:
    r"""The likeliest form among a translation and its alternatives, those of one form taken together.

    >>> import re
    >>> found = Translation("of", "AH V", math.log(0.4))
    >>> found.alternatives = [Translation("of", f"AO{stress} V", math.log(0.3)) for stress in (0, 1)]
    >>> likeliest(found, lambda text: re.sub(r"\d", "", text))
    'AO V'
    """
    every = [translation, *translation.alternatives]
    highest = max(one.log_prob for one in every)
    shares: dict[str, float] = {}
    for one in every:
        text = form(one.text)
        shares[text] = shares.get(text, 0.0) + math.exp(one.log_prob - highest)
    return max(shares, key=shares.__getitem__)


def is_blank(text: str) -> bool:
    """Nothing in it that could be translated: white space, control and invisible characters."""
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}


def one_line(text: str) -> str:
    r"""A model may spell \n byte by byte; a translation of a line is a line."""
    return text.replace("\r", " ").replace("\n", " ")


def _without_surrogates(text: str) -> str:
    """Half characters (as JSON can smuggle in) can't be encoded: U+FFFD stands for them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
