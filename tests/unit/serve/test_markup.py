"""HTML in, HTML out: only the text changes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.serve.markup import put_together, take_apart


def shout(page: str) -> str:
    parts = take_apart(page)
    return put_together(parts, [part.content.upper() for part in parts if part.is_text])


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("hello", "HELLO"),
        ("<p>Hello <b>you</b></p>", "<p>HELLO <b>YOU</b></p>"),
        ("<a href='x' title=\"keep\">go</a>", "<a href='x' title=\"keep\">GO</a>"),
        ("a &amp; b &lt;i&gt;", "A &amp; B &lt;I&gt;"),
        ("&eacute;t&#233;", "ÉTÉ"),
        ("x<br/>y<br>z", "X<br/>Y<br>Z"),
        ("<script>var a = 'b';</script>c", "<script>var a = 'b';</script>C"),
        ("<style>p {}</style><code>ls <i>-l</i></code> d", "<style>p {}</style><code>ls <i>-l</i></code> D"),
        ("<p translate=no>Tom</p><p>tom</p>", "<p translate=no>Tom</p><p>TOM</p>"),
        ("<i class='a notranslate'>Tom <b>x</b></i>tom", "<i class='a notranslate'>Tom <b>x</b></i>TOM"),
        ("<!doctype html><!-- note -->\n<p>a\nb</p>\n", "<!doctype html><!-- note -->\n<p>A\nB</p>\n"),
        ("2 < 3 and a > b", "2 &lt; 3 AND A &gt; B"),
        ("<p>unclosed <b>a", "<p>UNCLOSED <b>A"),
        ("", ""),
        ("  \n ", "  \n "),
        ("<p>a</q></p>", "<p>A</q></p>"),
    ],
)
def test_text_changes_and_markup_stays(page: str, expected: str) -> None:
    assert shout(page) == expected


def test_a_translation_can_not_bring_markup_in() -> None:
    parts = take_apart("<p>x</p>")
    assert put_together(parts, ["<script>alert(1)</script>"]) == (
        "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"
    )


@pytest.mark.parametrize(
    "brick",
    ["<", "<!--", "<a ", '<a x="', "<a x='\"", "<p>a</p>", "<svg>", "&", "</", "<script>", "<a class="],
)
@pytest.mark.parametrize("end", ["", ">", '">', "-->"])
def test_no_page_takes_long(brick: str, end: str) -> None:
    begun = time.process_time()
    shout(brick * (20_000 // len(brick)) + end)
    assert time.process_time() - begun < 2


@given(st.text(alphabet="<>/&;!-=\"' \nabp#x1", max_size=60))
def test_any_soup_is_taken_apart_and_put_together(soup: str) -> None:
    parts = take_apart(soup)
    texts = [part.content for part in parts if part.is_text]
    again = take_apart(put_together(parts, texts))
    assert [part.content.split() for part in again if part.is_text] == [text.split() for text in texts]
