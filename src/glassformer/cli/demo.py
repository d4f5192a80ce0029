"""`glass demo`."""

from __future__ import annotations


def demo() -> None:
    """Train a small model here and now, and translate with it."""
