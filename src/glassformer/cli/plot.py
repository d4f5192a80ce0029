"""`glass plot`: the figures of the tutorials, and your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import RequestError

if TYPE_CHECKING:
    from glassformer.translate import Translator


def plot(
    name: str,
    *,
    out: Path | None = None,
    text: str = "",
    model: str = "",
    place: str = "",
    head: int | None = None,
    word: str = "",
    beams: int | None = None,
    metrics: Path | None = None,
) -> None:
    """Draw a figure: forgetting, words, saturation, scores, positions, positions_map, masks, softmax,
    six_words, schedules, family, errors, uses; of a sentence: attention, heads, word, beam; of a run:
    training.

    Parameters
    ----------
    name
        which figure
    out
        where to: a .png, .svg or .pdf file (default: NAME.png)
    text
        attention, heads, word, beam: the sentence
    model
        attention, heads, word, beam: a bundle, or one of the package by name (default: English to Spanish)
    place
        attention, heads: encoder.0.self, decoder.0.self, decoder.0.cross, … (default: attention's is the
        decoder's over the source, last layer but one; that of heads the encoder's last layer)
    head
        attention: one head, from 1 (default: the mean of all)
    word
        word: the part of the sentence whose attention in the encoder is shown
    beams
        beam: how many ways are followed at once (default: what the bundle says)
    metrics
        training: metrics.jsonl of a run, or the run's directory
    """
    from glassformer.look.plots import plot as draw

    out = out or Path(f"{name}.png")
    trace: dict[str, Any] | None = None
    if name in ("attention", "heads", "word", "beam") and text:
        from glassformer.look.trace import trace as look

        trace = look(_load(model), text, beams=beams, continuations=0, ablations=False)
    if metrics is not None and metrics.is_dir():
        metrics = metrics / "metrics.jsonl"
    if head is not None and head < 1:
        raise RequestError(f"--head {head}: heads are counted from 1")
    number = None if head is None else head - 1
    print(draw(name, out, trace=trace, place=place, head=number, word=word, metrics=metrics))


def _load(model: str) -> Translator:
    from glassformer.translate import choose_shipped, load

    return load(model or choose_shipped(), engine="torch")
