"""Hugging Face directories: our models as Marian (norms after) or Pegasus (norms before), and back.

What is written loads with plain `AutoModelForSeq2SeqLM` and `AutoTokenizer`, and survives `save_pretrained`.
Marian models, such as those of OPUS-MT, are read with their tokenizer. Weights come from safetensors only.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer import settings
from glassformer.bundle import CARD, Bundle
from glassformer.config import ModelConfig
from glassformer.errors import FormatError, MissingExtraError
from glassformer.formats import ctranslate2
from glassformer.formats.huggingface_reading import read_bundle
from glassformer.formats.huggingface_weights import to_theirs
from glassformer.formats.names import token_names
from glassformer.formats.proof import LONGEST, Ids, Proof, padded, prove, rows_of
from glassformer.text.pieces import SentencePieceTokenizer
from glassformer.weights import atomic_directory, write_safetensors

LONGEST_OUTPUT = 512
"""`max_length` of `generate` there, which has no maximum that depends on the source"""


def export_bundle(
    bundle: Bundle, to: str | Path, *, texts: Sequence[str] | None = None, force: bool = False
) -> Proof:
    """Write a directory for transformers; all of it, proved, or nothing."""
    to = Path(to)
    if found := reasons_against(bundle):
        nearest = "no other format can, either: keep the bundle"
        if not ctranslate2.reasons_against(bundle.config.model):
            nearest = "CTranslate2 can: glass export ctranslate2"
        raise FormatError(f"a Hugging Face directory can't hold this model ({nearest})", found)
    ctranslate2.refuse_existing(to)
    require_transformers("proving a Hugging Face directory")
    with atomic_directory(to) as directory:
        write(bundle, directory)
        return prove(bundle, Transformers(directory), texts).check(force)


def import_bundle(
    path: str | Path,
    to: str | Path | None = None,
    *,
    source_language: str = "",
    target_language: str = "",
    texts: Sequence[str] | None = None,
    force: bool = False,
) -> tuple[Bundle, Proof]:
    """Read a Marian directory, prove that nothing was lost, and save it as a bundle under `to`."""
    if to is not None:
        ctranslate2.refuse_existing(Path(to))
    bundle = read_bundle(path, source_language=source_language, target_language=target_language)
    require_transformers("proving an import")
    proof = prove(bundle, Transformers(path, split_special_tokens=True), texts).check(force)
    if to is not None:
        bundle.save(to)
    return bundle, proof


def reasons_against(bundle: Bundle) -> list[str]:
    """All that keeps a model out of these formats; none if it fits."""
    config, vocabulary, tokenizers = bundle.config.model, bundle.config.vocabulary, bundle.tokenizers
    found = _shape_reasons(config)
    kinds = {"source": tokenizers.source, "target": tokenizers.target}
    for side, tokenizer in kinds.items():
        if not isinstance(tokenizer, SentencePieceTokenizer):
            found.append(
                f"the {side} tokenizer is a list of {tokenizer.kind}; only SentencePiece can go along"
            )
    if vocabulary.source_pad != vocabulary.target_pad:
        found.append(
            f"the vocabularies have {vocabulary.source_size} and {vocabulary.target_size} entries, "
            "but there is one padding for both: they must be equally large"
        )
    return found


def _shape_reasons(config: ModelConfig) -> list[str]:
    if config.architecture != "transformer":
        return [f"architecture = '{config.architecture}': Marian and Pegasus are Transformers"]
    head_width = config.width // config.heads
    wrong = {
        "norm_kind": config.norm_kind != "layer",
        "activation": config.activation == "swiglu",
        "positions": config.positions != "sinusoidal",
        "score": config.score != "scaled_dot",
        "scale": config.scale != "sqrt",
        "query_key_norm": config.query_key_norm,
        "neighbours": config.neighbours != 0,
        "key_value_heads": config.key_value_heads not in (0, config.heads),
        "head_width": config.head_width not in (0, head_width) or config.width % config.heads != 0,
        "value_width": config.value_width not in (0, config.head_width or head_width),
    }
    return [
        f"{key} = {getattr(config, key)!r}: not in Marian or Pegasus" for key, bad in wrong.items() if bad
    ]


def require_transformers(what: str) -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtraError(what, "transformers", "hf") from None
    return transformers


# --- writing ---


def write(bundle: Bundle, directory: Path) -> None:
    """All files, into an existing directory."""
    config, vocabulary = bundle.config.model, bundle.config.vocabulary
    weights = {name: tensor.detach().float().cpu() for name, tensor in bundle.model.state_dict().items()}
    write_safetensors(
        directory / "model.safetensors", to_theirs(config, weights, vocabulary.target_pad), {"format": "pt"}
    )
    _write_json(directory / "config.json", _their_config(bundle))
    _write_json(directory / "generation_config.json", _generation(bundle))
    _write_tokenizer(bundle, directory)
    (directory / CARD).write_text(bundle.card, "utf-8")


def _their_config(bundle: Bundle) -> dict[str, Any]:
    config, vocabulary = bundle.config.model, bundle.config.vocabulary
    marian = config.norm == "post"
    found = {
        "model_type": "marian" if marian else "pegasus",
        "architectures": ["MarianMTModel" if marian else "PegasusForConditionalGeneration"],
        "vocab_size": vocabulary.source_size,
        "d_model": config.width,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.feed_forward,
        "decoder_ffn_dim": config.feed_forward,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "max_position_embeddings": config.max_length,
        "scale_embedding": config.scale_embeddings,
        "tie_word_embeddings": config.tied == "all" or (marian and config.tied == "output"),
        "is_encoder_decoder": True,
        "pad_token_id": vocabulary.target_pad,
        "eos_token_id": vocabulary.eos,
        "bos_token_id": None,
        "decoder_start_token_id": vocabulary.start,
        "forced_eos_token_id": None,
        "dtype": "float32",
        # What their settings have no words for; `save_pretrained` keeps it, and our import reads it.
        "glassformer": settings.to_mapping(bundle.config),
    }
    if marian:
        found["share_encoder_decoder_embeddings"] = config.tied == "all"
        found["decoder_vocab_size"] = vocabulary.target_size
    return found


def _generation(bundle: Bundle) -> dict[str, Any]:
    search, vocabulary = bundle.config.search, bundle.config.vocabulary
    return {
        "bad_words_ids": [[vocabulary.target_pad]],
        "decoder_start_token_id": vocabulary.start,
        "early_stopping": True if search.stop == "beam_finished" else "never",
        "eos_token_id": vocabulary.eos,
        "forced_eos_token_id": None,
        "length_penalty": search.length_penalty,
        "max_length": min(search.max_length or LONGEST_OUTPUT, bundle.config.model.max_length),
        "min_length": search.min_length,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "num_beams": search.beams,
        "pad_token_id": vocabulary.target_pad,
    }


def _write_tokenizer(bundle: Bundle, directory: Path) -> None:
    """Files of a MarianTokenizer. It is told to take a literal `</s>` for text, as we do."""
    tokenizers, vocabulary = bundle.tokenizers, bundle.config.vocabulary
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        (directory / f"{side}.spm").write_bytes(tokenizer.to_bytes())
    names = token_names(tokenizers.source)
    _write_json(directory / "vocab.json", {name: i for i, name in enumerate(names)})
    if not tokenizers.shared:
        target_names = token_names(tokenizers.target)
        _write_json(directory / "target_vocab.json", {name: i for i, name in enumerate(target_names)})
    found = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": not tokenizers.shared,
        "source_lang": bundle.config.source_language or None,
        "target_lang": bundle.config.target_language or None,
        "eos_token": names[vocabulary.eos],
        "unk_token": names[vocabulary.unk],
        "pad_token": names[vocabulary.source_pad],
        "model_max_length": bundle.config.model.max_length,
        "split_special_tokens": True,
    }
    _write_json(directory / "tokenizer_config.json", found)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", "utf-8")


# --- running ---


class Transformers:
    """A directory, run by Hugging Face's transformers: the other side of a proof."""

    def __init__(self, path: str | Path, **tokenizer_options: Any) -> None:
        transformers = require_transformers("a proof")
        self.name = f"transformers {transformers.__version__}"
        self._transformers = transformers
        with _quiet(transformers):
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(path), local_files_only=True, **tokenizer_options
            )
            self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
                str(path), local_files_only=True, use_safetensors=True, dtype=torch.float32
            ).eval()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids[:-1] for ids in self.tokenizer(list(texts))["input_ids"]]

    def translate(self, sources: Sequence[Ids], beams: int) -> list[list[int]]:
        config = self.model.config
        options = self._transformers.GenerationConfig(
            num_beams=beams,
            early_stopping=True if beams > 1 else None,
            length_penalty=1.0 if beams > 1 else None,
            max_length=LONGEST + 1,  # the start counts
            decoder_start_token_id=config.decoder_start_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
            bad_words_ids=[[config.pad_token_id]],
            renormalize_logits=True,  # the padding has no share in our probabilities
        )
        input_ids, attention_mask = self._sources(sources)
        self.model.generation_config = options
        with torch.inference_mode(), _quiet(self._transformers):
            rows = self.model.generate(input_ids, attention_mask=attention_mask).tolist()
        return [_until(config.eos_token_id, row[1:]) for row in rows]

    def logits(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        config = self.model.config
        input_ids, attention_mask = self._sources(sources)
        target_BT = padded(
            [[config.decoder_start_token_id, *target] for target in targets], config.pad_token_id
        )
        with torch.inference_mode():
            logits_BTV = self.model(
                input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=target_BT
            ).logits
        return rows_of(logits_BTV, targets)

    def _sources(self, sources: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        rows = [[*source, self.tokenizer.eos_token_id] for source in sources]
        return padded(rows, self.tokenizer.pad_token_id), padded([[1] * len(row) for row in rows], 0)


def _until(end: int, ids: list[int]) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bars, no advice."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
