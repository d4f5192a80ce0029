"""`glass export`: a bundle in a format of another program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from glassformer.formats.proof import Proof

export = App(name="export", help="Write a model for other programs; each conversion proves itself.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class What:
    """From where to where, and how it is proved."""

    model: Annotated[str, Parameter(alias="-m")]
    """a bundle's directory or name"""
    to: Path
    """what to write; it must not exist yet"""
    sentences: Path | None = None
    """a file of sentences on which both sides are compared; left out, random pieces are put together"""
    force: Annotated[bool, Parameter(negative=())] = False
    """write it even if the two sides do not agree"""


@export.command
def hf(what: What) -> None:
    """Write a Hugging Face directory, for AutoModelForSeq2SeqLM and AutoTokenizer."""
    from glassformer.bundle import Bundle
    from glassformer.formats.huggingface import export_bundle

    bundle = Bundle.load(what.model)
    show(what.to, export_bundle(bundle, what.to, texts=read_sentences(what.sentences), force=what.force))


@export.command
def ctranslate2(what: What, *, quantization: Literal["float32", "int8"] = "float32") -> None:
    """Write a CTranslate2 directory.

    Parameters
    ----------
    quantization
        float32 is exact; int8 is a quarter of the size and faster
    """
    from glassformer.bundle import Bundle
    from glassformer.formats.ctranslate2 import export_bundle

    bundle, texts = Bundle.load(what.model), read_sentences(what.sentences)
    show(what.to, export_bundle(bundle, what.to, quantization, texts=texts, force=what.force))


@export.command
def argos(what: What, *, quantization: Literal["float32", "int8"] = "int8") -> None:
    """Write an .argosmodel file, for Argos Translate and LibreTranslate.

    Parameters
    ----------
    quantization
        int8 is a quarter of the size
    """
    from glassformer.bundle import Bundle
    from glassformer.formats.argos import export_bundle

    bundle, texts = Bundle.load(what.model), read_sentences(what.sentences)
    show(what.to, export_bundle(bundle, what.to, quantization, texts=texts, force=what.force))


def read_sentences(path: Path | None) -> list[str] | None:
    from glassformer.text.lines import read_lines

    return None if path is None else list(read_lines(path))


def show(path: Path, proof: Proof) -> None:
    """What was written, and what the comparison said."""
    print(path)
    print(proof)
    if not proof.holds:
        print("the two sides do not agree; --force has overruled it")
