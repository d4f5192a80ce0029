"""A translator that has learnt to count, for all who need one."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.translate import Translator, load

SENTENCES = ["one two three.", "nine.", "four five six seven.", "ten ten one.", "two eight three six one."]
CHINESE = ["一二三。", "九。", "四五六七。", "十十一。", "二八三六一。"]


@pytest.fixture(scope="module")
def translator(numbers: Path) -> Translator:
    return load(numbers, engine="torch")
