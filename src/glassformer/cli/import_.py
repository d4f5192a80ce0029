"""`glass import`: a model of another program as a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from glassformer.cli.export import read_sentences, show

import_ = App(name="import", help="Read a model of another program; each conversion proves itself.")


@import_.command
def hf(
    path: Path,
    *,
    to: Path,
    source_language: str = "",
    target_language: str = "",
    sentences: Path | None = None,
    force: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Read a Marian directory of Hugging Face, such as a model of OPUS-MT.

    Parameters
    ----------
    path
        the directory with config.json, model.safetensors, source.spm, target.spm and vocab.json
    to
        directory of the new bundle; it must not exist yet
    source_language
        code of the language it translates from, if the files do not say
    target_language
        code of the language it translates into, if the files do not say
    sentences
        a file of sentences on which both sides are compared; left out, random pieces are put together
    force
        save it even if the two sides do not agree
    """
    from glassformer.formats.huggingface import import_bundle

    texts = read_sentences(sentences)
    _, proof = import_bundle(
        path,
        to,
        source_language=source_language,
        target_language=target_language,
        texts=texts,
        force=force,
    )
    show(to, proof)
