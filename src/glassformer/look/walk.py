"""The walk through the model: from token ids to the chosen word, one equation at a time.

What a student would otherwise put in with print statements. The walk goes through the model's own parts in
plain order, so it is a second way to compute what `model.decode` computes, and a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.look.pack import pack
from glassformer.model.attention import (
    CrossAttention,
    Heads,
    SelfAttention,
    causal_mask,
    merge_heads,
    softmax_where,
)
from glassformer.model.families import Classifier, LanguageModel, PatchEmbedding, Reader, patches
from glassformer.model.layers import Embedding, FeedForward, GatedFeedForward, PostNorm, PreNorm
from glassformer.model.parts import RMSNorm
from glassformer.model.positions import Learned, Rotary, Sinusoidal
from glassformer.model.scores import Additive, Bilinear, Projected
from glassformer.model.silence import loudness
from glassformer.model.stacks import Encoder
from glassformer.model.transformer import Transformer

FIRST = 8
"""numbers of each row that a stage shows"""

Side = Literal["source", "target"]


@dataclass(frozen=True)
class Stage:
    """One step of the walk."""

    key: str
    """what happens: its name and a sentence about it stand in the table of texts"""
    place: str
    """where: `encoder.0.self`, `decoder.1`, `output` …"""
    equation: str
    axes: str
    """letters of the shape, such as `B H T S`"""
    shape: tuple[int, ...]
    side: Side
    """whose tokens the rows are"""
    numbers_TX: Tensor
    """the first numbers of each token (of the first head, where there are heads)"""

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "place": self.place,
            "equation": self.equation,
            "axes": self.axes,
            "shape": list(self.shape),
            "side": self.side,
            "numbers": pack(self.numbers_TX),
        }


def walk(model: Transformer, source: Sequence[int], target: Sequence[int]) -> list[Stage]:
    """Every stage for one sentence. `source` ends with eos, `target` begins with the start symbol."""
    with torch.inference_mode():
        device = model.output_weight.device
        walker = _Walker()
        memory_BSD = walker.encode(model, torch.tensor([list(source)], device=device))
        walker.decode(model, memory_BSD, torch.tensor([list(target)], device=device))
        return walker.stages


def walk_reader(model: Reader, ids: Sequence[int]) -> list[Stage]:
    """Every stage of a member of the family: from the ids that it reads to its probabilities."""
    with torch.inference_mode():
        walker = _Walker()
        walker.read(model, torch.tensor([list(ids)], device=model.output_weight.device))
        return walker.stages


class _Walker:
    """Goes through the parts and notes each tensor on the way."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.side: Side = "source"

    def note(self, key: str, place: str, equation: str, axes: str, value: Tensor) -> None:
        row_TX = value[0] if value.dim() == 3 else value[0, 0] if value.dim() == 4 else value[0, :, None]
        numbers_TX = row_TX[..., :FIRST].float().cpu()
        self.stages.append(Stage(key, place, equation, axes, tuple(value.shape), self.side, numbers_TX))

    def encode(self, model: Transformer, ids_BS: Tensor) -> Tensor:
        self.side = "source"
        x_BSD = self.embed(model.source_embedding, ids_BS, "encoder.embedding", "S")
        return self.stack(model.encoder, x_BSD, causal=False)

    def read(self, model: Reader, ids_BT: Tensor) -> None:
        causal = isinstance(model, LanguageModel)
        self.side = "target" if causal else "source"
        letter = "T" if causal else "S"
        if isinstance(model.embedding, PatchEmbedding):
            patches_BPX = patches(model.embedding.levels_V[ids_BT[:, :-1]], model.embedding.patch)
            self.note("ids", "encoder.embedding", "pixels → patches", "B S X", patches_BPX)
            x_BTD = model.embedding(ids_BT[:, :-1])
            self.note("embedded", "encoder.embedding", "x = patch W + b + P[p]", "B S D", x_BTD)
        else:
            x_BTD = self.embed(model.embedding, ids_BT, model.embedding.place, letter)
        states_BTD = self.stack(model.encoder, x_BTD, causal=causal)
        if isinstance(model, Classifier):
            states_BTD = states_BTD.mean(1, keepdim=True)
            self.note("pooled", "output", "mean of all states", "B 1 D", states_BTD)
        self.decide(model.output(states_BTD), model.output_bias is not None, letter)

    def stack(self, encoder: Encoder, x_BSD: Tensor, *, causal: bool) -> Tensor:
        for number, layer in enumerate(encoder.layers):
            place = f"{encoder.place}.{number}"
            x_BSD = self.residual(
                layer.attention_residual,
                x_BSD,
                partial(self.attend_self, layer.attention, causal=causal),
                f"{place}.self",
            )
            x_BSD = self.residual(
                layer.feed_forward_residual,
                x_BSD,
                partial(self.feed_forward, layer.feed_forward, f"{place}.feed_forward"),
                f"{place}.feed_forward",
            )
        return self.final_norm(encoder.final_norm, x_BSD, encoder.place)

    def decode(self, model: Transformer, memory_BSD: Tensor, ids_BT: Tensor) -> None:
        self.side = "target"
        x_BTD = self.embed(model.target_embedding, ids_BT, "decoder.embedding", "T")
        for number, layer in enumerate(model.decoder.layers):
            place = f"decoder.{number}"
            x_BTD = self.residual(
                layer.attention_residual,
                x_BTD,
                partial(self.attend_self, layer.attention, causal=True),
                f"{place}.self",
            )
            x_BTD = self.residual(
                layer.cross_residual,
                x_BTD,
                partial(self.attend_cross, layer.cross, memory_BSD),
                f"{place}.cross",
            )
            x_BTD = self.residual(
                layer.feed_forward_residual,
                x_BTD,
                partial(self.feed_forward, layer.feed_forward, f"{place}.feed_forward"),
                f"{place}.feed_forward",
            )
        states_BTD = self.final_norm(model.decoder.final_norm, x_BTD, "decoder")
        self.decide(model.output(states_BTD), model.output_bias is not None, "T")

    def decide(self, logits_BTV: Tensor, has_bias: bool, letter: str) -> None:
        bias = " + b" if has_bias else ""
        self.note("logits", "output", f"z = x Eᵀ{bias}", f"B {letter} V", logits_BTV)
        best_BTV = logits_BTV.softmax(-1).sort(-1, descending=True).values
        self.note("softmax", "output", "p = softmax(z)", f"B {letter} V", best_BTV)

    def embed(self, embedding: Embedding, ids_BT: Tensor, place: str, letter: str) -> Tensor:
        self.note("ids", place, "text → pieces → ids", f"B {letter}", ids_BT)
        factor = f" · √{embedding.weight_VD.shape[1]}" if embedding.factor != 1 else ""
        x_BTD, looked_up = F.embedding(ids_BT, embedding.weight_VD), "E[id]"
        if embedding.neighbours is not None:
            x_BTD, looked_up = x_BTD + embedding.neighbours(ids_BT), "(E[id] + Σₙ G[n-gram])"
        x_BTD = x_BTD * embedding.factor
        self.note("embedding", place, f"{looked_up}{factor}", f"B {letter} D", x_BTD)
        if isinstance(embedding.positions, Sinusoidal | Learned):
            equation = "PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d))"
            if isinstance(embedding.positions, Learned):
                equation = "P[p]"
            places = range(ids_BT.shape[1])
            table_BTD = embedding.positions.embed(torch.zeros_like(x_BTD), places)
            self.note("positions", place, equation, f"B {letter} D", table_BTD)
            x_BTD = embedding.positions.embed(x_BTD, places)
            self.note("embedded", place, "x = E[id] + PE", f"B {letter} D", x_BTD)
        return x_BTD

    def residual(
        self, residual: PostNorm | PreNorm, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor], place: str
    ) -> Tensor:
        name = _norm_name(residual.norm)
        axes = "B S D" if self.side == "source" else "B T D"
        if isinstance(residual, PreNorm):
            normed_BTD = residual.norm(x_BTD)
            self.note("norm", place, f"{name}(x)", axes, normed_BTD)
            x_BTD = x_BTD + sublayer(normed_BTD)
            self.note("residual", place, f"x + Sublayer({name}(x))", axes, x_BTD)
            return x_BTD
        x_BTD = x_BTD + sublayer(x_BTD)
        self.note("residual", place, "x + Sublayer(x)", axes, x_BTD)
        x_BTD = residual.norm(x_BTD)
        self.note("norm", place, f"{name}(x + Sublayer(x))", axes, x_BTD)
        return x_BTD

    def final_norm(self, norm: nn.Module, x_BTD: Tensor, place: str) -> Tensor:
        if isinstance(norm, nn.Identity):
            return x_BTD
        x_BTD = norm(x_BTD)
        axes = "B S D" if self.side == "source" else "B T D"
        self.note("final_norm", place, f"{_norm_name(norm)}(x)", axes, x_BTD)
        return x_BTD

    def attend_self(self, attention: SelfAttention, x_BTD: Tensor, *, causal: bool) -> Tensor:
        places = range(x_BTD.shape[1])
        q_BTX, k_BTX, v_BTX = attention.query_key_value(x_BTD).split(attention.packed, dim=-1)
        q_BHTK = attention.positions.turn(attention.queries(q_BTX), places)
        k_BGTK = attention.positions.turn(attention.keys(k_BTX), places)
        turned = "R(p)·" if isinstance(attention.positions, Rotary) else ""
        bias_HTT = attention.positions.bias(places, places)
        may_attend = causal_mask(len(places), x_BTD.device) if causal else None
        letter = "S" if self.side == "source" else "T"
        return self.attend(
            attention, q_BHTK, k_BGTK, attention.values(v_BTX), may_attend, bias_HTT, turned, letter * 2
        )

    def attend_cross(self, attention: CrossAttention, memory_BSD: Tensor, x_BTD: Tensor) -> Tensor:
        q_BHTK = attention.queries(attention.query(x_BTD))
        memory = attention.remember(memory_BSD)
        return self.attend(attention, q_BHTK, memory.keys_BGSK, memory.values_BGSU, None, None, "", "TS")

    def attend(
        self,
        attention: Heads,
        q_BHTK: Tensor,
        k_BGSK: Tensor,
        v_BGSU: Tensor,
        may_attend: Tensor | None,
        bias_HTS: Tensor | None,
        turned: str,
        letters: str,
    ) -> Tensor:
        """Queries meet keys; what the weights pick of the values goes back. `letters`: rows and columns."""
        place, rows, columns = attention.place, letters[0], letters[1]
        reads = "memory" if isinstance(attention, CrossAttention) else "x"
        self.note("queries", place, f"Q = {turned}x W^Q", f"B H {rows} K", q_BHTK)
        side, self.side = self.side, "source" if columns == "S" else self.side
        self.note("keys", place, f"K = {turned}{reads} W^K", f"B H {columns} K", k_BGSK)
        self.note("values", place, f"V = {reads} W^V", f"B H {columns} U", v_BGSU)
        self.side = side
        shared = attention.heads // attention.groups
        k_BHSK, v_BHSU = (x.repeat_interleave(shared, dim=1) for x in (k_BGSK, v_BGSU))
        scores_BHTS = attention.score(q_BHTK, k_BHSK)
        equation = _score_equation(attention, q_BHTK.shape[-1])
        if bias_HTS is not None:
            scores_BHTS, equation = scores_BHTS + bias_HTS, f"{equation} − m·|i − j|"
        self.note("scores", place, equation, f"B H {rows} {columns}", scores_BHTS)
        if may_attend is not None:
            scores_BHTS = scores_BHTS.masked_fill(~may_attend, float("-inf"))
            self.note("mask", place, "S[i, j] = −∞ for j > i", f"B H {rows} {columns}", scores_BHTS)
        weights_BHTS = softmax_where(scores_BHTS, may_attend)
        self.note("weights", place, "A = softmax(S)", f"B H {rows} {columns}", weights_BHTS)
        attended_BHTU = weights_BHTS @ v_BHSU
        if (loud_BH11 := loudness(place, attention.heads, attended_BHTU)) is not None:
            attended_BHTU = attended_BHTU * loud_BH11
        self.note("attended", place, "head = A V", f"B H {rows} U", attended_BHTU)
        mixed_BTD = attention.output(merge_heads(attended_BHTU))
        self.note("mixed", place, "Concat(head₁ … head_h) W^O", f"B {rows} D", mixed_BTD)
        return mixed_BTD

    def feed_forward(self, part: nn.Module, place: str, x_BTD: Tensor) -> Tensor:
        letter = "S" if self.side == "source" else "T"
        if isinstance(part, GatedFeedForward):
            gate_BTF, hidden_BTF = part.gate_inner(x_BTD).chunk(2, dim=-1)
            hidden_BTF, equation = F.silu(gate_BTF) * hidden_BTF, "h = silu(x W_g) ⊙ x W₁"
        elif isinstance(part, FeedForward):
            hidden_BTF = part.activation(part.inner(x_BTD))
            name = getattr(part.activation, "__name__", "f")
            equation = "h = max(0, x W₁ + b₁)" if name == "relu" else f"h = {name}(x W₁ + b₁)"
        else:  # somebody's own part: what goes in and what comes out is all there is to see
            out_BTD = part(x_BTD)
            self.note("outer", place, "f(x)", f"B {letter} D", out_BTD)
            return out_BTD
        self.note("inner", place, equation, f"B {letter} F", hidden_BTF)
        out_BTD = part.outer(hidden_BTF)
        self.note("outer", place, "h W₂ + b₂", f"B {letter} D", out_BTD)
        return out_BTD


def _norm_name(norm: nn.Module) -> str:
    return "RMSNorm" if isinstance(norm, RMSNorm) else "LayerNorm"


def _score_equation(attention: Heads, head_width: int) -> str:
    score = attention.score
    if isinstance(score, Additive):
        return "S = aᵀ tanh(Q W + K U)"
    factor = float(getattr(score, "factor", 1.0))
    divided = f" / √{round(1 / factor**2)}" if not math.isclose(factor, 1.0) else ""
    if isinstance(score, Bilinear):
        return f"S = Q W Kᵀ{divided}"
    if isinstance(score, Projected):
        return f"S = (Q W)(K U)ᵀ{divided}"
    return f"S = Q Kᵀ{divided}"
