"""Padding left out: the same numbers and gradients as with the whole rectangle, which is the slow twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.data.batch import Batch, collate
from glassformer.model.attention import split_heads, split_parts
from glassformer.model.build import build_model, build_reader
from glassformer.model.packing import Packing
from glassformer.model.record import record
from glassformer.model.transformer import Transformer
from glassformer.train.objective import TranslationObjective, make_objective

LENGTHS_B = torch.tensor([3, 1, 5])
REAL_BT = torch.arange(5) < LENGTHS_B[:, None]
TEXT = VocabularyConfig(20, 20, shared=True, source_pad=19, target_pad=19, start=19)
NETWORK = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "width": 16,
    "feed_forward": 24,
    "heads": 4,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "neighbour_dropout": 0.0,
}


def make_model(**changes: Any) -> Transformer:
    torch.manual_seed(1)
    return build_model(ModelConfig(**{**NETWORK, **changes}), TEXT).double()


def make_batch() -> Batch:
    return collate([([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12]), ([2, 3, 4, 5, 6], [])], TEXT)


def loss_and_gradients(objective: nn.Module, batch: Batch) -> list[Tensor]:
    losses = objective(batch)
    parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(losses.loss_sum, parameters, allow_unused=True, materialize_grads=True)
    return [losses.loss_sum, losses.nll_sum, *gradients]


def test_packed_and_unpacked_again() -> None:
    x_BTD = torch.randn(3, 5, 8)
    packing = Packing(LENGTHS_B, 5)
    x_RD = packing.pack(x_BTD)
    assert torch.equal(x_RD, x_BTD[REAL_BT])
    assert torch.equal(packing.unpack(x_RD), x_BTD * REAL_BT[..., None])


@pytest.mark.parametrize(
    ("lengths", "longest", "rows"), [([40, 30], 40, 80), ([40, 20], 40, 64), ([9, 3], 9, 18)]
)
def test_rows_come_in_multiples_as_far_as_there_is_padding(
    lengths: list[int], longest: int, rows: int
) -> None:
    x_BTD = torch.randn(2, longest, 8)
    packing = Packing(torch.tensor(lengths), longest, width=512)
    x_RD = packing.pack(x_BTD)
    assert len(x_RD) == rows
    assert len({tuple(place) for place in packing.kept_R2.tolist()}) == rows  # none twice
    assert len(packing.kept_R2) + len(packing.left_out_P2) == 2 * longest
    for row, length in enumerate(lengths):
        assert torch.equal(packing.unpack(x_RD)[row, :length], x_BTD[row, :length])


def test_both_ways_know_their_gradients_and_the_gradients_of_those() -> None:
    packing = Packing(LENGTHS_B, 5)
    x_RX = torch.randn(len(packing.kept_R2), 12, dtype=torch.double, requires_grad=True)
    x_BHTK = torch.randn(3, 2, 5, 4, dtype=torch.double, requires_grad=True)
    ways: list[tuple[Any, Tensor]] = [
        (lambda x: tuple(packing.split_parts(x, (1, 2))), x_RX),
        (packing.merge_heads, x_BHTK),
    ]
    for way, x in ways:
        assert torch.autograd.gradcheck(way, [x])
        assert torch.autograd.gradgradcheck(way, [x])


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_heads_are_split_and_merged_as_in_the_rectangle(heads: int) -> None:
    x_BTD = torch.randn(3, 5, 8) * REAL_BT[..., None]
    packing = Packing(LENGTHS_B, 5)
    split_BHTK = packing.split_heads(packing.pack(x_BTD), heads)
    assert torch.equal(split_BHTK, split_heads(x_BTD, heads))
    assert torch.equal(packing.merge_heads(split_BHTK), packing.pack(x_BTD))


@pytest.mark.parametrize("heads", [(4, 2, 2), (2, 2), (3,)], ids=str)
def test_parts_side_by_side_are_split_as_each_would_be_alone(heads: tuple[int, ...]) -> None:
    sizes = [2 * number for number in heads]
    x_BTX = (torch.randn(3, 5, sum(sizes)) * REAL_BT[..., None]).requires_grad_()
    packing = Packing(LENGTHS_B, 5)
    weights = [torch.randn(3, number, 5, 2) for number in heads]
    found = []
    for packed in (True, False):
        given = packing.pack(x_BTX) if packed else x_BTX
        parts = split_parts(given, sizes, heads, packing if packed else None)
        total = sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True))
        (gradient,) = torch.autograd.grad(total, x_BTX)
        found.append((*parts, gradient * REAL_BT[..., None]))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_parts_of_different_widths_are_split_one_by_one() -> None:
    x_BTX = torch.randn(3, 5, 2 * 4 + 2 * 3) * REAL_BT[..., None]
    packing = Packing(LENGTHS_B, 5)
    packed = split_parts(packing.pack(x_BTX), [8, 6], (2, 2), packing)
    for one, other in zip(packed, split_parts(x_BTX, [8, 6], (2, 2), None), strict=True):
        assert torch.equal(one, other)


def test_gradients_of_padding_are_zero() -> None:
    x_BTD = torch.randn(3, 5, 8, requires_grad=True)
    packing = Packing(LENGTHS_B, 5)
    packing.split_heads(packing.pack(x_BTD), 2).sum().backward()
    assert torch.equal(x_BTD.grad, REAL_BT[..., None].expand(3, 5, 8).float())


def test_only_where_it_saves_something_and_nobody_watches() -> None:
    assert isinstance(Packing.in_training(True, LENGTHS_B, 5), Packing)
    assert Packing.in_training(False, LENGTHS_B, 5) is None
    assert Packing.in_training(True, None, 5) is None
    assert Packing.in_training(True, torch.tensor([5, 5]), 5) is None
    with record():
        assert Packing.in_training(True, LENGTHS_B, 5) is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre"},
        {"norm": "pre", "norm_kind": "rms", "activation": "swiglu"},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"positions": "learned"},
        {"key_value_heads": 2},
        {"head_width": 6, "value_width": 10},
        {"query_key_norm": True},
        {"positions": "none"},
        {"score": "additive"},
        {"score": "bilinear"},
        {"score": "projected"},
        {"neighbours": 3},
    ],
    ids=lambda changes: ",".join(f"{key}={value}" for key, value in changes.items()) or "paper",
)
@pytest.mark.parametrize("rounded", [False, True])
def test_a_model_learns_the_same_without_padding(
    changes: dict[str, Any], rounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rounded:  # as in wide models
        monkeypatch.setattr("glassformer.model.packing.LARGE", 0)
        monkeypatch.setattr("glassformer.model.packing.MULTIPLE", 8)
    objective = TranslationObjective(make_model(**changes), smoothing=0.1).train()
    batch = make_batch()
    packed = loss_and_gradients(objective, batch)
    with record():  # whoever watches sees the rectangle
        whole = loss_and_gradients(objective, batch)
    for one, other in zip(packed, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("task", ["language_model", "masked_language_model", "classify", "tag"])
def test_the_family_learns_the_same_without_padding(task: str) -> None:
    torch.manual_seed(1)
    model = build_reader(task, ModelConfig(**NETWORK, norm="pre"), TEXT).double()  # type: ignore[arg-type]
    objective = make_objective(task, model, 0.1).train()
    batch = collate([([3, 4, 5], [6, 7, 8]), ([8], [9]), ([2, 3, 4, 5, 6], [7, 8, 9, 2, 3])], TEXT)
    real_BT = torch.arange(6) < batch.target_lengths_B[:, None]
    batch = replace(batch, target_out_BT=batch.target_out_BT.where(real_BT, -1))
    packed = loss_and_gradients(objective, batch)
    with record():
        whole = loss_and_gradients(objective, batch)
    for one, other in zip(packed, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_training_leaves_padding_out_and_everything_else_does_not() -> None:
    model, batch = make_model(), make_batch()
    seen: dict[str, tuple[int, ...]] = {}
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        stack.layers[0].feed_forward.register_forward_hook(  # type: ignore[attr-defined]
            lambda part, given, out, name=name: seen.update({name: tuple(out.shape)})
        )
    TranslationObjective(model).train()(batch)
    assert seen == {"encoder": (4 + 2 + 6, 16), "decoder": (3 + 5 + 1, 16)}
    TranslationObjective(model).eval()(batch)
    assert seen == {"encoder": (3, 6, 16), "decoder": (3, 5, 16)}
