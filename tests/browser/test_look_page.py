"""The inspection page in a real browser: mouse, touch, keyboard, both languages, both themes, a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.config import SearchConfig
from glassformer.look.pack import unpack
from glassformer.look.page import render
from glassformer.look.trace import trace
from glassformer.translate import Translator, load
from tests.browser.conftest import OpenPage, wait_until
from tests.looking import translator as random_translator
from tests.serving import SENTENCES, toy_bundle
from tests.serving_process import Running, running_server

pytestmark = pytest.mark.full
TEXT = "seven two ten one four."
HOSTILE = "</script><img src=x>我们喜欢看书。"


@pytest.fixture(scope="module")
def translator(numbers: Path) -> Translator:
    return load(numbers, engine="torch")


@pytest.fixture(scope="module")
def seen(translator: Translator) -> dict[str, Any]:
    return trace(translator, TEXT)


@pytest.fixture(scope="module")
def address(seen: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(seen, tmp_path_factory.mktemp("look"))


def save(seen: dict[str, Any], folder: Path) -> str:
    path = folder / "look.html"
    path.write_text(render(seen), "utf-8")
    return path.as_uri()


def settle(page: Any) -> None:
    """Wait until the page has drawn what was asked for: once a frame, however busy the machine is."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def reading(page: Any, host: str) -> Any:
    settle(page)
    return page.evaluate(f"({{...document.querySelector('{host} .reading').dataset}})")


def read(page: Any, selector: str) -> str:
    settle(page)
    return str(page.inner_text(selector))


def test_cells_are_the_recorded_weights(open_page: OpenPage, address: str, seen: dict[str, Any]) -> None:
    page = open_page(address)
    for place, head, row, column in (("decoder.1.cross", 1, 2, 3), ("encoder.0.self", 0, 4, 1)):
        stack = "cross" if place.endswith("cross") else "encoder"
        page.click(f"#stack button[data-value={stack}]")
        page.click(f".head[data-head='{place}:{head}']")
        page.wait_for_selector("#enlarged[open]")
        weights_HTS = unpack(seen["attention"][place])
        page.keyboard.press("ArrowDown")  # the first key shows the cursor, at the current step or at the top
        start = int(reading(page, "#enlarged")["row"])
        for _ in range(row - start):
            page.keyboard.press("ArrowDown")
        for _ in range(column):
            page.keyboard.press("ArrowRight")
        cell = reading(page, "#enlarged")
        assert (int(cell["row"]), int(cell["column"])) == (row, column)
        assert float(cell["value"]) == float(weights_HTS[head, row, column])
        page.keyboard.press("Escape")
        page.wait_for_selector("#enlarged:not([open])", state="attached")


def test_the_mouse_reads_the_alignment(open_page: OpenPage, address: str, seen: dict[str, Any]) -> None:
    page = open_page(address)
    canvas = page.locator("#alignment-matrix canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    mean_TS = unpack(seen["attention"]["decoder.0.cross"]).mean(0)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.6)
    cell = reading(page, "#alignment-matrix")
    row, column = int(cell["row"]), int(cell["column"])
    assert float(cell["value"]) == pytest.approx(float(mean_TS[row, column]), abs=1e-6)
    page.mouse.down()
    page.mouse.up()
    assert read(page, "#step-reading").startswith(f"Step {row + 1} of")


def test_steps_by_keyboard_slider_and_word(open_page: OpenPage, address: str, seen: dict[str, Any]) -> None:
    page = open_page(address)
    assert read(page, "#step-reading").startswith("Step 1 of 7")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert read(page, "#step-reading").startswith("Step 3 of 7")
    assert page.inner_text("#target-words .now") == seen["target"]["pieces"][2]
    page.keyboard.press("End")
    assert read(page, "#step-reading").startswith("Step 7 of 7")
    page.locator("#step").fill("1")
    assert read(page, "#step-reading").startswith("Step 2 of 7")
    page.click("#target-words button:nth-child(4)")
    assert read(page, "#step-reading").startswith("Step 4 of 7")
    assert page.locator("#links path").count() > 3
    page.hover("#source-words button:nth-child(2)")
    settle(page)
    assert page.locator("#links path").count() >= 1


def test_a_forced_word_goes_on_as_translate_does(
    open_page: OpenPage, address: str, seen: dict[str, Any], translator: Translator
) -> None:
    page = open_page(address)
    page.keyboard.press("ArrowRight")
    settle(page)
    [other] = [one for one in seen["candidates"][1] if not one["chosen"]][:1]
    page.click(f"#candidate-list button[data-id='{other['id']}']")
    page.wait_for_selector("#forced .text")
    prefix = translator.bundle.tokenizers.target.decode([seen["target"]["ids"][0], other["id"]])
    expected = translator.translate(TEXT, prefix=prefix).text
    assert page.get_attribute("#forced .text[data-text]", "data-text") == expected
    assert page.inner_text("#forced .text[data-text]") == expected
    assert other["piece"] in page.inner_text("#forced mark")
    page.click("#candidate-list button[data-id='0']")  # the end, here and now
    settle(page)
    assert page.inner_text("#forced .text[data-text]") == seen["target"]["pieces"][0] + "⟨end⟩"


def test_a_head_is_switched_off_and_on(open_page: OpenPage, address: str, seen: dict[str, Any]) -> None:
    page = open_page(address)
    key = next(key for key, one in seen["ablations"].items() if one["changed"] and "cross" in key)
    page.click(f".head[data-head='{key}']")
    page.click("#silence-head")
    page.wait_for_selector("#silenced .panel")
    assert page.locator("#silenced .text").nth(1).inner_text() == seen["ablations"][key]["text"]
    assert f"{seen['ablations'][key]['bleu']:.1f}" in page.inner_text("#silenced")
    assert page.locator(".head.off").count() == 1
    page.click("#silenced button")
    settle(page)
    assert page.locator(".head.off").count() == 0


def test_language_and_theme(open_page: OpenPage, address: str) -> None:
    page = open_page(address)
    assert page.inner_text("h2 >> nth=1").endswith("Alignment")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    settle(page)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.click("#language")
    settle(page)
    assert page.inner_text("h2 >> nth=1").endswith("对齐")
    assert page.evaluate("document.documentElement.lang") == "zh"
    page.reload()
    assert page.inner_text("h2 >> nth=1").endswith("对齐")
    assert "注意力，不是解释" in page.inner_text(".caution")


def test_the_readers_own_settings_come_first(open_page: OpenPage, address: str) -> None:
    page = open_page(address, dark=True, locale="zh-CN")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.inner_text("#theme") == "浅色"


def test_chinese_by_character_and_by_word_and_markup_as_text(open_page: OpenPage, tmp_path: Path) -> None:
    hostile = trace(random_translator(), HOSTILE, continuations=20)
    page = open_page(save(hostile, tmp_path))
    assert page.evaluate("document.images.length") == 0
    assert "<img src=x>" in page.inner_text("#source-words").replace("\n", "").replace("␣", " ")

    def words(mode: str) -> list[str]:
        page.click(f"#grouping button[data-value={mode}]")
        settle(page)
        return [str(text) for text in page.locator("#source-words button").all_inner_texts()]

    assert words("characters")[-7:-1] == list("们喜欢看书。")
    assert words("words")[-5:-1] == ["我们", "喜欢", "看书", "。"]
    page.click("#hood-tab button[data-value=tokens]")
    assert page.evaluate("document.images.length") == 0


def test_keyboard_alone(open_page: OpenPage, address: str) -> None:
    page = open_page(address)
    page.keyboard.press("3")
    settle(page)
    wait_until(page, "document.activeElement.dataset.value === 'cross'")  # drawn first, focused then
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.head") == "decoder.0.cross:0"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.head") == "decoder.1.cross:0"
    page.keyboard.press("Enter")
    page.wait_for_selector("#enlarged[open]")
    page.keyboard.press("Escape")
    settle(page)
    page.focus("#tree")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        settle(page)
    assert "score" in read(page, "#node-reading")
    page.keyboard.press("6")
    settle(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "‖x‖" in read(page, "#hood-view")


def test_a_phone(open_page: OpenPage, address: str, seen: dict[str, Any]) -> None:
    page = open_page(address, width=390, height=844, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.tap("#target-words button:nth-child(3)")
    assert read(page, "#step-reading").startswith("Step 3 of 7")
    page.tap("#candidate-list li:nth-child(2) button")
    page.wait_for_selector("#forced .text")
    page.tap(".head >> nth=0")
    page.wait_for_selector("#enlarged[open]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_copies(open_page: OpenPage, address: str, seen: dict[str, Any]) -> None:
    page = open_page(address)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#alignment-matrix [data-copy=csv]")
    page.wait_for_selector("#alignment-matrix .copied")
    rows = page.evaluate("navigator.clipboard.readText()").strip().split("\n")
    assert len(rows) == len(seen["target"]["ids"]) + 1
    mean_TS = unpack(seen["attention"]["decoder.0.cross"]).mean(0)
    assert float(rows[2].split(",")[3]) == pytest.approx(float(mean_TS[1, 2]), abs=1e-6)
    page.click("#alignment-matrix [data-copy=svg]")
    wait_until(page, "async () => (await navigator.clipboard.readText()).startsWith('<svg xmlns=')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert seen["target"]["pieces"][0] in copied


def test_128_tokens_do_not_stutter(open_page: OpenPage, tmp_path: Path) -> None:
    machine = random_translator(search=SearchConfig(max_length=128))
    long = trace(machine, ("我们 like books. " * 9)[:127], continuations=0, ablations=False)
    assert len(long["source"]["ids"]) == 128
    page = open_page(save(long, tmp_path))
    page.wait_for_selector("#head-grid .head")
    times = page.evaluate(
        """async () => {
          const slider = document.getElementById("step"), times = [];
          for (let step = 0; step < 60; step++) {
            const began = performance.now();
            slider.value = step;
            slider.dispatchEvent(new Event("input"));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
            times.push(performance.now() - began);
          }
          return times.sort((a, b) => a - b);
        }"""
    )
    assert times[30] < 60, f"the median step takes {times[30]:.0f} ms"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server("--model", str(toy_bundle()), "--engine", "torch") as server:
        yield server


def test_a_served_page_asks_its_server(open_page: OpenPage, server: Running) -> None:
    machine = load(toy_bundle(), engine="torch")
    page = open_page(f"{server.address}/inspect?text={SENTENCES[0]}")
    seen = trace(machine, SENTENCES[0], continuations=0, ablations=False)
    page.wait_for_selector("#candidate-list button")
    [other] = [one for one in seen["candidates"][0] if not one["chosen"] and one["id"] > 1][:1]
    page.click(f"#candidate-list button[data-id='{other['id']}']")
    page.wait_for_selector("#back:not([hidden])")
    forced = trace(machine, SENTENCES[0], prefix=[other["id"]], continuations=0, ablations=False)
    assert forced["target"]["text"] in page.title()
    page.click("#back")
    wait_until(page, f"document.title.endsWith({json.dumps(seen['target']['text'])})")
    page.click(".head >> nth=0")
    page.click("#silence-head")
    page.wait_for_selector("#silenced .panel")
    assert page.locator(".head.off").count() == 1
    before, after = page.locator("#silenced .text").all()
    assert before.inner_text() == seen["target"]["text"]
    head = tuple(page.evaluate("document.querySelector('.head.off').dataset.head").rsplit(":", 1))
    off = [(head[0], int(head[1]))]
    without = trace(machine, SENTENCES[0], heads_off=off, continuations=0, ablations=False)
    assert after.inner_text().startswith(without["target"]["text"])
    assert f"{without['whole']['bleu']:.1f}" in page.inner_text("#silenced")
    page.click("#silenced button")
    page.wait_for_selector("#silenced .panel", state="detached")
    assert page.locator(".head.off").count() == 0
