"""Configuration → model: the only place that reads a ModelConfig."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import nn

from glassformer import extend, settings
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.attention import CrossAttention, HeadShape, SelfAttention
from glassformer.model.families import FAMILY, PatchEmbedding, Reader
from glassformer.model.layers import (
    NORMS,
    RESIDUALS,
    Embedding,
    FeedForward,
    GatedFeedForward,
    Output,
    embedding_weight,
)
from glassformer.model.neighbours import Neighbours
from glassformer.model.positions import Alibi, Learned, Positions, Rotary, Sinusoidal
from glassformer.model.recurrent import Recurrent, RecurrentDecoder, RecurrentEncoder, make_context
from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.stacks import Decoder, DecoderLayer, Encoder, EncoderLayer, Residual
from glassformer.model.transformer import Transformer


def build_model(config: ModelConfig, vocabulary: VocabularyConfig) -> Seq2Seq:
    """A model with fresh weights, drawn from torch's generator: `torch.manual_seed` decides them."""
    if config.architecture == "recurrent":
        return _build_recurrent(config, vocabulary)
    return build_transformer(config, vocabulary)


def build_transformer(config: ModelConfig, vocabulary: VocabularyConfig) -> Transformer:
    """`build_model` for whoever wants nothing but a Transformer."""
    check_model(config, vocabulary)
    if config.architecture != "transformer":
        raise ConfigError(f"model.architecture = '{config.architecture}', but a Transformer was asked for")
    source, target, output = _ends(config, vocabulary)
    return Transformer(
        source,
        Encoder([_encoder_layer(config, n) for n in range(config.encoder_layers)], _final_norm(config)),
        target,
        Decoder([_decoder_layer(config, n) for n in range(config.decoder_layers)], _final_norm(config)),
        output,
        vocabulary=vocabulary,
        max_length=config.max_length,
    )


def _build_recurrent(config: ModelConfig, vocabulary: VocabularyConfig) -> Recurrent:
    check_model(config, vocabulary)
    source, target, output = _ends(replace(config, positions="none"), vocabulary)
    context = make_context(
        config.recurrent_attention,
        config.width,
        config.attention_dropout,
        f"decoder.{config.decoder_layers - 1}.cross",
    )
    return Recurrent(
        source,
        RecurrentEncoder(config.width, config.encoder_layers, config.dropout),
        target,
        RecurrentDecoder(config.width, config.decoder_layers, context, config.dropout),
        output,
        vocabulary=vocabulary,
        max_length=config.max_length,
    )


def _ends(config: ModelConfig, vocabulary: VocabularyConfig) -> tuple[Embedding, Embedding, Output]:
    """Where ids come in on either side, and where logits go out: one matrix, two or three."""
    source_VD, target_VD, output_VD = _embedding_weights(config, vocabulary)

    def embedding(
        weight_VD: nn.Parameter, pad: int, place: str, neighbours: Neighbours | None = None
    ) -> Embedding:
        return Embedding(
            weight_VD,
            pad,
            _added_positions(config),
            config.scale_embeddings,
            config.dropout,
            f"{place}.embedding",
            neighbours,
        )

    return (
        embedding(source_VD, vocabulary.source_pad, "encoder", _neighbours(config, vocabulary.source_pad)),
        embedding(target_VD, vocabulary.target_pad, "decoder"),
        Output(output_VD, config.output_bias, vocabulary.target_pad),
    )


def _neighbours(config: ModelConfig, pad: int) -> Neighbours | None:
    if not config.neighbours:
        return None
    return Neighbours(config.neighbour_rows, config.width, config.neighbours, pad, config.neighbour_dropout)


def build_reader(task: str, config: ModelConfig, vocabulary: VocabularyConfig) -> Reader:
    """A member of the family (`model.families`) with fresh weights: one stack, and the head of its task."""
    check_model(replace(config, tied="output"), vocabulary)
    if config.architecture != "transformer":
        raise ConfigError(f"task = '{task}' needs model.architecture = 'transformer'")
    if config.neighbours:
        raise ConfigError(f"model.neighbours = {config.neighbours} works for task = 'translate' only")
    place, layers = "encoder", config.encoder_layers
    if task == "language_model":
        place, layers = "decoder", config.decoder_layers
    input_VD = embedding_weight(vocabulary.source_size, config.width, vocabulary.source_pad)
    output_VD = input_VD
    if config.tied == "none" or not vocabulary.shared:
        output_VD = embedding_weight(vocabulary.target_size, config.width, vocabulary.target_pad)
    return FAMILY[task](
        _patches(config, vocabulary) if task == "image" else _embedding(config, input_VD, vocabulary, place),
        Encoder([_encoder_layer(config, n, place) for n in range(layers)], _final_norm(config), place),
        Output(output_VD, config.output_bias or not vocabulary.shared, vocabulary.target_pad),
        vocabulary=vocabulary,
        max_length=config.max_length,
    )


def _embedding(
    config: ModelConfig, weight_VD: nn.Parameter, vocabulary: VocabularyConfig, place: str
) -> Embedding:
    positions, pad = _added_positions(config), vocabulary.source_pad
    return Embedding(weight_VD, pad, positions, config.scale_embeddings, config.dropout, f"{place}.embedding")


def _patches(config: ModelConfig, vocabulary: VocabularyConfig) -> PatchEmbedding:
    positions = _added_positions(config)
    size = vocabulary.source_size
    return PatchEmbedding(size, config.width, config.patch, positions, config.dropout, "encoder.embedding")


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
        words = 1.0 if config.scale_embeddings else config.width**-0.5  # how large words begin
        return Learned(config.width, config.max_length, words * math.sqrt(0.5))
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


def _encoder_layer(config: ModelConfig, number: int, place: str = "encoder") -> EncoderLayer:
    attention = SelfAttention(_head_shape(config), _attention_positions(config), f"{place}.{number}.self")
    return EncoderLayer(attention, _feed_forward(config), lambda: _residual(config))


def _decoder_layer(config: ModelConfig, number: int) -> DecoderLayer:
    attention = SelfAttention(_head_shape(config), _attention_positions(config), f"decoder.{number}.self")
    cross = CrossAttention(_head_shape(config), f"decoder.{number}.cross")
    return DecoderLayer(attention, cross, _feed_forward(config), lambda: _residual(config))
