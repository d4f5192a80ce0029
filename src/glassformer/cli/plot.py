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
    metrics: Path | None = None,
) -> None:
    """Draw a figure: positions, positions_map, masks, softmax, attention, schedules, saturation, training.

    Parameters
    ----------
    name
        which figure
    out
        where to: a .png, .svg or .pdf file (default: NAME.png)
    text
        attention: the sentence
    model
        attention: a bundle, or the name of one that the package brings (default: English to Spanish)
    place
        attention: encoder.0.self, decoder.0.self, decoder.0.cross, … (default: the decoder's over the source)
    head
        attention: one head, from 1 (default: the mean of all)
    metrics
        training: metrics.jsonl of a run, or the run's directory
    """
    from glassformer.look.plots import plot as draw

    out = out or Path(f"{name}.png")
    trace: dict[str, Any] | None = None
    if name == "attention" and text:
        from glassformer.look.trace import trace as look

        trace = look(_load(model), text, continuations=0, ablations=False)
    if metrics is not None and metrics.is_dir():
        metrics = metrics / "metrics.jsonl"
    if head is not None and head < 1:
        raise RequestError(f"--head {head}: heads are counted from 1")
    print(draw(name, out, trace=trace, place=place, head=None if head is None else head - 1, metrics=metrics))


def _load(model: str) -> Translator:
    from glassformer.translate import choose_shipped, load

    return load(model or choose_shipped(), engine="torch")
