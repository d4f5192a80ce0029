"""Texts in sentences, and back: what is translated, and what stays as it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from glassformer.serve.languages import has_spaces
from glassformer.text.sentences import split_sentences, split_to_fit

LONGEST = 400
"""characters of a segment; a sentence that is longer is cut, so that no single one holds up the others"""
_LINES = re.compile(r"((?<!\s)\s*\n\s*)")


@dataclass(frozen=True)
class Segment:
    """A stretch of text, and the white space that stood before it."""

    text: str
    before: str
    words: bool
    """there is something to translate in it"""


def cut(text: str, longest: int = LONGEST) -> list[Segment]:
    """Lines, sentences, and parts of over-long sentences. Joined with their white space they are the text.

    >>> [segment.text for segment in cut("One. Two!\\n3 🙂\\n")]
    ['One.', 'Two!', '3 🙂', '']
    """
    found: list[Segment] = []
    before = ""
    for place, line in enumerate(_LINES.split(text)):
        if place % 2:
            before += line
            continue
        for sentence in split_sentences(line):
            for part in split_to_fit(sentence, lambda part: len(part) <= longest)[0]:
                core = part.strip()
                left = len(part) - len(part.lstrip())
                before += part[:left]
                if core:
                    found.append(Segment(core, before, any(map(str.isalnum, core))))
                    before = part[left + len(core) :]
    if before:
        found.append(Segment("", before, False))
    return found


def join(segments: list[Segment], translations: list[str], target: str) -> str:
    """The translations with the white space that fits the target language."""
    spaces = has_spaces(target)
    parts: list[str] = []
    for place, (segment, translation) in enumerate(zip(segments, translations, strict=True)):
        before = segment.before
        inside = place > 0 and bool(segment.text)
        if inside and not before and spaces:
            before = " "
        elif inside and not spaces and before == " ":
            before = ""
        parts += [before, translation]
    return "".join(parts)
