"""Where Hugging Face's Marian and Pegasus keep the weights of a Transformer, and in which order.

Both have another order of the model dimension than the paper: all sines of a position, then all cosines,
where the paper has them in turn. Weights that read or write the model dimension are therefore reordered: they
move, and not one changes. `final_logits_bias` is what they call a bias on the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.model.positions import sinusoids

LOWEST = -1e4
"""output bias of the padding: e^-10000 is nothing, and half precision can still hold it"""
BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"

EMBEDDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {"source_embedding.weight_VD": (SHARED, SOURCE, TARGET, OUTPUT)},
    "output": {"source_embedding.weight_VD": (SOURCE,), "target_embedding.weight_VD": (TARGET, OUTPUT)},
    "none": {
        "source_embedding.weight_VD": (SOURCE, SHARED),
        "target_embedding.weight_VD": (TARGET, SHARED),
        "output.weight_VD": (OUTPUT,),
    },
}
"""our embeddings, by what is tied, and the names under which each may stand; if several do, they are equal"""


@dataclass(frozen=True)
class Slot:
    """A tensor of ours, and the tensors of theirs that are the same when stacked."""

    ours: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    """of each of theirs"""
    model_axis: int | None
    """the axis that is the model dimension"""


def slots(config: ModelConfig) -> list[Slot]:
    """Everything but embeddings, positions and the output bias."""
    width, inner = config.width, config.feed_forward
    found = []
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            found += _layer(f"{side}.layers.{number}", width, inner, side == "decoder")
        if config.norm == "pre":
            found += _norm(f"{side}.final_norm", f"model.{side}.layer_norm", width)
    return found


def _layer(ours: str, width: int, inner: int, has_cross: bool) -> list[Slot]:
    theirs = f"model.{ours}"
    own, other = f"{theirs}.self_attn", f"{theirs}.encoder_attn"
    found = [
        *_reads(f"{ours}.attention.query_key_value", own, ("q_proj", "k_proj", "v_proj"), width, width),
        *_writes(f"{ours}.attention.output", f"{own}.out_proj", width, width),
        *_norm(f"{ours}.attention_residual.norm", f"{own}_layer_norm", width),
        *_reads(f"{ours}.feed_forward.inner", theirs, ("fc1",), width, inner),
        *_writes(f"{ours}.feed_forward.outer", f"{theirs}.fc2", width, inner),
        *_norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm", width),
    ]
    if has_cross:
        found += [
            *_reads(f"{ours}.cross.query", other, ("q_proj",), width, width),
            *_reads(f"{ours}.cross.key_value", other, ("k_proj", "v_proj"), width, width),
            *_writes(f"{ours}.cross.output", f"{other}.out_proj", width, width),
            *_norm(f"{ours}.cross_residual.norm", f"{other}_layer_norm", width),
        ]
    return found


def _reads(ours: str, theirs: str, parts: tuple[str, ...], width: int, out: int) -> list[Slot]:
    """Linear maps out of the model dimension."""
    return [
        Slot(f"{ours}.weight", tuple(f"{theirs}.{part}.weight" for part in parts), (out, width), 1),
        Slot(f"{ours}.bias", tuple(f"{theirs}.{part}.bias" for part in parts), (out,), None),
    ]


def _writes(ours: str, theirs: str, width: int, into: int) -> list[Slot]:
    """A linear map into the model dimension."""
    return [
        Slot(f"{ours}.weight", (f"{theirs}.weight",), (width, into), 0),
        Slot(f"{ours}.bias", (f"{theirs}.bias",), (width,), 0),
    ]


def _norm(ours: str, theirs: str, width: int) -> list[Slot]:
    return [Slot(f"{ours}.{kind}", (f"{theirs}.{kind}",), (width,), 0) for kind in ("weight", "bias")]


def halves(width: int) -> Tensor:
    """Where each number of theirs stands in ours.

    >>> halves(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def to_theirs(config: ModelConfig, weights: Mapping[str, Tensor], pad: int) -> dict[str, Tensor]:
    """All weights of a Marian or Pegasus model, from those of ours; tied ones stand there once."""
    order = halves(config.width)
    found: dict[str, Tensor] = {}
    for slot in slots(config):
        tensor = weights.get(slot.ours)
        if tensor is None:  # no attention_bias; they always have one
            tensor = torch.zeros(len(slot.theirs) * slot.shape[0])
        if slot.model_axis is not None:
            tensor = tensor.index_select(slot.model_axis, order)
        found.update(zip(slot.theirs, tensor.chunk(len(slot.theirs)), strict=True))
    for ours, names in EMBEDDINGS[config.tied].items():
        found[names[0]] = weights[ours].index_select(1, order)
    size = len(weights["output.weight_VD"])
    bias_1V = weights.get("output.bias_V", torch.zeros(size)).clone()[None]
    bias_1V[0, pad] = LOWEST
    found[BIAS] = bias_1V
    if config.norm == "pre":
        found |= _for_pegasus(config, found)
    return found


def _for_pegasus(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Pegasus stores its positions, and knows only all or nothing tied."""
    table_TD = sinusoids(config.max_length, config.width).float()[:, halves(config.width)]
    extra = dict.fromkeys(POSITIONS, table_TD)
    if config.tied != "all":
        extra |= {SHARED: weights[SOURCE], OUTPUT: weights.get(OUTPUT, weights[TARGET])}
    return extra


def to_ours(
    config: ModelConfig, weights: Mapping[str, Tensor], names: Mapping[str, str]
) -> dict[str, Tensor]:
    """Our weights from theirs. `names` says which of their names holds each of our embeddings."""
    back = torch.argsort(halves(config.width))
    found = {ours: weights[theirs].index_select(1, back) for ours, theirs in names.items()}
    for slot in slots(config):
        tensor = torch.cat([weights[name] for name in slot.theirs])
        if slot.model_axis is not None:
            tensor = tensor.index_select(slot.model_axis, back)
        found[slot.ours] = tensor
    return found


def same_positions(table_TD: Tensor) -> bool:
    """Is a stored table of positions the sinusoids that it should be, up to half precision?"""
    length, width = table_TD.shape
    wanted_TD = sinusoids(length, width)[:, halves(width)]
    return bool((table_TD.double() - wanted_TD).abs().max() < 1e-3)


def attention_biases(config: ModelConfig) -> Iterator[str]:
    """Their names for the biases that a model without attention_bias lacks."""
    for slot in slots(config):
        if slot.ours.endswith(".bias") and (".attention." in slot.ours or ".cross." in slot.ours):
            yield from slot.theirs
