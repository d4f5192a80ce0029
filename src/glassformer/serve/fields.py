"""What a client sent: JSON, a form or a query string become the same fields, each checked for its type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request

from glassformer.serve.answers import RefusedError

Number = TypeVar("Number", int, float)


async def read_fields(request: Request) -> Fields:
    """The query string's fields and the body's; the body wins."""
    query = _form(request.scope["query_string"])
    body = await request.body()
    return Fields({**query, **_read_body(body, request.headers.get("content-type", ""))})


class Fields:
    """Named values with types; anything wrong is a 400 that names the field."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str = "") -> str:
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise RefusedError(400, f"Invalid request: {name} must be text")
        return _whole(value, name)

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise RefusedError(400, f"Invalid request: missing {name} parameter")
        return value

    def texts(self, name: str) -> tuple[list[str], bool]:
        """One text or a list of them, and whether it was a list."""
        value = self._values.get(name)
        if isinstance(value, list) and value:
            if not all(isinstance(text, str) for text in value):
                raise RefusedError(400, f"Invalid request: {name} must be a text or a list of texts")
            return [_whole(text, name) for text in value], True
        if value == []:
            raise RefusedError(400, f"Invalid request: missing {name} parameter")
        return [self.required(name)], False

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number; too small a one becomes the least, as LibreTranslate has it."""
        number = self._number(name, int)
        if number is None:
            return default
        if number > most:
            raise RefusedError(400, f"Invalid request: {name} parameter must be <= {most}")
        return max(least, number)

    def real(self, name: str, default: float, least: float, most: float) -> float:
        number = self._number(name, float)
        if number is None:
            return default
        if not least <= number <= most:
            raise RefusedError(400, f"Invalid request: {name} must be from {least:g} to {most:g}")
        return number

    def _number(self, name: str, kind: Callable[[Any], Number]) -> Number | None:
        """None where nothing was sent."""
        value = self._values.get(name)
        if value is None or value == "":
            return None
        try:
            if isinstance(value, (bool, list, dict)):
                raise ValueError
            return kind(value)
        except (ValueError, OverflowError):
            raise RefusedError(400, f"Invalid request: {name} parameter is not a number") from None

    def flag(self, name: str) -> bool:
        """true or false; a form can only write it out."""
        value = self._values.get(name)
        if value in (None, "", False, "false", "0"):
            return False
        if value in (True, "true", "1"):
            return True
        raise RefusedError(400, f"Invalid request: {name} must be true or false")

    def heads(self, name: str, most: int = 512) -> list[tuple[str, int]]:
        """A list of [place, head]: which heads are switched off."""
        value = self._values.get(name) or []
        if not isinstance(value, list) or len(value) > most or not all(map(_is_head, value)):
            raise RefusedError(400, f"Invalid request: {name} must be a list of [place, head]")
        return [(place, head) for place, head in value]

    def text_or_ids(self, name: str, most: int = 1024) -> str | list[int]:
        """A text, or a list of token ids."""
        value = self._values.get(name)
        if not isinstance(value, list):
            return self.text(name)
        if len(value) > most or not all(type(number) is int and 0 <= number < 1 << 31 for number in value):
            raise RefusedError(400, f"Invalid request: {name} must be text or a list of token ids")
        return value


def _is_head(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return isinstance(value[0], str) and len(value[0]) < 40 and type(value[1]) is int


def _whole(value: str, name: str) -> str:
    """A lone half of a surrogate pair is no character: nothing could be done with it, nor be written back."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusedError(400, f"Invalid request: {name} holds a lone surrogate") from None
    return value


def _read_body(body: bytes, content_type: str) -> dict[str, Any]:
    if not body:
        return {}
    kind = content_type.split(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(body)
    if kind == "application/x-www-form-urlencoded":
        return _form(body)
    if kind == "multipart/form-data":
        return _multipart(body, content_type)
    raise RefusedError(
        400, "Invalid request: Content-Type must be application/json, or a form's, or the body be empty"
    )


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(_decode(body))
    except (ValueError, RecursionError):
        raise RefusedError(400, "Invalid JSON format") from None
    if not isinstance(found, dict):
        raise RefusedError(400, "Invalid JSON format")
    return found


def _form(body: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(_decode(body), keep_blank_values=True, errors="strict", max_num_fields=100)
    except UnicodeDecodeError:
        raise RefusedError(400, "Invalid request: not UTF-8 text") from None
    except ValueError:
        raise RefusedError(400, "Invalid request: too many fields") from None
    return {name: _line_ends(value) for name, value in reversed(pairs)}  # the first of a name counts


def _multipart(body: bytes, content_type: str) -> dict[str, Any]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    found: dict[str, Any] = {}
    for part in message.iter_parts() if message.is_multipart() else ():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            found.setdefault(name, _line_ends(_decode(content)))
    return found


def _line_ends(text: str) -> str:
    """Forms send CRLF, whatever was typed."""
    return text.replace("\r\n", "\n")


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise RefusedError(400, f"Invalid request: not UTF-8 text (byte {problem.start})") from None
