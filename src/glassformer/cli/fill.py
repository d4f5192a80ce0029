"""`glass fill`: what belongs in the blanks of a text."""

from __future__ import annotations

from pathlib import Path

from glassformer.cli.classify import lines_of


def fill(*text: str, model: str, input: Path | None = None, n_best: int = 5) -> None:
    """Guess what belongs in each blank ___ of TEXT, or of each line of --input, or of standard input.

    For each blank, a line: the likeliest tokens with their probabilities.

    Parameters
    ----------
    text
        a text with ___ where something is to be guessed. A blank is one token: a word or a piece of one (…ing
        goes on with a word), or a character if the model reads characters
    model
        a bundle or a training run of task masked_language_model
    input
        a file of texts, one a line
    n_best
        how many guesses are shown for each blank
    """
    from glassformer.bundle import load_reader
    from glassformer.fill import Filler

    filler = Filler(load_reader(model, ("masked_language_model",)))
    for line in lines_of(text, input):
        for guesses in filler.fill(line, n_best):
            print("\t".join(f"{guess.name} {guess.probability:.3f}" for guess in guesses))
