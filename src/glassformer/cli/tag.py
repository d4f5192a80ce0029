"""`glass tag`: a label for every word."""

from __future__ import annotations

from pathlib import Path

from glassformer.cli.classify import lines_of


def tag(*text: str, model: str, input: Path | None = None) -> None:
    """Say which label each word of TEXT has, or of each line of --input, or of standard input.

    Words keep their order: word/LABEL word/LABEL …

    Parameters
    ----------
    text
        what is to be labelled; white space separates words
    model
        a bundle or a training run of task tag
    input
        a file of texts, one a line
    """
    from glassformer.label import Labeller

    labeller = Labeller.load(model, ("tag",))
    for words in labeller.tag(lines_of(text, input)):
        print(" ".join(f"{tagged.word}/{tagged.label.name}" for tagged in words))
