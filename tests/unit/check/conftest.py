"""The tests of this folder share the catalogue of right and wrong modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _load_catalogue() -> None:
    spec = importlib.util.spec_from_file_location("check_catalogue", Path(__file__).parent / "catalogue.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_catalogue"] = module
    spec.loader.exec_module(module)


_load_catalogue()
