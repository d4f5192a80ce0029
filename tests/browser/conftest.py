"""Debian's Chromium, driven by Playwright. A page that complains, or asks a stranger, fails its test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

OpenPage = Callable[..., Any]


def wait_until(page: Any, expression: str, seconds: float = 30) -> None:
    """Ask the page again and again until the expression holds.

    Playwright's own wait_for_function evaluates a string inside the page from its second look on,
    which our pages' Content-Security-Policy forbids; page.evaluate comes from outside each time.
    """
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"after {seconds:g} seconds this does not hold: {expression}"
        page.wait_for_timeout(20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """open_page(address, width=…, height=…, dark=…, locale=…, touch=…): a fresh page that is watched."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def watch(page: Any, host: str) -> None:
        def note(message: Any) -> None:
            if message.type in ("error", "warning"):
                troubles.append(f"console: {message.text}")

        def check(request: Any) -> None:
            parts = urlsplit(request.url)
            if parts.scheme not in ("data", "blob") and (parts.scheme, parts.netloc) != host:
                troubles.append(f"a request to {request.url}")

        page.on("console", note)
        page.on("pageerror", lambda error: troubles.append(f"uncaught: {error}"))
        page.on("request", check)

    def open_page(
        address: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        locale: str = "en-GB",
        touch: bool = False,
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            locale=locale,
            has_touch=touch,
        )
        contexts.append(context)
        parts = urlsplit(address)
        context.on("page", lambda page: watch(page, (parts.scheme, parts.netloc)))
        page = context.new_page()
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
