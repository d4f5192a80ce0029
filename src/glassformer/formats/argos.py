"""`.argosmodel`: a zip that Argos Translate and LibreTranslate install.

Inside one directory: `metadata.json`, a CTranslate2 model in `model/`, and `sentencepiece.model`. That one
SentencePiece file cuts the source and puts the translation together, for which names of pieces are enough.
Argos finds its own way to split text into sentences (from version 1.10 on without a file in the package).
"""

from __future__ import annotations

import json
import random
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import babel
import sentencepiece

from glassformer.bundle import CARD, Bundle
from glassformer.errors import FormatError
from glassformer.formats import ctranslate2
from glassformer.formats.ctranslate2 import Converted, Quantization
from glassformer.formats.names import token_names
from glassformer.formats.proof import Proof
from glassformer.text.mapped import MappedTokenizer
from glassformer.text.pieces import SentencePieceTokenizer
from glassformer.weights import atomic_file

CODES = {"zh-hans": "zh", "zh-cn": "zh", "zh-hant": "zt", "zh-tw": "zt", "pt-br": "pb"}
"""Argos has its own codes for these"""
VERSION = "1.0"


def export_bundle(
    bundle: Bundle,
    to: str | Path,
    quantization: Quantization = "int8",
    *,
    texts: Sequence[str] | None = None,
    force: bool = False,
) -> Proof:
    """Write an `.argosmodel`; all of it, proved, or nothing. int8 is what Argos computes in anyway."""
    to = Path(to)
    if found := reasons_against(bundle):
        nearest = "CTranslate2 can: glass export ctranslate2"
        if ctranslate2.reasons_against(bundle.config.model):
            nearest = "no other format can, either: keep the bundle"
        raise FormatError(f"an .argosmodel can't hold this model ({nearest})", found)
    ctranslate2.refuse_existing(to)
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        proof = ctranslate2.write_proved(
            bundle, directory, quantization, texts=texts, force=force, side=InArgos
        )
        with atomic_file(to) as file:
            _pack(bundle, directory, file)
    return proof


def reasons_against(bundle: Bundle) -> list[str]:
    """All that keeps a bundle out of this format; none if it fits."""
    found = ctranslate2.reasons_against(bundle.config.model)
    source, target = bundle.tokenizers.source, bundle.tokenizers.target
    for side, tokenizer in (("source", source), ("target", target)):
        if not isinstance(tokenizer, SentencePieceTokenizer):
            found.append(f"the {side} tokenizer is a list of {tokenizer.kind}; Argos needs SentencePiece")
    if isinstance(source, MappedTokenizer) and any(_is_code(name) for name in source.ids):
        found.append("its sources begin with a language code such as >>deu<<, which Argos does not add")
    if isinstance(source, SentencePieceTokenizer) and not _decodes(source, target):
        found.append("the source's SentencePiece model can't put the target's pieces together")
    for key in ("source_language", "target_language"):
        if not getattr(bundle.config, key):
            found.append(f"{key} is not set in config.toml: Argos finds a model by its languages")
    return found


def _is_code(name: str) -> bool:
    return name.startswith(">>") and name.endswith("<<")


def _processor(tokenizer: SentencePieceTokenizer) -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes())


def _decodes(source: SentencePieceTokenizer, target: Any) -> bool:
    """Does Argos's way to put pieces together give our text? On random pieces."""
    processor, names, generator = _processor(source), token_names(target), random.Random(0)
    ids = [i for i in range(target.size) if i not in (target.eos, target.unk, target.pad)]
    rows = [generator.choices(ids, k=12) for _ in range(50)]
    return all(
        processor.decode_pieces([names[i] for i in row]).replace("▁", " ").strip()
        == target.decode(row).strip()
        for row in rows
    )


class InArgos(Converted):
    """As Argos runs it: SentencePiece cuts, and CTranslate2 knows the pieces by name."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        source = self._bundle.tokenizers.source
        assert isinstance(source, SentencePieceTokenizer)
        ids = {name: i for i, name in enumerate(token_names(source))}
        rows = _processor(source).encode(list(texts), out_type=str)
        return [[ids.get(piece, source.unk) for piece in row] for row in rows]


def _pack(bundle: Bundle, directory: Path, file: IO[bytes]) -> None:
    config = bundle.config
    codes = [_code(config.source_language), _code(config.target_language)]
    root = f"translate-{codes[0]}_{codes[1]}-{VERSION.replace('.', '_')}"
    metadata = {
        "package_version": VERSION,
        "argos_version": "1.10",
        "type": "translate",
        "from_code": codes[0],
        "from_name": _language(config.source_language),
        "to_code": codes[1],
        "to_name": _language(config.target_language),
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{root}/metadata.json", json.dumps(metadata, ensure_ascii=False, indent=2))
        archive.writestr(f"{root}/sentencepiece.model", bundle.tokenizers.source.to_bytes())
        archive.writestr(f"{root}/{CARD}", bundle.card)
        for path in sorted(directory.iterdir()):
            archive.write(path, f"{root}/model/{path.name}")


def _code(language: str) -> str:
    """Two letters where there are two: deu is de."""
    code = language.replace("_", "-").lower()
    locale = _locale(code.split("-")[0])
    return CODES.get(code, locale.language if locale else code.split("-")[0])


def _language(code: str) -> str:
    """English name of a language, or its code if it has none."""
    locale = _locale(code.replace("-", "_"))
    if locale is None:
        return code
    several_parts = not code.isalpha()
    return str(locale.get_display_name("en") if several_parts else locale.get_language_name("en"))


def _locale(code: str) -> Any:
    try:
        return babel.Locale.parse(code)
    except (babel.UnknownLocaleError, ValueError):
        return None
