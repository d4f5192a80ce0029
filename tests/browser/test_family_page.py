"""The page for models that do not translate, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from glassformer.bundle import load_reader
from glassformer.generate import Generator
from tests.browser.conftest import OpenPage
from tests.family import make
from tests.serving import toy_bundle
from tests.serving_process import Running, running_server

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("family")
    names = {
        "writer": "language_model",
        "judge": "classify",
        "tagger": "tag",
        "guesser": "masked_language_model",
    }
    return [str(make(task).save(folder / name)) for name, task in names.items()]


@pytest.fixture(scope="module")
def server(bundles: list[str]) -> Iterator[Running]:
    with running_server("--model", *bundles) as server:
        yield server


def settled(page: Any) -> str:
    page.wait_for_selector("#output:not([aria-busy])")
    return str(page.inner_text("#output"))


def test_a_text_goes_on(open_page: OpenPage, server: Running, bundles: list[str]) -> None:
    page = open_page(server.address)
    assert page.inner_text("#model option >> nth=0") == "writer · goes on with a text"
    page.uncheck("#sample")
    page.fill("#text", "the old")
    page.click("#go")
    expected = Generator(load_reader(bundles[0])).generate("the old")[0].text
    assert settled(page) == expected
    page.check("#sample")
    page.keyboard.press("Tab")
    page.focus("#text")
    page.keyboard.press("Control+Enter")
    assert settled(page).startswith("the old")


def test_labels_and_tags_come_while_one_types(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address, width=390, height=780, locale="zh-CN", dark=True)
    page.select_option("#model", "judge")
    assert page.is_hidden("#go")
    page.locator("#text").press_sequentially("the dog", delay=15)
    page.wait_for_selector("#output .label >> nth=1")
    assert {"GOOD", "BAD"} == {
        found.inner_text() for found in page.query_selector_all("#output .label > :first-child")
    }
    page.select_option("#model", "tagger")
    page.wait_for_selector("#output .tagged >> nth=1")
    assert len(page.query_selector_all("#output .tagged")) == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_blanks_are_filled_while_one_types(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.select_option("#model", "guesser")
    page.fill("#text", "the <b>dog</b> ")
    assert settled(page) == ""
    page.locator("#text").press_sequentially("___ at ___", delay=15)
    page.wait_for_selector("#output .blank >> nth=1")
    assert len(page.query_selector_all("#output .blank:first-child .label")) == 5
    assert page.inner_text("#output .blank p").startswith("the <b>dog</b> ")
    assert page.query_selector("#output b") is None


def test_markup_stays_text_and_trouble_is_said(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.select_option("#model", "tagger")
    page.fill("#text", "<img src=x onerror=alert(1)> <b>x</b>")
    page.wait_for_selector("#output .tagged")
    assert page.query_selector("#output img, #output b") is None
    page.select_option("#model", "writer")
    page.fill("#text", "")
    assert settled(page) == ""


def test_beside_a_translator_it_is_one_click_away(open_page: OpenPage, bundles: list[str]) -> None:
    with running_server("--model", str(toy_bundle()), bundles[1], "--engine", "torch") as server:
        page = open_page(server.address)
        page.click("#more")
        page.fill("#text", "the cat")
        page.wait_for_selector("#output .label")


def test_the_description_is_drawn_without_a_translator(open_page: OpenPage, server: Running) -> None:
    page = open_page(f"{server.address}/docs")
    page.wait_for_selector("article")
    assert "/generate" in page.inner_text("#routes")
