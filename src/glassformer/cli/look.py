"""`glass look`: one sentence, and everything that happens to it, on one page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Look:
    """How to look."""

    model: str = ""
    """a bundle, or the name of one that the package brings (default: English to Spanish)"""
    out: Path = Path("look.html")
    """where the page goes"""
    beams: int | None = None
    """beam size of the search"""
    prefix: str = ""
    """what the translation has to begin with"""
    reference: str = ""
    """the right translation, if you know it: what BLEU without a head is measured against"""
    pairs: Path | None = None
    """a .tsv file of sentence pairs: how much BLEU over these each head is worth (takes a while)"""
    continuations: int = 400
    """about how many forced words the page can follow; 0 for none"""
    ablations: bool = True
    """translate once without each head (a large model takes a while)"""


def look(text: str, how: Look = Look()) -> None:  # noqa: B008 - frozen
    """Write a page that shows how a sentence is translated: attention, candidates, beams, every layer.

    Parameters
    ----------
    text
        one sentence
    """
    from glassformer.bundle import load_reader, task_of
    from glassformer.errors import RequestError
    from glassformer.look.ablate import ablate_each
    from glassformer.look.page import render
    from glassformer.look.trace import trace
    from glassformer.recipe import CorpusConfig
    from glassformer.text.pairs import read_pairs
    from glassformer.translate import choose_shipped, load
    from glassformer.weights import atomic_file

    if how.out.is_dir():
        raise RequestError(
            f"--out {how.out} is a directory; give the page a name, such as {how.out}/look.html"
        )
    if how.model and task_of(how.model) != "translate":
        from glassformer.look.reader import reader_page

        with atomic_file(how.out) as file:
            file.write(reader_page(load_reader(how.model), text).encode())
        print(how.out.resolve().as_uri())
        return
    translator = load(how.model or choose_shipped(), engine="torch")
    with _waiting("looking: every forced word and every head is a translation of its own"):
        seen = trace(
            translator,
            text,
            beams=how.beams,
            prefix=how.prefix,
            reference=how.reference,
            continuations=how.continuations,
            ablations=how.ablations,
        )
        if how.pairs is not None:
            seen["corpus"] = ablate_each(translator, list(read_pairs(CorpusConfig(pairs=str(how.pairs)))))
    with atomic_file(how.out) as file:
        file.write(render(seen).encode())
    print(seen["target"]["text"])
    print(how.out.resolve().as_uri())


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    """Something that moves, on a terminal; nothing at all in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
