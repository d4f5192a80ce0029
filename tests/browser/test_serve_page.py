"""The page at `/` in a real browser: mouse, touch, keyboard, both languages, both themes, a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.translate import Translator, load
from tests.browser.conftest import OpenPage
from tests.serving import PAIRS, SENTENCES, toy_bundle
from tests.serving_process import Running, running_server

pytestmark = pytest.mark.full
TEXT = SENTENCES[0]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    models = ("--model", str(toy_bundle()), str(toy_bundle(turned=True)))
    with running_server(*models, "--engine", "torch") as server:
        yield server


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(toy_bundle(), engine="torch")


def read(page: Any) -> str:
    """What the output says once it has settled."""
    page.wait_for_selector("#output .word")
    page.wait_for_selector("#output:not([aria-busy])")
    return str(page.inner_text("#output"))


def test_it_translates_while_one_types(open_page: OpenPage, server: Running, translator: Translator) -> None:
    page = open_page(server.address)
    page.locator("#text").press_sequentially(TEXT, delay=15)
    assert read(page) == translator.translate(TEXT).text
    assert page.inner_text("#count") == f"{len(TEXT)} / 5000"
    page.click("#clear")
    assert page.inner_text("#output") == ""


def test_it_is_busy_from_the_first_key_until_the_answer_and_not_after_clearing(
    open_page: OpenPage, server: Running
) -> None:
    page = open_page(server.address)
    page.wait_for_selector("#model option", state="attached")
    page.fill("#text", " ".join(SENTENCES))
    assert page.get_attribute("#output", "aria-busy") == "true"
    page.click("#clear")
    assert page.get_attribute("#output", "aria-busy") is None
    assert page.inner_text("#output") == ""


def test_sentences_keep_their_places(open_page: OpenPage, server: Running, translator: Translator) -> None:
    page = open_page(server.address)
    page.fill("#text", f"{SENTENCES[1]} {SENTENCES[2]}\n🙂\n{SENTENCES[3]}")
    one, two, three = (translator.translate(text).text for text in SENTENCES[1:4])
    assert read(page) == f"{one}{two}\n🙂\n{three}"


def test_a_full_stop_stays_with_its_word(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.fill("#text", " ".join(SENTENCES))
    read(page)
    assert page.locator("#output .together").count() > len(SENTENCES)
    for width in range(320, 480, 16):
        page.set_viewport_size({"width": width, "height": 800})
        broken = "all => all.filter((one) => one.getClientRects().length > 1).length"
        assert page.eval_on_selector_all("#output .together", broken) == 0, width


def test_an_endless_row_of_marks_breaks(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address, width=390)
    page.wait_for_selector("#model option", state="attached")
    page.evaluate(
        """async () => {
          const { wordButtons } = await import("/static/words.js");
          const sentence = { text: "so " + "-".repeat(400), forced: 0 };
          document.getElementById("output").replaceChildren(...wordButtons(sentence, "en", () => {}));
        }"""
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#output .together").count() > 50


def test_markup_stays_text(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.fill("#text", "<img src=x onerror=alert(1)> <b>The cat</b> !!! <i>")
    read(page)
    assert page.query_selector("#output img, #output b, #output i") is None
    page.fill("#text", "<b>!</b>.\n--- <s>")
    page.wait_for_selector("#output:not([aria-busy])")
    assert page.query_selector("#output b, #output s") is None


def test_another_word_is_forced_and_undone(
    open_page: OpenPage, server: Running, translator: Translator
) -> None:
    page = open_page(server.address)
    page.fill("#text", "The cat sees tea.")
    before = read(page)
    page.click("#output .word >> nth=1")
    page.wait_for_selector("#choice button")
    word = page.inner_text("#choice button span >> nth=0")
    prefix = before[: before.index(page.inner_text("#output .word >> nth=1"))] + word
    page.click("#choice button >> nth=0")
    page.wait_for_selector("#output .forced")
    assert read(page) == translator.translate("The cat sees tea.", prefix=prefix).text
    assert read(page).startswith(prefix)
    page.click("#undo")
    page.wait_for_selector("#undo", state="hidden")
    assert read(page) == before


def test_the_keyboard_alone(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.wait_for_selector("#model option", state="attached")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type("The cat sees tea.")
    before = read(page)
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('word')"):
            break
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == page.inner_text("#output .word >> nth=1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choice button")
    page.keyboard.press("Escape")
    assert page.is_hidden("#choice")
    assert page.evaluate("document.activeElement.textContent") == focused
    page.keyboard.press("Enter")
    page.wait_for_selector("#choice button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#output .forced")
    assert read(page) != before


def test_alternatives_beams_and_model(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.fill("#text", TEXT)
    read(page)
    assert page.input_value("#model") == "toy-en-zh"
    page.focus("#alternatives")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#other-list li")
    assert 1 <= page.locator("#other-list li").count() <= 2
    assert page.inner_text("#alternatives-now") == "2"
    page.focus("#beams")
    page.keyboard.press("End")
    assert page.inner_text("#beams-now") == "8"
    assert read(page)


def test_swap_and_detection(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.fill("#text", "The cat sees tea.")
    said = read(page)
    page.click("#swap")
    assert page.input_value("#text") == said
    assert page.input_value("#source") == "zh-Hans"
    assert page.input_value("#target") == "en"
    assert re.search("[a-z]", read(page))
    page.select_option("#source", "auto")
    page.select_option("#target", "en")
    page.fill("#text", PAIRS[0][1])
    read(page)
    assert page.inner_text("#detected") == "Simplified Chinese"


def test_language_and_theme_are_remembered(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.wait_for_selector("#model option", state="attached")
    assert page.inner_text("footer a") == "how to use it"
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#language")
    page.click("#theme")
    assert page.inner_text("footer a") == "使用方法"
    assert page.inner_text("#target option:checked") == "简体中文"
    assert page.get_attribute("html", "lang") == "zh"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    page.wait_for_selector("#model option", state="attached")
    assert page.inner_text("footer a") == "使用方法"
    assert page.get_attribute("html", "data-theme") == "dark"


def test_a_chinese_browser_in_the_dark(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address, dark=True, locale="zh-CN")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.inner_text(".top p") == "看得见内部的翻译模型"


def test_a_phone(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address, width=390, height=844, touch=True)
    page.fill("#text", f"{SENTENCES[0]} {'long' * 40} {SENTENCES[1]}")
    read(page)
    page.tap("#output .word >> nth=0")
    page.wait_for_selector("#choice")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("#choice").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    for button in page.locator("button:visible:not(.word)").all():
        assert button.bounding_box()["height"] >= 36


def test_the_inside_of_a_sentence_opens(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.fill("#text", "The cat sees tea.")
    read(page)
    with page.context.expect_page() as opened:
        page.click("#inspect")
    inside = opened.value
    inside.wait_for_selector("#source-words button")
    assert "cat" in inside.inner_text("#source-words")


def test_with_keys_everything_works_once_the_key_is_given(open_page: OpenPage, tmp_path: Path) -> None:
    """The inspection too: it opens in a page of its own, and asks the server again from there."""
    (tmp_path / "keys").write_text("open sesame\n")
    models = ("--model", str(toy_bundle()), "--engine", "torch")
    with running_server(*models, "--api-keys", str(tmp_path / "keys")) as server:
        page = open_page(server.address)
        page.wait_for_selector("#key-label:not([hidden])")
        page.fill("#key", "open sesame")
        page.fill("#text", "The cat sees tea.")
        read(page)
        with page.context.expect_page() as opened:
            page.click("#inspect")
        inside = opened.value
        inside.wait_for_selector("#candidate-list button")
        inside.click("#candidate-list button:not([disabled]) >> nth=0")
        inside.wait_for_selector("#back:not([hidden])")
        inside.click(".head >> nth=0")
        inside.click("#silence-head")
        inside.wait_for_selector("#silenced .panel")


def test_the_description_of_the_api(open_page: OpenPage, server: Running) -> None:
    for width in (1280, 390):
        page = open_page(f"{server.address}/docs", width=width)
        page.wait_for_selector("article")
        assert page.locator("article").count() == 11
        assert "POST /translate" in page.inner_text("article >> nth=0").replace("\n", " ")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_trouble_is_said_calmly(open_page: OpenPage, server: Running) -> None:
    page = open_page(server.address)
    page.wait_for_selector("#model option", state="attached")
    page.route("**/stream", lambda route: route.fulfill(status=200, body='data: {"error": "Slowdown"}\n\n'))
    page.fill("#text", "tea")
    page.wait_for_selector("#trouble:not([hidden])")
    assert page.inner_text("#trouble") == "Slowdown"
