"""`format=html`: the text between the tags is translated, and every tag stays as it was."""

from __future__ import annotations

import html
import itertools
from dataclasses import dataclass
from html.parser import HTMLParser

_SILENT = {"script", "style", "code", "kbd", "samp", "var", "textarea", "svg", "math", "noscript", "template"}
_VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"),
}


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
    reader = _Reader(page)
    reader.feed(page)
    reader.close()
    bounds = [*reader.events, (len(page), False)]
    found = []
    for is_text, group in itertools.groupby(itertools.pairwise(bounds), key=lambda pair: pair[0][1]):
        pairs = list(group)
        raw = page[pairs[0][0][0] : pairs[-1][1][0]]
        text = html.unescape(raw)
        if is_text and text.strip():
            found.append(Stretch(text, True))
        elif raw:
            found.append(Stretch(raw, False))
    return found


def put_together(stretches: list[Stretch], translations: list[str]) -> str:
    """The page with its texts replaced; whatever a translation holds is text, never markup."""
    texts = iter(translations)
    return "".join(
        html.escape(next(texts), quote=False) if stretch.is_text else stretch.content for stretch in stretches
    )


class _Reader(HTMLParser):
    """Notes where text and markup begin; Python's parser says what is which."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.events: list[tuple[int, bool]] = [(0, False)]
        self._lines = [0, *(place + 1 for place, character in enumerate(page) if character == "\n")]
        self._silent: list[str] = []

    def _note(self, is_text: bool) -> None:
        line, column = self.getpos()
        self.events.append((self._lines[line - 1] + column, is_text and not self._silent))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._note(False)
        values = dict(attributes)
        silent = values.get("translate") == "no" or "notranslate" in (values.get("class") or "").split()
        if tag not in _VOID and (self._silent or silent or tag in _SILENT):
            self._silent.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._note(False)

    def handle_endtag(self, tag: str) -> None:
        self._note(False)
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._note(True)

    def handle_entityref(self, name: str) -> None:
        self._note(True)

    def handle_charref(self, name: str) -> None:
        self._note(True)

    def handle_comment(self, data: str) -> None:
        self._note(False)

    def handle_decl(self, decl: str) -> None:
        self._note(False)

    def handle_pi(self, data: str) -> None:
        self._note(False)

    def unknown_decl(self, data: str) -> None:
        self._note(False)
