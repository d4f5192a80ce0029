"""`glass classify`: a label for a text, or for an image."""

from __future__ import annotations

import sys
from pathlib import Path

from glassformer.errors import RequestError


def classify(*text: str, model: str, input: Path | None = None, n_best: int = 3) -> None:
    """Say which label TEXT has, or each line of --input, or of standard input.

    For each line: the label and its probability, and the next likeliest ones. An image is a line of numbers.

    Parameters
    ----------
    text
        what is to be labelled
    model
        a bundle or a training run of task classify or image
    input
        a file of texts, one a line
    n_best
        how many labels are shown for each
    """
    from glassformer.label import Labeller

    labeller = Labeller.load(model, ("classify", "image"))
    for labels in labeller.classify(lines_of(text, input), n_best):
        print("\t".join(f"{label.name} {label.probability:.3f}" for label in labels))


def lines_of(text: tuple[str, ...], file: Path | None) -> list[str]:
    """What the user gave: words of the command line, a file, or standard input."""
    from glassformer.text.lines import decode_lines_with_ends, read_lines

    if text and file is not None:
        raise RequestError("give either a text or --input FILE, not both")
    if text:
        return [" ".join(text)]
    if file is not None:
        return list(read_lines(file))
    return [line for line, _ in decode_lines_with_ends(sys.stdin.buffer, "standard input", "strict")]
