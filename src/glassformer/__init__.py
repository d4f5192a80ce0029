"""Glassformer: the Transformer of *Attention Is All You Need*, whole and in plain sight.

Names are loaded when they are first used, so that `import glassformer` costs nothing and brings no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "ModelConfig": "glassformer.config",
    "Recipe": "glassformer.recipe",
    "GlassformerError": "glassformer.errors",
    "Transformer": "glassformer.model.transformer",
    "MultiHeadAttention": "glassformer.model.attention",
    "attend": "glassformer.model.attention",
    "build_model": "glassformer.model.build",
    "record": "glassformer.model.record",
    "Bundle": "glassformer.bundle",
    "Filler": "glassformer.fill",
    "Generator": "glassformer.generate",
    "Labeller": "glassformer.label",
    "load_reader": "glassformer.bundle",
    "Translator": "glassformer.translate",
    "load": "glassformer.translate",
    "check": "glassformer.check",
    "assert_attention": "glassformer.check",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
