"""Bodies of requests: three forms, and what can be wrong with each."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.serve.answers import RefusedError
from glassformer.serve.fields import Fields, _read_body

JSON, FORM = "application/json; charset=utf-8", "application/x-www-form-urlencoded"
texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts)
def test_all_forms_say_the_same(text: str) -> None:
    text = text.replace("\r", "")
    boundary = "x" * 40
    part = f'--{boundary}\r\nContent-Disposition: form-data; name="q"\r\n\r\n{text}\r\n--{boundary}--\r\n'
    read = [
        _read_body(json.dumps({"q": text}).encode(), JSON),
        _read_body(urlencode({"q": text}).encode(), FORM),
        _read_body(part.encode(), f"multipart/form-data; boundary={boundary}"),
    ]
    assert [body.get("q") for body in read] == [text] * 3


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"{", JSON, "Invalid JSON format"),
        (b"[]", JSON, "Invalid JSON format"),
        (b"5", JSON, "Invalid JSON format"),
        (b"[" * 100_000, JSON, "Invalid JSON format"),
        (b'{"q": ' + b"9" * 10_000 + b"}", JSON, "Invalid JSON format"),
        (b'{"q": "\xff"}', JSON, r"not UTF-8 text \(byte 7\)"),
        (b"q=%ff", FORM, "not UTF-8"),
        (b"q=\xff", FORM, "not UTF-8"),
        (b"&".join(b"a=b" for _ in range(200)), FORM, "too many fields"),
        (b"hello", "text/plain", "Content-Type must be"),
        (b"hello", "", "Content-Type must be"),
    ],
)
def test_what_can_not_be_read_is_said(body: bytes, kind: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as caught:
        _read_body(body, kind)
    assert caught.value.status == 400


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary="])
def test_a_broken_multipart_body_holds_nothing(kind: str) -> None:
    assert _read_body(b"--a\r\n\r\nx", kind) == {}


@pytest.mark.parametrize("value", [None, "", [], {}, 5, True, ["a", 5], "\ud800", ["\ud800"]])
def test_texts_are_texts(value: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        Fields({"q": value}).texts("q")
    assert caught.value.status == 400


def test_numbers_come_as_numbers_or_digits() -> None:
    assert Fields({"n": 3}).number("n", 0, 0, 5) == 3
    assert Fields({"n": "3"}).number("n", 0, 0, 5) == 3
    assert Fields({"n": -3}).number("n", 0, 0, 5) == 0
    assert Fields({}).number("n", 2, 0, 5) == 2
    for wrong in ("abc", True, [1], {}, "1" * 5000, float("inf"), float("nan")):
        with pytest.raises(RefusedError, match="not a number"):
            Fields({"n": wrong}).number("n", 0, 0, 5)
    with pytest.raises(RefusedError, match="must be <= 5"):
        Fields({"n": 6}).number("n", 0, 0, 5)


@pytest.mark.parametrize("value", [5, "x", [[]], [["a"]], [["a", "b"]], [["a", True]], [["a" * 99, 1]]])
def test_heads_are_checked(value: Any) -> None:
    with pytest.raises(RefusedError, match="heads_off"):
        Fields({"heads_off": value}).heads("heads_off")


def test_heads_and_ids_that_are_right() -> None:
    assert Fields({"h": [["encoder.0", 1]]}).heads("h") == [("encoder.0", 1)]
    assert Fields({"p": [1, 2]}).text_or_ids("p") == [1, 2]
    assert Fields({"p": "a"}).text_or_ids("p") == "a"
    with pytest.raises(RefusedError):
        Fields({"p": [1, "2"]}).text_or_ids("p")
