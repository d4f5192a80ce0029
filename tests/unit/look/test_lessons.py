"""The guide's figures show what their models and searches did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.errors import RequestError
from glassformer.look import lessons, plots
from glassformer.look.pack import unpack
from glassformer.look.six_words import TARGET, learn, predictions, six_words_batch, six_words_model
from glassformer.look.trace import trace
from tests.looking import translator


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return trace(translator(), "我们看我们", beams=3, continuations=0, ablations=False)


def test_six_words_are_learnt() -> None:
    batch, model = six_words_batch(), six_words_model()
    losses = learn(model, batch)
    assert losses[0] > 1.5
    assert losses[-1] < 0.1
    said = [" ".join(TARGET[best] for best in probs_TV.argmax(-1)) for probs_TV in predictions(model, batch)]
    assert said == ["thanks end", "i am a student end"]


def test_six_words_figure_shows_the_training() -> None:
    panels = lessons.six_words_figure().axes
    shown = [np.array([float(text.get_text()) for text in axes.texts]).reshape(-1, 6) for axes in panels]
    wanted, before, after = shown[3:]
    assert wanted.argmax(1).tolist() == [TARGET.index(word) for word in ["i", "am", "a", "student", "end"]]
    assert np.abs(before - wanted).sum() > 5 * np.abs(after - wanted).sum()


def test_a_word_has_a_panel_for_each_occurrence(seen: dict[str, Any], tmp_path: Path) -> None:
    first, second, _ = lessons.word_figure(seen, "们").axes
    places = seen["attention"]
    stacked = np.concatenate([unpack(places["encoder.0.self"]), unpack(places["encoder.1.self"])])
    assert np.allclose(first.images[0].get_array(), stacked[:, 1])
    assert np.allclose(second.images[0].get_array(), stacked[:, 4])
    assert [label.get_text() for label in first.get_yticklabels()][:5] == ["1.1", "1.2", "1.3", "1.4", "2.1"]
    plots.plot("word", tmp_path / "word.png", trace=seen, word="我们")


@pytest.mark.parametrize("word", ["", "它"])
def test_a_word_that_is_not_there(seen: dict[str, Any], word: str) -> None:
    with pytest.raises(RequestError, match="does not occur"):
        lessons.word_figure(seen, word)


def test_the_beam_tree_shows_every_continuation(seen: dict[str, Any], tmp_path: Path) -> None:
    axes = lessons.beam_figure(seen).axes[0]
    assert len(axes.texts) == len(seen["beam"]["nodes"])
    assert sum(text.get_weight() == "bold" for text in axes.texts) == len(seen["target"]["pieces"])
    plots.plot("beam", tmp_path / "beam.svg", trace=seen)


def test_the_right_mask_is_the_first_of_three() -> None:
    shown = [
        np.array([float(text.get_text()) for text in axes.texts]).reshape(4, 4)
        for axes in lessons.errors_figure().axes
    ]
    future = np.triu_indices(4, 1)
    assert [bool((weights[future] == 0).all()) for weights in shown] == [True, False, True]
    assert [bool(np.allclose(weights.sum(1), 1, atol=0.02)) for weights in shown] == [True, True, False]
