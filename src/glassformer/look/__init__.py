"""See through the model: traces, the inspection page, the walk, the head finder, figures.

from glassformer.look import look
look(translator, "A sentence.")       # in a notebook: the page; also translator.look("A sentence.")
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {"Look": "glassformer.look.show", "look": "glassformer.look.show"}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'glassformer.look' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)
