"""The page is one file: everything inside, nothing that can run away."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from glassformer import look
from glassformer.look.pack import unpack
from glassformer.look.page import MODULES, policy, render, script, style, texts
from glassformer.look.trace import trace
from tests.looking import translator

HOSTILE = "</script><img src=x>&'\""


class Scripts(HTMLParser):
    """The script elements of a page, and the names of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: dict[str, str] = {}
        self.names: list[str] = []
        self._id: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag == "script":
            self._id = dict(attrs).get("id") or "main"

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self.scripts[self._id] = self.scripts.get(self._id, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._id = None


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return trace(translator(), HOSTILE)


def test_the_trace_inside_is_the_trace(seen: dict[str, Any]) -> None:
    parsed = Scripts(render(seen))
    inside = json.loads(parsed.scripts["trace"])
    assert inside == seen
    for place, packed in seen["attention"].items():
        assert np.array_equal(unpack(inside["attention"][place]), unpack(packed))


def test_markup_in_a_sentence_stays_text(seen: dict[str, Any]) -> None:
    parsed = Scripts(render(seen))
    assert seen["source"]["text"] == HOSTILE
    assert "img" not in parsed.names
    assert parsed.names.count("script") == 3


def test_half_a_character_breaks_no_page(seen: dict[str, Any]) -> None:
    page = render({**seen, "request": {**seen["request"], "reference": "a\ud800b"}})
    assert json.loads(Scripts(page).scripts["trace"])["request"]["reference"] == "a?b"
    page.encode()


def test_nothing_comes_from_elsewhere(seen: dict[str, Any]) -> None:
    page = render(seen)
    known = {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"https?://[^\s\"'`)]+", page)) == known
    assert not re.search(r"<(link|img|iframe)\b|<[a-z][^>]*\ssrc=|@import|url\(", page)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", script())
    assert 'style="' not in page


def test_the_policy_lets_only_its_own_script_and_style_run(seen: dict[str, Any]) -> None:
    parsed, page = Scripts(render(seen)), render(seen)

    def of(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    [inside] = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert of(parsed.scripts["main"]) in policy()
    assert of(inside) in policy()
    assert "connect-src 'none'" in policy()
    assert "connect-src 'self'" in policy(server=True)
    assert policy() in page


def test_a_served_page_asks_its_server(seen: dict[str, Any]) -> None:
    assert 'data-server="/inspect"' in render(seen, server=True)
    assert "data-server=" not in render(seen)


def test_both_languages_say_everything() -> None:
    english, chinese = texts()["en"], texts()["zh"]
    assert set(english) == set(chinese)
    for key, text in english.items():
        assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", chinese[key])), key


def test_every_text_that_the_page_asks_for_exists(seen: dict[str, Any]) -> None:
    page = render(seen)
    keys = set(re.findall(r'data-(?:t|title)="(\w+)"', page)) | set(re.findall(r'\bt\("(\w+)"', script()))
    assert keys <= set(texts()["en"])
    assert "attention, not explanation" in texts()["en"]["caution"].lower()


def test_modules_share_one_scope_without_clashes() -> None:
    code = script()
    assert not re.search(r"^(import|export)\b", code, flags=re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", code, flags=re.MULTILINE)
    assert len(MODULES) == 11
    assert len(names) == len(set(names))


def test_a_notebook_gets_a_frame(seen: dict[str, Any]) -> None:
    shown = translator().look(HOSTILE, continuations=0, ablations=False, height=500)
    assert isinstance(shown, look.Look)
    frame = shown._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert frame.count("<") == 2
    assert "</script>" not in frame
    assert 'height="500"' in frame
    assert shown.translation == shown.trace["target"]["text"]
    assert style()[:20] not in repr(shown)
