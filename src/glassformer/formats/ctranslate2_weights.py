"""The weights of a bundle in the places where CTranslate2 looks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.bundle import Bundle
from glassformer.config import ModelConfig
from glassformer.formats.names import token_names
from glassformer.model.positions import sinusoids

LEAST_POSITIONS = 1026
"""rows of a table of positions: what its own default maximum of 1024 tokens needs"""
EPSILON = {"layer": 1e-5, "rms": 1e-6}
Array = np.ndarray[Any, np.dtype[np.float32]]


def write(bundle: Bundle, directory: Path, quantization: str) -> None:
    """model.bin, config.json and the vocabulary, into an existing directory."""
    # Copies: rounding to int8 scales the arrays in place.
    weights = {
        name: np.array(tensor.detach().float().cpu().numpy())
        for name, tensor in bundle.model.state_dict().items()
    }
    spec = _specification(bundle.config.model, weights)
    tokenizers, vocabulary = bundle.tokenizers, bundle.config.vocabulary
    source_names, target_names = token_names(tokenizers.source), token_names(tokenizers.target)
    spec.decoder.projection.bias = _output_bias(weights, vocabulary.target_pad)
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    spec.config.eos_token = target_names[vocabulary.eos]
    spec.config.unk_token = target_names[vocabulary.unk]
    spec.config.bos_token = target_names[vocabulary.start]
    spec.config.decoder_start_token = target_names[vocabulary.start]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON[bundle.config.model.norm_kind]
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(directory))


def _specification(config: ModelConfig, weights: Mapping[str, Array]) -> Any:
    """Every weight in its place."""
    from ctranslate2.specs import common_spec, transformer_spec

    activation = {
        "relu": common_spec.Activation.RELU,
        "gelu": common_spec.Activation.GELU,
        "silu": common_spec.Activation.SWISH,
        "swiglu": common_spec.Activation.SWISH,
    }[config.activation]
    choices = {
        "pre_norm": config.norm == "pre",
        "rms_norm": config.norm_kind == "rms",
        "activation": activation,
        "ffn_glu": config.activation == "swiglu",
        "num_heads_kv": config.key_value_heads or None,
        "head_dim": config.head_width or None,
        "rotary_dim": 0 if config.positions == "rotary" else None,
    }
    encoder = transformer_spec.TransformerEncoderSpec(config.encoder_layers, config.heads, **choices)
    decoder = transformer_spec.TransformerDecoderSpec(config.decoder_layers, config.heads, **choices)
    place = _Placing(config, weights)
    for number, layer in enumerate(encoder.layer):
        place.attention(layer.self_attention, f"encoder.layers.{number}.attention", ["query_key_value"])
        place.feed_forward(layer.ffn, f"encoder.layers.{number}.feed_forward")
    for number, layer in enumerate(decoder.layer):
        place.attention(layer.self_attention, f"decoder.layers.{number}.attention", ["query_key_value"])
        place.attention(layer.attention, f"decoder.layers.{number}.cross", ["query", "key_value"])
        place.feed_forward(layer.ffn, f"decoder.layers.{number}.feed_forward")
    place.stack(encoder, encoder.embeddings[0], "encoder", "source_embedding")
    place.stack(decoder, decoder.embeddings, "decoder", "target_embedding")
    decoder.projection.weight = weights["output.weight_VD"]
    return transformer_spec.TransformerSpec(encoder, decoder)


class _Placing:
    """Puts weights into a specification."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Array]) -> None:
        self.config, self.weights = config, weights

    def attention(self, spec: Any, name: str, projections: Sequence[str]) -> None:
        for part, projection in zip(spec.linear, [*projections, "output"], strict=True):
            self.linear(part, f"{name}.{projection}")
        self.norm(spec.layer_norm, f"{name}_residual.norm")
        if self.config.scale == "init":
            spec.queries_scale = np.float32(1.0)

    def feed_forward(self, spec: Any, name: str) -> None:
        if self.config.activation == "swiglu":
            for kind in ("weight", "bias"):
                gate, inner = np.split(self.weights[f"{name}.gate_inner.{kind}"], 2)
                setattr(spec.linear_0, kind, gate)
                setattr(spec.linear_0_noact, kind, inner)
        else:
            self.linear(spec.linear_0, f"{name}.inner")
        self.linear(spec.linear_1, f"{name}.outer")
        self.norm(spec.layer_norm, f"{name}_residual.norm")

    def stack(self, spec: Any, embeddings: Any, name: str, embedding: str) -> None:
        """What stands around the layers of the encoder or the decoder."""
        spec.scale_embeddings = self.config.scale_embeddings
        embeddings.weight = self.weights[f"{embedding}.weight_VD"]
        if self.config.norm == "pre":
            self.norm(spec.layer_norm, f"{name}.final_norm")
        if self.config.positions != "rotary":
            spec.position_encodings.encodings = self._positions(f"{embedding}.positions.table_TD")

    def _positions(self, learned: str) -> Array:
        length, width = max(self.config.max_length, LEAST_POSITIONS), self.config.width
        if self.config.positions == "learned":
            return self.weights[learned]
        if self.config.positions == "none":
            return np.zeros((length, width), dtype=np.float32)
        return np.asarray(sinusoids(length, width).float().numpy())

    def linear(self, spec: Any, name: str) -> None:
        spec.weight = self.weights[f"{name}.weight"]
        if f"{name}.bias" in self.weights:
            spec.bias = self.weights[f"{name}.bias"]

    def norm(self, spec: Any, name: str) -> None:
        spec.gamma = self.weights[f"{name}.weight"]
        if f"{name}.bias" in self.weights:
            spec.beta = self.weights[f"{name}.bias"]


def _output_bias(weights: Mapping[str, Array], pad: int) -> Array:
    size = len(weights["output.weight_VD"])
    bias_V = np.array(weights.get("output.bias_V", np.zeros(size)), dtype=np.float32)
    bias_V[pad] = -np.inf
    return bias_V
