"""The page in a notebook: `look(translator, "A sentence.")` as the last line of a cell."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.look.page import render
from glassformer.look.trace import trace
from glassformer.translate import Translator


@dataclass(frozen=True)
class Look:
    """A sentence that was looked at: a notebook shows the page, `save` writes it, `trace` is the data."""

    trace: dict[str, Any] = field(repr=False)
    text: str = ""
    translation: str = ""
    height: int = 900
    """of the page in a notebook, in pixels"""

    def save(self, path: str | Path) -> Path:
        path = Path(path)
        path.write_text(render(self.trace), "utf-8")
        return path

    def _repr_html_(self) -> str:
        # Its own frame: the notebook's styles and scripts stay outside, and the page's inside.
        page = html.escape(render(self.trace))
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Glassformer" '
            f'width="100%" height="{self.height}" style="border: 0"></iframe>'
        )


def look(translator: Translator, text: str, *, height: int = 900, **options: Any) -> Look:
    """Look at one sentence; options are those of `glassformer.look.trace.trace`."""
    seen = trace(translator, text, **options)
    return Look(seen, text, seen["target"]["text"], height)
