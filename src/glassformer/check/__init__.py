"""Probes for somebody's own attention, positions, masks, layers, losses and whole Transformers.

    import glassformer as gf
    print(gf.check(MyAttention).text())   # a class, an instance, a function, or an adapter
    gf.assert_attention(MyAttention)      # in a test

Behaviour is probed, never names or source; `glass check my_file.py:MyAttention` does it from outside.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

_EXPORTS = {
    "Attention": "glassformer.check.adapters",
    "Layer": "glassformer.check.adapters",
    "Loss": "glassformer.check.adapters",
    "Model": "glassformer.check.adapters",
    "Report": "glassformer.check.report",
    "assert_attention": "glassformer.check.core",
    "check": "glassformer.check.core",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(
            f"module 'glassformer.check' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(importlib.import_module(_EXPORTS[name]), name)


class _CallablePackage(types.ModuleType):
    """Importing this package binds `glassformer.check` to it, so the package itself must be callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return __getattr__("check")(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
