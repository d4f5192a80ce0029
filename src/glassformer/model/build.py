"""Configuration → model: the only place that reads a ModelConfig."""

from __future__ import annotations

from torch import nn

from glassformer import extend, settings
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.attention import CrossAttention, HeadShape, SelfAttention
from glassformer.model.layers import (
    NORMS,
    RESIDUALS,
    Embedding,
    FeedForward,
    GatedFeedForward,
    Output,
    embedding_weight,
)
from glassformer.model.positions import Alibi, Learned, Positions, Rotary, Sinusoidal
from glassformer.model.stacks import Decoder, DecoderLayer, Encoder, EncoderLayer, Residual
from glassformer.model.transformer import Transformer


def build_model(config: ModelConfig, vocabulary: VocabularyConfig) -> Transformer:
    """A Transformer with fresh weights, drawn from torch's generator: `torch.manual_seed` decides them."""
    check_model(config, vocabulary)
    source_VD, target_VD, output_VD = _embedding_weights(config, vocabulary)

    def embedding(weight_VD: nn.Parameter, pad: int, place: str) -> Embedding:
        return Embedding(
            weight_VD,
            pad,
            _added_positions(config),
            config.scale_embeddings,
            config.dropout,
            f"{place}.embedding",
        )

    return Transformer(
        embedding(source_VD, vocabulary.source_pad, "encoder"),
        Encoder([_encoder_layer(config, n) for n in range(config.encoder_layers)], _final_norm(config)),
        embedding(target_VD, vocabulary.target_pad, "decoder"),
        Decoder([_decoder_layer(config, n) for n in range(config.decoder_layers)], _final_norm(config)),
        Output(output_VD, config.output_bias, vocabulary.target_pad),
        vocabulary=vocabulary,
        max_length=config.max_length,
    )


def check_model(config: ModelConfig, vocabulary: VocabularyConfig) -> None:
    """Refuse what can't be built, with every reason at once."""
    problems = [f"model.{problem}" for problem in _problems(config)]
    problems += [f"vocabulary.{problem}" for problem in _problems(vocabulary)]
    if config.tied == "all" and not vocabulary.shared:
        problems.append(
            "model.tied = 'all' makes source and target one matrix, but they have separate vocabularies; "
            "set model.tied = 'output', or tokenizer.joint = true"
        )
    if problems:
        raise ConfigError(problems)


def _problems(config: ModelConfig | VocabularyConfig) -> list[str]:
    """What is wrong with a section, misspelt choices included: made in Python, none of it was checked yet."""
    try:
        settings.change(config, [])
    except ConfigError as error:
        return error.problems
    return []


def count_parameters(model: nn.Module) -> int:
    """Trainable numbers; what is tied counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _embedding_weights(
    config: ModelConfig, vocabulary: VocabularyConfig
) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """Source, target and output: one matrix, two or three."""
    source_VD = embedding_weight(vocabulary.source_size, config.width, vocabulary.source_pad)
    if config.tied == "all":
        return source_VD, source_VD, source_VD
    target_VD = embedding_weight(vocabulary.target_size, config.width, vocabulary.target_pad)
    if config.tied == "output":
        return source_VD, target_VD, target_VD
    return source_VD, target_VD, embedding_weight(vocabulary.target_size, config.width, vocabulary.target_pad)


def _head_shape(config: ModelConfig) -> HeadShape:
    return HeadShape(
        config.width,
        config.heads,
        key_value_heads=config.key_value_heads,
        head_width=config.head_width,
        value_width=config.value_width,
        score=config.score,
        scale=config.scale,
        query_key_norm=config.query_key_norm,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
    )


def _added_positions(config: ModelConfig) -> Positions:
    """Positions that are added to the embeddings; source and target learn their own."""
    if config.positions == "sinusoidal":
        return Sinusoidal(config.width)
    if config.positions == "learned":
        return Learned(config.width, config.max_length)
    if config.positions in extend.ADDED_POSITIONS:
        return extend.ADDED_POSITIONS[config.positions](config.width)
    return Positions()


def _attention_positions(config: ModelConfig) -> Positions:
    """Positions that act inside self-attention."""
    head_width = config.head_width or config.width // config.heads
    if config.positions == "rotary":
        return Rotary(head_width)
    if config.positions == "alibi":
        return Alibi(config.heads)
    if config.positions in extend.ATTENTION_POSITIONS:
        return extend.ATTENTION_POSITIONS[config.positions](config.heads, head_width)
    return Positions()


def _residual(config: ModelConfig) -> Residual:
    return RESIDUALS[config.norm](_norm(config), config.dropout)


def _norm(config: ModelConfig) -> nn.Module:
    return {**NORMS, **extend.NORMS}[config.norm_kind](config.width)


def _final_norm(config: ModelConfig) -> nn.Module:
    """With norms before the sub-layers nothing has normalised the last sum yet."""
    return _norm(config) if config.norm == "pre" else nn.Identity()


def _feed_forward(config: ModelConfig) -> nn.Module:
    if config.activation == "swiglu":
        return GatedFeedForward(config.width, config.feed_forward, config.activation_dropout)
    return FeedForward(config.width, config.feed_forward, config.activation, config.activation_dropout)


def _encoder_layer(config: ModelConfig, number: int) -> EncoderLayer:
    attention = SelfAttention(_head_shape(config), _attention_positions(config), f"encoder.{number}.self")
    return EncoderLayer(attention, _feed_forward(config), lambda: _residual(config))


def _decoder_layer(config: ModelConfig, number: int) -> DecoderLayer:
    attention = SelfAttention(_head_shape(config), _attention_positions(config), f"decoder.{number}.self")
    cross = CrossAttention(_head_shape(config), f"decoder.{number}.cross")
    return DecoderLayer(attention, cross, _feed_forward(config), lambda: _residual(config))
