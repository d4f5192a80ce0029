"""`format=html`: the text between the tags is translated, and every tag stays as it was.

Not a parser of documents: it has to know only where markup begins and ends, and takes time in proportion to
the page, whatever is in it (Python's own parser takes the square of it for some).
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SILENT = {"script", "style", "code", "kbd", "samp", "var", "textarea", "svg", "math", "noscript", "template"}
_RAW = {"script", "style", "textarea", "title"}
"""inside these only their own end tag is markup"""
_VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"),
}
# A comment, a declaration, or a tag; > may stand inside quotes, unless they never close. The quantifiers with
# a second + never give back what they took.
_MARKUP = re.compile(
    r"""<!--.*?--> | <[!?][^>]*+> |
        <(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+) (?: (?:[^>"']|"[^"]*+"|'[^']*+')*+> | [^>]*+> )""",
    re.DOTALL | re.VERBOSE,
)
_SAYS_NO = re.compile(
    r"""\stranslate\s*=\s*["']?no\b | \sclass\s*=\s*["']?[^"'>]{0,200}\bnotranslate\b""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Stretch:
    """A part of a page: text to translate (without entities), or markup (as it stands)."""

    content: str
    is_text: bool


def take_apart(page: str) -> list[Stretch]:
    """Text and markup in turn.

    >>> [part.content for part in take_apart("<p>Tom &amp; I<br></p>") if part.is_text]
    ['Tom & I']
    """
    found = []
    for is_text, group in itertools.groupby(_pieces(page), key=lambda piece: piece[1]):
        raw = "".join(content for content, _ in group)
        text = html.unescape(raw)
        found.append(Stretch(text, True) if is_text and text.strip() else Stretch(raw, False))
    return found


def put_together(stretches: list[Stretch], translations: list[str]) -> str:
    """The page with its texts replaced; whatever a translation holds is text, never markup."""
    texts = iter(translations)
    return "".join(
        html.escape(next(texts), quote=False) if stretch.is_text else stretch.content for stretch in stretches
    )


def _pieces(page: str) -> Iterator[tuple[str, bool]]:
    """(raw, is it text to translate), from left to right; nothing is left out."""
    silent: list[str] = []
    place = 0
    last = page.rfind(">")  # behind it nothing can be a tag
    while match := _MARKUP.search(page, place, last + 1):
        if match.start() > place:
            yield page[place : match.start()], not silent
        yield match[0], False
        place = match.end()
        name = (match["name"] or "").lower()
        if not name:
            continue
        if match["end"]:
            if name in silent:
                del silent[len(silent) - 1 - silent[::-1].index(name) :]
        elif name not in _VOID and not match[0].endswith("/>"):
            if silent or name in _SILENT or _SAYS_NO.search(match[0]):
                silent.append(name)
            if name in _RAW:
                end = re.compile(f"</{name}", re.IGNORECASE).search(page, place)
                stop = end.start() if end else len(page)
                if stop > place:
                    yield page[place:stop], not silent
                place = stop
    if place < len(page):
        yield page[place:], not silent
