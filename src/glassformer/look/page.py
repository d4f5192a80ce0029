"""The inspection page: one self-contained HTML file, no library, no network.

The page is written as ES modules, a style sheet and a table of texts in `page/`; here they are put into one
file together with the trace. A page that is served (`server=True`) asks for forced words and silenced heads:

    POST /inspect   {"text", "prefix": [ids], "heads_off": [["decoder.0.cross", 2]], "beams", "model"}
    →               trace(translator, text, prefix=…, heads_off=…, continuations=0, ablations=False)
                    or {"error": "…"} with a status other than 200
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

MODULES = ("dom", "data", "state", "matrix", "server", "links", "heads", "candidates", "beam", "hood", "main")
"""in the order in which they need each other"""
INSPECT = "/inspect"
"""where a served page asks"""


def render(trace: dict[str, Any], *, server: bool = False) -> str:
    """The page of a trace. `server`: it asks the server at /inspect instead of using what the trace holds."""
    parts = {
        "policy": policy(server=server),
        "style": style(),
        "script": script(),
        "texts": _as_json(texts()),
        "trace": _as_json(trace),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("index.html"))
    return page.replace('<html lang="en">', f'<html lang="en" data-server="{INSPECT}">') if server else page


def policy(*, server: bool = False) -> str:
    """The page's Content-Security-Policy, which it also carries itself: its own script, its own style, and no
    connection but to the server that brought it (none at all for a saved page)."""
    connect = "'self'" if server else "'none'"
    return (
        f"default-src 'none'; script-src '{_hash(script())}'; style-src '{_hash(style())}'; "
        f"connect-src {connect}; img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def script() -> str:
    """All modules as one: their imports fall away, for they share one scope."""
    parts = []
    for name in MODULES:
        source = re.sub(r"^import .*;\n", "", _read(f"{name}.js"), flags=re.MULTILINE)
        parts.append(re.sub(r"^export ", "", source, flags=re.MULTILINE))
    return "\n".join(parts)


@cache
def style() -> str:
    return _read("style.css")


@cache
def texts() -> dict[str, dict[str, str]]:
    """Language → key → text: the page's, and the walk's in the terminal."""
    found: dict[str, dict[str, str]] = json.loads(_read("texts.json"))
    return found


def _read(name: str) -> str:
    return files("glassformer.look").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _as_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no character
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
