"""What is probed: a target of known kind and sizes, and how to call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from glassformer.check.calling import Caller


@dataclass
class Subject:
    """A target that is ready to be probed; `extra` holds what only its kind has."""

    kind: str
    name: str
    target: Any
    caller: Caller | None = None
    width: int = 0
    heads: int | None = None
    made_by: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
