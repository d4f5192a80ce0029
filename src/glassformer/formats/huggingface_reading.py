"""A Marian directory of Hugging Face → a bundle. All is checked, and all that is wrong is said at once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer import settings
from glassformer.bundle import CARD, Bundle, weights_of
from glassformer.config import BundleConfig, ModelConfig, SearchConfig, TokenizerConfig
from glassformer.errors import ConfigError, FormatError
from glassformer.formats.huggingface_files import Table, read_table, read_tokenizers, weight_files
from glassformer.formats.huggingface_weights import (
    BIAS,
    EMBEDDINGS,
    OUTPUT,
    POSITIONS,
    TARGET,
    attention_biases,
    same_positions,
    slots,
    to_ours,
)
from glassformer.model.build import build_transformer
from glassformer.model.transformer import Transformer
from glassformer.text.tokenizer import TokenizerPair
from glassformer.weights import Entry, read_header, read_safetensors

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
MOST_LAYERS = 1000
# Words of older files. The classes look at them no more, so they must say what is done anyway.
FIXED = {
    "marian": {"normalize_before": False, "add_final_layer_norm": False},
    "pegasus": {"normalize_before": True, "add_final_layer_norm": True},
}
FIXED_FOR_BOTH = {
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "is_encoder_decoder": True,
    "forced_bos_token_id": None,
    "add_cross_attention": False,
}


def read_bundle(path: str | Path, *, source_language: str = "", target_language: str = "") -> Bundle:
    """Read and check a directory; languages that are not given are those the files name."""
    path, problems = Path(path), list[str]()
    if not path.is_dir():
        raise FormatError(f"{path}: there is no such directory")
    theirs = read_table(path / "config.json", problems)
    files = weight_files(path, problems)
    config = _model_config(theirs) if theirs.content else ModelConfig()
    tokenizers = read_tokenizers(path, theirs, problems) if theirs.content else None
    if problems or tokenizers is None:
        raise FormatError(f"{path} can't be imported", problems)
    weights = _read_weights(path, files, config, tokenizers)
    hint = _hint(theirs)
    config = _as_it_was(config, hint, weights)
    bundle_config = BundleConfig(
        vocabulary=replace(tokenizers.vocabulary(), start=theirs.number("decoder_start_token_id")),
        model=replace(config, output_bias=_has_bias(weights, tokenizers.target.pad)),
        tokenizer=hint.tokenizer if hint else _tokenizer_config(tokenizers),
        search=hint.search if hint else _search_config(path, theirs),
    )
    named = read_table(path / "tokenizer_config.json", [], required=False)
    bundle_config = replace(
        bundle_config,
        source_language=source_language or (hint.source_language if hint else named.text("source_lang")),
        target_language=target_language or (hint.target_language if hint else named.text("target_lang")),
    )
    card = path / CARD
    return Bundle(
        bundle_config,
        tokenizers,
        _filled_model(bundle_config, weights),
        card.read_text("utf-8", errors="replace") if card.is_file() else "",
    )


def _model_config(theirs: Table) -> ModelConfig:
    """The shape of the network; what we have no word for is a problem."""
    kind, problems = theirs.text("model_type"), theirs.problems
    if kind not in FIXED:
        problems.append(f"config.json: model_type = {kind!r}; marian can be imported")
    for key, wanted in (FIXED.get(kind, {}) | FIXED_FOR_BOTH).items():
        if theirs.content.get(key, wanted) != wanted:
            problems.append(f"config.json: {key} = {theirs.content[key]!r}, not {wanted!r}: not such a model")
    for one, other in (("attention_heads", "heads"), ("ffn_dim", "feed_forward")):
        encoder, decoder = (theirs.content.get(f"{side}_{one}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            problems.append(
                f"config.json: encoder_{one} {encoder} ≠ decoder_{one} {decoder}; we have one {other}"
            )
    activation = theirs.content.get("activation_function")
    if activation not in ACTIVATIONS:
        problems.append(
            f"config.json: activation_function = {activation!r}; there are {', '.join(ACTIVATIONS)}"
        )
    config = ModelConfig(
        encoder_layers=theirs.number("encoder_layers", least=1, most=MOST_LAYERS),
        decoder_layers=theirs.number("decoder_layers", least=1, most=MOST_LAYERS),
        width=theirs.number("d_model", least=2),
        feed_forward=theirs.number("encoder_ffn_dim", least=1),
        heads=theirs.number("encoder_attention_heads", least=1),
        norm="pre" if kind == "pegasus" else "post",
        activation=ACTIVATIONS.get(activation, "relu"),  # type: ignore[arg-type]
        tied=_tied(theirs, kind),
        scale_embeddings=theirs.flag("scale_embedding", False),
        dropout=theirs.share("dropout", 0.1),
        attention_dropout=theirs.share("attention_dropout", 0.0),
        activation_dropout=theirs.share("activation_dropout", 0.0),
        max_length=theirs.number("max_position_embeddings", least=1),
    )
    theirs.number(
        "decoder_start_token_id", most=theirs.number("decoder_vocab_size", theirs.number("vocab_size"))
    )
    problems += [f"config.json: {problem}" for problem in config.problems()]
    return config


def _tied(theirs: Table, kind: str) -> Any:
    share = theirs.flag("share_encoder_decoder_embeddings", True) if kind == "marian" else True
    if not theirs.flag("tie_word_embeddings", True):
        return "none"
    return "all" if share else "output"


# --- weights ---


def _read_weights(
    path: Path, files: Sequence[Path], config: ModelConfig, tokenizers: TokenizerPair
) -> dict[str, Tensor]:
    """Their weights under their names, once names and shapes are what the settings say."""
    stored: dict[str, Entry] = {}
    for file in files:
        stored |= read_header(file).entries
    problems = _name_problems(stored, config, tokenizers)
    if problems:
        raise FormatError(f"{path}: the weights do not fit config.json", problems)
    weights: dict[str, Tensor] = {}
    for file in files:
        weights |= read_safetensors(file)
    problems = [
        f"{name} is not the table of sinusoids"
        for name in POSITIONS
        if name in weights and not same_positions(weights[name])
    ]
    for names in EMBEDDINGS[config.tied].values():
        first, *others = [name for name in names if name in weights]
        if config.tied != "none":
            problems += [
                f"{other} differs from {first}, but config.json ties them"
                for other in others
                if not torch.equal(weights[first], weights[other])
            ]
    if problems:
        raise FormatError(f"{path}: the weights do not fit config.json", problems)
    broken = [name for name, tensor in weights.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        warnings.warn(f"{path}: weights that are not finite numbers: {', '.join(broken[:8])}", stacklevel=4)
    return weights


def _name_problems(stored: Mapping[str, Entry], config: ModelConfig, tokenizers: TokenizerPair) -> list[str]:
    """Every missing, superfluous and misshapen weight."""
    shapes = {name: slot.shape for slot in slots(config) for name in slot.theirs}
    missing = [name for name in shapes if name not in stored]
    for ours, names in EMBEDDINGS[config.tied].items():
        size = tokenizers.source.size if ours.startswith("source") else tokenizers.target.size
        present = [name for name in names if name in stored]
        missing += [] if present else [names[0]]
        shapes |= dict.fromkeys(present, (size, config.width))
    if BIAS in stored:
        shapes[BIAS] = (1, tokenizers.target.size)
    shapes |= dict.fromkeys((name for name in POSITIONS if name in stored), (config.max_length, config.width))
    problems = [f"missing: {', '.join(missing)}"] if missing else []
    extra = [name for name in stored if name not in shapes]
    if extra:
        problems.append(f"not part of the model: {', '.join(extra)}")
    for name, shape in shapes.items():
        if name in stored and stored[name].shape != shape:
            problems.append(f"{name} has the shape {stored[name].shape}, config.json says {shape}")
    whole = [name for name in shapes if name in stored and not stored[name].dtype.is_floating_point]
    if whole:
        problems.append(f"whole numbers where weights belong: {', '.join(whole)}")
    return problems


def _has_bias(weights: Mapping[str, Tensor], pad: int) -> bool:
    """An output bias of zeros is none; that of the padding never counts."""
    if BIAS not in weights:
        return False
    bias_V = weights[BIAS][0].clone()
    bias_V[pad] = 0
    return bool(bias_V.any())


def _filled_model(config: BundleConfig, weights: Mapping[str, Tensor]) -> Transformer:
    names = {
        ours: next(name for name in theirs if name in weights)
        for ours, theirs in EMBEDDINGS[config.model.tied].items()
    }
    found = to_ours(config.model, weights, names)
    if config.model.output_bias:
        found["output.bias_V"] = weights[BIAS][0].clone()
        found["output.bias_V"][config.vocabulary.target_pad] = 0.0
    with torch.random.fork_rng(devices=[]):
        model = build_transformer(config.model, config.vocabulary)
    with torch.no_grad():
        for name, tensor in weights_of(model).items():
            tensor.copy_(found[name])
    return model.eval()


# --- the rest of the configuration ---


def _hint(theirs: Table) -> BundleConfig | None:
    """What our own export has written beside their settings; nothing if it is of another version."""
    content = theirs.content.get("glassformer")
    if not isinstance(content, dict):
        return None
    try:
        return settings.from_mapping(BundleConfig, content)
    except ConfigError:
        return None


def _as_it_was(config: ModelConfig, hint: BundleConfig | None, weights: Mapping[str, Tensor]) -> ModelConfig:
    """Undo what an export has to write out: zero biases, and two copies of a tied matrix. If still true."""
    if hint is None:
        return config
    if not hint.model.attention_bias and not any(weights[name].any() for name in attention_biases(config)):
        config = replace(config, attention_bias=False)
    if (
        config.tied == "none"
        and hint.model.tied == "output"
        and torch.equal(weights[TARGET], weights[OUTPUT])
    ):
        config = replace(config, tied="output")
    return config


def _tokenizer_config(tokenizers: TokenizerPair) -> TokenizerConfig:
    source, target = tokenizers.source, tokenizers.target
    return TokenizerConfig(
        kind=source.kind,
        target_kind="same" if target.kind == source.kind else target.kind,
        joint=tokenizers.shared and target.kind == source.kind,
    )


def _search_config(path: Path, theirs: Table) -> SearchConfig:
    """Beams and penalty that the model was published with: older files have them in config.json."""
    found = theirs.content | read_table(path / "generation_config.json", [], required=False).content
    config = SearchConfig()
    beams, penalty, size = (found.get(key) for key in ("num_beams", "length_penalty", "no_repeat_ngram_size"))
    if type(beams) is int and 1 <= beams <= 100:
        config = replace(config, beams=beams)
    if isinstance(penalty, int | float) and penalty >= 0:
        config = replace(config, length_penalty=float(penalty))
    if type(size) is int and size >= 0:
        config = replace(config, no_repeat_ngram=size)
    return replace(config, stop="exact") if found.get("early_stopping") == "never" else config
