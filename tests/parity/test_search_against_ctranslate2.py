"""Our search and CTranslate2's over the same weights: same texts, same scores, same n-best."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.translate import Translation, Translator, load

pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def both(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Translator, Translator]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield load(numbers, engine="torch"), load(numbers, engine="ctranslate2", threads=1)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Many are longer than what the model has learnt: it is unsure, and some translations never end."""
    chance = random.Random(1)
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    return [" ".join(chance.choices(words, k=chance.randint(1, 30))) + "." for _ in range(80)]


def ways(translation: Translation) -> list[str]:
    return [translation.text, *(other.text for other in translation.alternatives)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beams": 1},
        {"n_best": 4},
        {"length_penalty": 0.0, "n_best": 3},
        {"length_penalty": 0.6},
        {"length_penalty": 2.0, "beams": 6, "n_best": 6},
        {"max_length": 5, "n_best": 2},
    ],
    ids=str,
)
def test_same_translations(
    both: tuple[Translator, Translator], texts: list[str], options: dict[str, Any]
) -> None:
    ours, theirs = (translator.translate(texts, **options) for translator in both)
    assert [ways(one) for one in ours] == [ways(one) for one in theirs]
    assert [one.notes for one in ours] == [one.notes for one in theirs]
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)
    for one, other in zip(ours, theirs, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-3)
