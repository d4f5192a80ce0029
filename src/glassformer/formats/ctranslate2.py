"""CTranslate2: a bundle written by a converter of our own, exact in float32, and small and fast in int8.

Its encoder and decoder can be told almost every choice our model has. Two things are ours to mind: its table
of sinusoids differs from the paper's, so the table always goes along; and the padding, from which the decoder
starts, must never be said, so its output bias is -∞.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from glassformer.bundle import CARD, Bundle
from glassformer.config import ModelConfig
from glassformer.errors import FormatError, MissingExtraError
from glassformer.formats.ctranslate2_weights import write
from glassformer.formats.names import token_names
from glassformer.formats.proof import LONGEST, Ids, Proof, Side, prove, sample_texts
from glassformer.weights import atomic_directory

Quantization = Literal["float32", "int8"]

CALL: dict[str, Any] = {"min_decoding_length": 0, "max_input_length": 0, "return_end_token": True}
"""its own defaults (1, 1024, no) change results"""
COARSE = (
    "this processor has no instructions for int8: translations are rounded more coarsely here than elsewhere "
    "(docs/ENGINES.md); float32 is exact"
)


def export_bundle(
    bundle: Bundle,
    to: str | Path,
    quantization: Quantization = "float32",
    *,
    texts: Sequence[str] | None = None,
    force: bool = False,
) -> Proof:
    """Write a directory that `ctranslate2.Translator` loads; all of it, proved, or nothing."""
    to = Path(to)
    refuse(bundle)
    refuse_existing(to)
    with atomic_directory(to) as directory:
        proof = write_proved(bundle, directory, quantization, texts=texts, force=force)
        bundle.tokenizers.save(directory)
        (directory / CARD).write_text(bundle.card, "utf-8")
    return proof


def write_proved(
    bundle: Bundle,
    directory: Path,
    quantization: Quantization,
    *,
    texts: Sequence[str] | None = None,
    force: bool = False,
    side: Callable[[Bundle, Path], Side] | None = None,
) -> Proof:
    """Write the files and run them. What is proved is float32; int8 is rounding, which is only reported."""
    side = side or Converted
    require_ctranslate2("a CTranslate2 model")
    if quantization not in get_args(Quantization):
        raise FormatError(f"quantization = {quantization!r}: choose {' | '.join(get_args(Quantization))}")
    source = bundle.tokenizers.source
    texts = [text for text in texts or sample_texts(source) if source.encode(text)]  # it skips empty input
    write(bundle, directory, "float32")
    proof = prove(bundle, side(bundle, directory), texts).check(force)
    if quantization == "float32":
        return proof
    write(bundle, directory, quantization)
    rounded = prove(bundle, side(bundle, directory), texts)
    remark = (
        f"{quantization}: {rounded.agree} of {rounded.sentences} translations stay the same, "
        f"logits move by up to {rounded.difference:.1e}"
    )
    return replace(proof, remarks=(*proof.remarks, remark, *([] if multiplies_int8() else [COARSE])))


def reasons_against(config: ModelConfig) -> list[str]:
    """All that keeps a model out of this format; none if it fits."""
    if config.architecture != "transformer":
        return [f"architecture = '{config.architecture}': only Transformers can go there"]
    found = []
    if config.score != "scaled_dot":
        found.append(f"score = '{config.score}': it only knows the scaled dot product")
    if config.query_key_norm:
        found.append("query_key_norm = true: it does not normalise the queries and keys as we do")
    if config.positions == "alibi":
        found.append("positions = 'alibi': its encoder has none")
    if config.neighbours:
        found.append(f"neighbours = {config.neighbours}: it looks tokens up one by one")
    head_width = config.head_width or config.width // config.heads
    if config.value_width not in (0, head_width):
        found.append(f"value_width = {config.value_width}: values must be as wide as keys ({head_width})")
    return found


def multiplies_int8() -> bool:
    """This processor has instructions for it."""
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def refuse(bundle: Bundle) -> None:
    if found := reasons_against(bundle.config.model):
        raise FormatError("CTranslate2 can't hold this model; keep it as a bundle", found)


def refuse_existing(path: Path) -> None:
    """A conversion replaces nothing."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FormatError(f"{path} exists: it is left as it is; choose another name")


def require_ctranslate2(what: str) -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise MissingExtraError(what, "ctranslate2", "fast") from None
    return ctranslate2


class Names:
    """Ids ↔ the names by which CTranslate2 knows them."""

    def __init__(self, bundle: Bundle) -> None:
        self._source = token_names(bundle.tokenizers.source)
        self._target = token_names(bundle.tokenizers.target)
        self._ids = {name: i for i, name in enumerate(self._target)}

    def of_sources(self, sources: Sequence[Ids]) -> list[list[str]]:
        return [[self._source[i] for i in source] for source in sources]

    def of_targets(self, targets: Sequence[Ids]) -> list[list[str]]:
        return [[self._target[i] for i in target] for target in targets]

    def ids(self, names: Sequence[str]) -> list[int]:
        return [self._ids[name] for name in names]


class Converted:
    """A written directory, run by CTranslate2: the other side of a proof."""

    def __init__(self, bundle: Bundle, directory: Path) -> None:
        ctranslate2 = require_ctranslate2("a CTranslate2 model")
        self.name = f"CTranslate2 {ctranslate2.__version__}"
        self._bundle, self._names = bundle, Names(bundle)
        self._translator = ctranslate2.Translator(str(directory), compute_type="default", intra_threads=1)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._bundle.tokenizers.source.encode_batch(texts)  # it takes pieces: the tokenizer is ours

    def translate(self, sources: Sequence[Ids], beams: int) -> list[list[int]]:
        return [said for said, _ in self._search(sources, beam_size=beams)]

    def logits(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """It shows the logits of its own greedy search: good as far as that says what the target says."""
        found = []
        searched = self._search(sources, beam_size=1, return_logits_vocab=True)
        for target, (said, logits) in zip(targets, searched, strict=True):
            differs = [a != b for a, b in zip(said, target, strict=False)]
            same = differs.index(True) if True in differs else len(differs)
            found.append(torch.stack([torch.from_numpy(np.array(row)) for row in logits[: same + 1]]))
        return found

    def _search(self, sources: Sequence[Ids], **options: Any) -> list[tuple[list[int], Any]]:
        eos = self._bundle.config.vocabulary.eos
        results = self._translator.translate_batch(
            self._names.of_sources(sources), max_decoding_length=LONGEST, **CALL, **options
        )
        found = []
        for result in results:
            said = self._names.ids(result.hypotheses[0])
            found.append(([i for i in said if i != eos], result.logits[0] if result.logits else []))
        return found
