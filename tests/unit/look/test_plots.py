"""Figures: drawn into files, with the numbers that they should show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.errors import RequestError
from glassformer.look import drawing, plots
from glassformer.look.basics import heads_figure
from glassformer.look.pack import unpack
from glassformer.look.trace import trace
from tests.looking import translator


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return trace(translator(), "我们喜欢 cats.", continuations=0, ablations=False)


@pytest.mark.parametrize("name", plots.FIGURES)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_every_figure_becomes_a_file(name: str, suffix: str, tmp_path: Path) -> None:
    content = plots.plot(name, tmp_path / f"figure{suffix}").read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert len(content) > 5000


def test_positions_are_the_papers() -> None:
    lines = plots.positions_figure().axes[0].lines
    assert [line.get_label() for line in lines] == [f"dimension {i}" for i in (4, 5, 6, 7)]
    assert len(lines[0].get_ydata()) == 100
    assert float(lines[0].get_ydata()[3]) == pytest.approx(np.sin(3 / 10000 ** (4 / 20)))


def test_masked_weights_are_nothing() -> None:
    masked, weights = plots.softmax_figure().axes[1:]
    assert sum(text.get_text() == "−∞" for text in masked.texts) == 6
    numbers = np.array([float(text.get_text()) for text in weights.texts]).reshape(4, 4)
    assert np.all(numbers[np.triu_indices(4, 1)] == 0)
    assert numbers.sum(1) == pytest.approx(1, abs=0.02)


def test_saturation_grows_without_the_root() -> None:
    plain, scaled = (line.get_ydata() for line in plots.saturation_figure().axes[0].lines)
    assert plain[-1] > 0.9
    assert abs(scaled[-1] - scaled[0]) < 0.05


def test_attention_is_the_traces(seen: dict[str, Any], tmp_path: Path) -> None:
    axes = plots.attention_figure(seen, "decoder.1.cross", 2).axes[0]
    assert np.array_equal(axes.images[0].get_array(), unpack(seen["attention"]["decoder.1.cross"])[2])
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [piece.replace(" ", "␣") for piece in seen["source"]["pieces"]]
    plots.plot("attention", tmp_path / "a.svg", trace=seen)
    plots.plot("attention", tmp_path / "b.png", trace=seen, place="decoder.0.self", head=1)


def test_what_is_far_fades_in_a_recurrent_network_and_not_in_attention() -> None:
    plain, careful, attention = (line.get_ydata() for line in plots.FIGURES["forgetting"]().axes[0].lines)
    assert plain[0] < 1e-8 < careful[0] < 1e-4 < 0.1 < attention.min()


def test_four_words_are_the_guides() -> None:
    weights = plots.FIGURES["words"]().axes[4]
    assert [text.get_text() for text in weights.texts][:4] == ["0.18", "0.22", "0.27", "0.33"]


def test_heads_side_by_side(seen: dict[str, Any], tmp_path: Path) -> None:
    panels = heads_figure(seen, "decoder.0.self").axes
    assert len(panels) == 4
    assert np.array_equal(panels[1].images[0].get_array(), unpack(seen["attention"]["decoder.0.self"])[1])
    plots.plot("heads", tmp_path / "h.png", trace=seen)
    with pytest.raises(RequestError, match="there is encoder"):
        heads_figure(seen, "decoder.7.cross")


def test_labels_in_chinese_need_a_font_and_say_so(
    seen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "CJK_FONTS", ("No Such Font",))
    with pytest.warns(UserWarning, match="fonts-noto-cjk"):
        plots.attention_figure(seen)


def test_training_curves(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    rows = [{"kind": "train", "step": i, "nll": 5 / i, "rate": 0.001} for i in range(1, 9)]
    metrics.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert plots.plot("training", tmp_path / "t.svg", metrics=metrics).read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("name", "out", "options", "message"),
    [
        ("nothing", "a.png", {}, "positions_map"),
        ("masks", "a.jpg", {}, ".svg"),
        ("attention", "a.png", {}, "needs a sentence"),
        ("training", "a.png", {"metrics": "nowhere.jsonl"}, "nowhere.jsonl"),
    ],
)
def test_what_can_not_be_drawn(name: str, out: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        plots.plot(name, out, **options)


def test_heads_and_places_that_are_not_there(seen: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="there is encoder"):
        plots.attention_figure(seen, "decoder.7.cross")
    with pytest.raises(RequestError, match="heads 0 to 3"):
        plots.attention_figure(seen, head=4)
