"""The walk as people read it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from glassformer.errors import RequestError
from glassformer.look.explain import explain
from glassformer.translate import Translator, load


@pytest.fixture(scope="module")
def translator(numbers: Path) -> Translator:
    return load(numbers, engine="torch")


def test_from_ids_to_the_chosen_word(translator: Translator) -> None:
    text = "\n".join(explain(translator, "one two.", step=2).lines())
    for part in ("Source embedding", "Encoder layer 1", "Decoder layer 1", "Choosing the word"):
        assert part in text
    assert "S = Q Kᵀ / √16" in text
    assert "B × H × T × S = 1 × 2 × 4 × 4" in text
    assert "the word chosen is 二" in text
    assert "Decoder layer 2" not in text


def test_all_layers_on_request_and_in_chinese(translator: Translator) -> None:
    text = "\n".join(explain(translator, "one two.").lines("zh", all_layers=True))
    assert "解码器第 2 层" in text
    assert "自注意力 · 分数" in text
    assert "选出的词是 一" in text


def test_on_a_terminal(translator: Translator) -> None:
    file = io.StringIO()
    explain(translator, "one.").print(console=Console(file=file, force_terminal=True, width=100))
    assert "\x1b[" in file.getvalue()
    assert "Attention over the source · Weights" in file.getvalue()


def test_a_step_that_is_not_there(translator: Translator) -> None:
    with pytest.raises(RequestError, match="1 to 4"):
        explain(translator, "one two.", step=9)
