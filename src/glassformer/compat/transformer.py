"""torch.nn.Transformer ↔ our stacks, weight by weight; what comes out computes what went in computed.

    encoder, decoder = from_torch(torch.nn.Transformer())
    memory = Memory(encoder(source_BSD, may_attend_lengths(lengths_B, source_BSD.shape[1])), lengths_B)
    states_BTD = decoder(target_BTD, memory)
    module = to_torch(encoder, decoder)

Torch's decoder is causal only when a mask says so; ours always is. Torch normalises what leaves each stack,
even where the paper's norms have just done so: here that is the stack's `final_norm`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import FormatError
from glassformer.model.attention import CrossAttention, Heads, HeadShape, SelfAttention
from glassformer.model.layers import FeedForward, PostNorm, PreNorm
from glassformer.model.positions import Positions
from glassformer.model.scores import ScaledDot
from glassformer.model.stacks import Decoder, DecoderLayer, Encoder, EncoderLayer, Residual

OurLayer = EncoderLayer | DecoderLayer
TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def from_torch(module: nn.Transformer) -> tuple[Encoder, Decoder]:
    """Our encoder and decoder with copies of torch's weights."""
    return encoder_from_torch(module.encoder), decoder_from_torch(module.decoder)


def encoder_from_torch(stack: nn.TransformerEncoder) -> Encoder:
    """Our encoder with copies of torch's weights."""
    _refuse_foreign(stack, nn.TransformerEncoder, nn.TransformerEncoderLayer)
    layers = [_encoder_layer(layer, f"encoder.{number}") for number, layer in enumerate(stack.layers)]
    return Encoder(layers, _copied_norm(stack.norm) or nn.Identity()).train(stack.training)


def decoder_from_torch(stack: nn.TransformerDecoder) -> Decoder:
    """Our decoder with copies of torch's weights."""
    _refuse_foreign(stack, nn.TransformerDecoder, nn.TransformerDecoderLayer)
    layers = [_decoder_layer(layer, f"decoder.{number}") for number, layer in enumerate(stack.layers)]
    return Decoder(layers, _copied_norm(stack.norm) or nn.Identity()).train(stack.training)


def to_torch(encoder: Encoder, decoder: Decoder, *, batch_first: bool = True) -> nn.Transformer:
    """A torch.nn.Transformer with copies of our weights; a FormatError lists all that it can't hold.

    Where a stack has no `final_norm`, torch's `norm` is None; biases that are missing beside others are zero.
    """
    reasons = [f"encoder: {reason}" for reason in _unfit(encoder)]
    reasons += [f"decoder: {reason}" for reason in _unfit(decoder)]
    if reasons:
        raise FormatError("torch.nn.Transformer can't hold these stacks", reasons)
    attention = encoder.layers[0].attention
    # The constructor draws new weights for whatever it holds, so the stacks move in afterwards.
    module = nn.Transformer(
        attention.output.out_features,
        attention.heads,
        custom_encoder=nn.Identity(),
        custom_decoder=nn.Identity(),
        batch_first=batch_first,
    )
    module.encoder = encoder_to_torch(encoder, batch_first=batch_first)
    module.decoder = decoder_to_torch(decoder, batch_first=batch_first)
    return module.train(encoder.training)


def encoder_to_torch(encoder: Encoder, *, batch_first: bool = True) -> nn.TransformerEncoder:
    """A torch.nn.TransformerEncoder with copies of our weights."""
    if reasons := _unfit(encoder):
        raise FormatError("torch.nn.TransformerEncoder can't hold this encoder", reasons)
    layers = [_layer_to_torch(layer, batch_first) for layer in encoder.layers]
    norm = _copied_norm(encoder.final_norm)
    stack = nn.TransformerEncoder(layers[0], 1, norm, enable_nested_tensor=False)  # type: ignore[arg-type]
    stack.layers, stack.num_layers = nn.ModuleList(layers), len(layers)
    return stack.train(encoder.training)


def decoder_to_torch(decoder: Decoder, *, batch_first: bool = True) -> nn.TransformerDecoder:
    """A torch.nn.TransformerDecoder with copies of our weights. Call it with a causal `tgt_mask`."""
    if reasons := _unfit(decoder):
        raise FormatError("torch.nn.TransformerDecoder can't hold this decoder", reasons)
    layers = [_layer_to_torch(layer, batch_first) for layer in decoder.layers]
    norm = _copied_norm(decoder.final_norm)
    stack = nn.TransformerDecoder(layers[0], 1, norm)  # type: ignore[arg-type]
    stack.layers, stack.num_layers = nn.ModuleList(layers), len(layers)
    return stack.train(decoder.training)


def _parts(layer: OurLayer) -> dict[str, list[Any]]:
    """Torch's names for the parts of a layer, and ours: the weights and biases of several ours, one above
    the other, are one of torch's. Read in both directions."""
    feed_forward: Any = layer.feed_forward
    parts = {
        "self_attn.in_proj_": [layer.attention.query_key_value],
        "self_attn.out_proj.": [layer.attention.output],
        "linear1.": [feed_forward.inner],
        "linear2.": [feed_forward.outer],
    }
    if isinstance(layer, DecoderLayer):
        parts["multihead_attn.in_proj_"] = [layer.cross.query, layer.cross.key_value]
        parts["multihead_attn.out_proj."] = [layer.cross.output]
    for number, residual in enumerate(_residuals(layer), 1):
        parts[f"norm{number}."] = [residual.norm]
    return parts


def _residuals(layer: OurLayer) -> list[Residual]:
    """In the order of the sub-layers: torch counts them from 1."""
    cross = [layer.cross_residual] if isinstance(layer, DecoderLayer) else []
    return [layer.attention_residual, *cross, layer.feed_forward_residual]


def _copied_norm(norm: nn.Module | None) -> nn.Module | None:
    return None if isinstance(norm, nn.Identity) else copy.deepcopy(norm)


# From torch. Layers are made on the meta device: weights that are about to be replaced need no memory and
# draw no random numbers.


def _encoder_layer(layer: nn.TransformerEncoderLayer, place: str) -> EncoderLayer:
    residuals = iter(_residuals_of(layer, 2))
    with torch.device("meta"):
        attention = SelfAttention(_head_shape(layer.self_attn), Positions(), f"{place}.self")
        ours = EncoderLayer(attention, _feed_forward(layer), lambda: next(residuals))
    _take(_parts(ours), layer.state_dict())
    return ours


def _decoder_layer(layer: nn.TransformerDecoderLayer, place: str) -> DecoderLayer:
    residuals = iter(_residuals_of(layer, 3))
    with torch.device("meta"):
        attention = SelfAttention(_head_shape(layer.self_attn), Positions(), f"{place}.self")
        cross = CrossAttention(_head_shape(layer.multihead_attn), f"{place}.cross")
        ours = DecoderLayer(attention, cross, _feed_forward(layer), lambda: next(residuals))
    _take(_parts(ours), layer.state_dict())
    return ours


def _residuals_of(layer: TorchLayer, count: int) -> list[Residual]:
    """The residuals of a layer of torch's, their norms still without weights."""
    kind = PreNorm if layer.norm_first else PostNorm
    norms = [getattr(layer, f"norm{number}") for number in range(1, count + 1)]
    dropouts = [getattr(layer, f"dropout{number}").p for number in range(1, count + 1)]
    return [
        kind(nn.LayerNorm(norm.normalized_shape, norm.eps, device="meta"), dropout)
        for norm, dropout in zip(norms, dropouts, strict=True)
    ]


def _head_shape(attention: nn.MultiheadAttention) -> HeadShape:
    return HeadShape(attention.embed_dim, attention.num_heads, dropout=attention.dropout)


def _feed_forward(layer: TorchLayer) -> FeedForward:
    ours = FeedForward(layer.linear1.in_features, layer.linear1.out_features, dropout=layer.dropout.p)
    ours.activation = copy.deepcopy(layer.activation)
    return ours


def _take(parts: Mapping[str, Sequence[Any]], state: Mapping[str, Tensor]) -> None:
    """Copy torch's tensors into our parts; a bias that torch has not, ours has not either."""
    for name, ours in parts.items():
        sizes = [part.weight.shape[0] for part in ours]
        for part, weight in zip(ours, state[f"{name}weight"].split(sizes), strict=True):
            part.weight = nn.Parameter(weight.clone())
        if f"{name}bias" not in state:
            for part in ours:
                part.register_parameter("bias", None)
            continue
        for part, bias in zip(ours, state[f"{name}bias"].split(sizes), strict=True):
            part.bias = nn.Parameter(bias.clone())


def _refuse_foreign(stack: nn.Module, kind: type[nn.Module], layer_kind: type[nn.Module]) -> None:
    """Only torch's own classes are known to compute what ours compute."""
    if not isinstance(stack, kind):
        raise FormatError(f"{type(stack).__name__} is not a torch.nn.{kind.__name__}")
    others = {type(layer).__name__ for layer in stack.layers if type(layer) is not layer_kind}  # type: ignore[union-attr]
    if others:
        raise FormatError(f"layers of class {', '.join(sorted(others))}, not torch.nn.{layer_kind.__name__}")
    reasons = []
    for name, part in stack.named_modules():
        if isinstance(part, nn.MultiheadAttention) and (part.bias_k is not None or part.add_zero_attn):
            reasons.append(f"{name} has add_bias_kv or add_zero_attn")
        elif name.rpartition(".")[2].startswith("norm") and not isinstance(part, nn.LayerNorm):
            reasons.append(f"{name} is {type(part).__name__}, not LayerNorm")
    if reasons:
        raise FormatError(f"this torch.nn.{kind.__name__} has been changed", reasons)


# To torch.


def _layer_to_torch(layer: OurLayer, batch_first: bool) -> TorchLayer:
    kind = nn.TransformerDecoderLayer if isinstance(layer, DecoderLayer) else nn.TransformerEncoderLayer
    feed_forward, parts = layer.feed_forward, _parts(layer)
    assert isinstance(feed_forward, FeedForward)  # else _unfit has refused it
    with torch.device("meta"):
        theirs = kind(
            layer.attention.output.out_features,
            layer.attention.heads,
            feed_forward.inner.out_features,
            feed_forward.dropout.p,
            copy.deepcopy(feed_forward.activation),
            batch_first=batch_first,
            norm_first=isinstance(layer.attention_residual, PreNorm),
            bias=any(part.bias is not None for ours in parts.values() for part in ours),
        )
    theirs.load_state_dict(_given(parts, theirs.state_dict()), assign=True)
    theirs.self_attn.dropout = layer.attention.dropout.p
    if isinstance(layer, DecoderLayer) and isinstance(theirs, nn.TransformerDecoderLayer):
        theirs.multihead_attn.dropout = layer.cross.dropout.p
    for number, residual in enumerate(_residuals(layer), 1):
        getattr(theirs, f"norm{number}").eps = residual.norm.eps
        getattr(theirs, f"dropout{number}").p = residual.dropout.p
    return theirs


def _given(parts: Mapping[str, Sequence[Any]], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors, copied, under torch's names; zeros for the biases that torch wants and we have not."""
    state = {}
    for name, ours in parts.items():
        state[f"{name}weight"] = torch.cat([part.weight.detach() for part in ours])
        if f"{name}bias" in wanted:
            state[f"{name}bias"] = torch.cat(
                [part.weight.new_zeros(part.weight.shape[0]) if part.bias is None else part.bias.detach()
                 for part in ours]
            )  # fmt: skip
    return state


def _unfit(stack: Encoder | Decoder) -> list[str]:
    """Every reason why torch's layers can't hold this stack."""
    found: list[str] = []
    if not isinstance(stack.final_norm, (nn.LayerNorm, nn.Identity)):
        found.append(f"the final norm is {type(stack.final_norm).__name__}, not LayerNorm")
    for layer in stack.layers:
        found += _unfit_heads(layer.attention, layer.attention.packed[0])
        if type(layer.attention.positions) is not Positions:
            found.append(f"self-attention has {type(layer.attention.positions).__name__} positions")
        if isinstance(layer, DecoderLayer):
            found += _unfit_heads(layer.cross, layer.cross.query.out_features)
        if not isinstance(layer.feed_forward, FeedForward):
            found.append(f"the feed-forward layer is {type(layer.feed_forward).__name__}")
        residuals = _residuals(layer)
        if len({type(residual) for residual in residuals}) > 1:
            found.append("norms stand before some sub-layers and after others")
        others = [r.norm for r in residuals if not isinstance(r.norm, nn.LayerNorm)]
        found += [f"a norm is {type(norm).__name__}, not LayerNorm" for norm in others]
    return list(dict.fromkeys(found))


def _unfit_heads(heads: Heads, query_width: int) -> list[str]:
    found = []
    if not isinstance(heads.score, ScaledDot):
        found.append(f"the score is {type(heads.score).__name__}, not the scaled dot product")
    elif not math.isclose(heads.score.factor, math.sqrt(heads.heads / query_width)):
        found.append("scores are not divided by √d_k")
    if heads.groups != heads.heads:
        found.append(f"{heads.heads} heads share the keys and values of {heads.groups}")
    width, value_width = heads.output.out_features, heads.output.in_features
    if query_width != width or value_width != width:
        found.append(f"all heads make {query_width} queries and {value_width} values, not {width}")
    if not isinstance(heads.query_norm, nn.Identity):
        found.append("queries and keys are normalised")
    return found
