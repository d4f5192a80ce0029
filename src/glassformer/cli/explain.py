"""`glass explain`: the walk through the model, one equation at a time."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter


def explain(
    text: str,
    *,
    model: str = "",
    step: int = 1,
    language: Literal["en", "zh"] = "en",
    all_layers: Annotated[bool, Parameter(negative=())] = False,
    beams: int | None = None,
) -> None:
    """Show each step from token ids to the chosen word: name, equation, shape and first numbers.

    Parameters
    ----------
    text
        one sentence
    model
        a bundle, or the name of one that the package brings (default: English to Spanish)
    step
        which word of the translation is chosen, from 1; for a language model, which word of the text
    language
        en or zh
    all_layers
        every layer, not only the first of each stack
    beams
        beam size of the search
    """
    from glassformer.bundle import load_reader, task_of
    from glassformer.look.explain import Explanation
    from glassformer.look.explain import explain as walk_through
    from glassformer.translate import choose_shipped, load

    if model and task_of(model) != "translate":
        from glassformer.look.reader import explain_reader

        found: Explanation = explain_reader(load_reader(model), text, step=step)
    else:
        translator = load(model or choose_shipped(), engine="torch")
        found = walk_through(translator, text, step=step, beams=beams)
    if sys.stdout.isatty():
        found.print(language, all_layers)
    else:
        for line in found.lines(language, all_layers):
            print(line)
