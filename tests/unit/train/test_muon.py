"""Muon against torch's own, against a singular value decomposition, and inside a run."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.build import build_model
from glassformer.model.parts import Linear
from glassformer.recipe import TrainConfig
from glassformer.train import muon
from glassformer.train.muon import Muon, matrices_of, orthogonal
from glassformer.train.optim import build_optimizer, load_optimizer_tensors, optimizer_tensors
from tests.unit.train.conftest import MakeLoop, metrics_of

VOCABULARY = VocabularyConfig(source_size=20, target_size=20, shared=True)


def small(**changes: Any) -> nn.Module:
    torch.manual_seed(0)
    shape = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "feed_forward": 24, "heads": 2, **changes}
    return build_model(ModelConfig(**shape), VOCABULARY)


def fill_gradients(model: nn.Module, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=draw)


def test_the_example_in_the_docstring() -> None:
    failed, tried = doctest.testmod(muon)
    assert tried >= 2
    assert failed == 0


@pytest.mark.parametrize("shape", [(3, 12, 12), (2, 8, 20), (2, 20, 8)])
def test_an_update_is_nearly_orthogonal(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    x_NRC = torch.randn(shape)
    near_NRC = orthogonal(x_NRC)
    values_NR = torch.linalg.svdvals(near_NRC)
    assert values_NR.min() > 0.3
    assert values_NR.max() < 1.3
    left, _, right = torch.linalg.svd(x_NRC, full_matrices=False)
    alike = torch.cosine_similarity(near_NRC.flatten(1), (left @ right).flatten(1))
    assert alike.min() > 0.95


def test_nothing_stays_nothing() -> None:
    assert not orthogonal(torch.zeros(2, 4, 6)).any()


def test_float32_and_bfloat16_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x_NRC = torch.randn(4, 16, 24)
    found: list[Tensor] = []
    for kind in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(muon, "_enough", lambda device, kind=kind: kind)
        found.append(orthogonal(x_NRC))
    assert found[0].dtype == found[1].dtype == torch.float32
    torch.testing.assert_close(found[0], found[1], atol=0.02, rtol=0.05)


def test_it_moves_each_block_as_torchs_muon_would() -> None:
    torch.manual_seed(0)
    layers = [Linear(8, [8, 8, 8]), Linear(8, [12]), Linear(12, [8]), Linear(8, [5, 5])]
    blocks = [
        nn.Parameter(block.clone()) for layer in layers for block in layer.weight.detach().split(layer.outs)
    ]
    peer = torch.optim.Muon(blocks, lr=0.02, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw")
    groups = [{"params": [layer.bias for layer in layers]}]
    ours = Muon(
        groups, layers, momentum=0.9, rate=2.0, weight_decay=0.1, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    ours.param_groups[0]["lr"] = 0.01
    for _ in range(5):
        for layer in layers:
            layer.weight.grad = torch.randn_like(layer.weight)
        gradients = [part for layer in layers for part in layer.weight.grad.split(layer.outs)]  # type: ignore[union-attr]
        for block, gradient in zip(blocks, gradients, strict=True):
            block.grad = gradient.clone()
        ours.step()
        peer.step()
        ours.zero_grad()
        assert all(layer.weight.grad is None for layer in layers)
    moved = [part for layer in layers for part in layer.weight.detach().split(layer.outs)]
    for block, mine in zip(blocks, moved, strict=True):
        torch.testing.assert_close(mine, block.detach(), atol=2e-4, rtol=0.01)


def test_all_else_moves_as_adam_would() -> None:
    plain, mixed = small(), small()
    adam = build_optimizer(plain, TrainConfig(weight_decay=0.1))
    both = build_optimizer(mixed, TrainConfig(weight_decay=0.1, optimizer="muon"))
    matrices = {id(layer.weight) for layer in matrices_of(mixed)}
    for seed in range(3):
        for model, optimizer in ((plain, adam), (mixed, both)):
            fill_gradients(model, seed)
            optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 0.01
            optimizer.step()
    for (name, one), other in zip(plain.named_parameters(), mixed.parameters(), strict=True):
        assert torch.equal(one, other) == (id(other) not in matrices), name


def test_only_maps_inside_layers_are_its_business() -> None:
    model = small(tied="none", positions="learned")
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = sorted(names[id(layer.weight)] for layer in matrices_of(model))
    assert len(found) == 4 + 2 * 7
    assert all(".layers." in name for name in found)
    frozen = next(layer for layer in matrices_of(model))
    frozen.weight.requires_grad_(False)
    assert frozen not in matrices_of(model)


def test_a_model_without_layers_is_refused() -> None:
    model = small(architecture="recurrent", recurrent_attention="additive")
    with pytest.raises(ConfigError, match=r"train\.optimizer = 'muon' moves the matrices of a Transformer"):
        build_optimizer(model, TrainConfig(optimizer="muon"))


def test_what_another_optimizer_remembered_is_left_out() -> None:
    one, other = small(), small()
    adam = build_optimizer(one, TrainConfig())
    both = build_optimizer(other, TrainConfig(optimizer="muon"))
    fill_gradients(one, 0)
    fill_gradients(other, 0)
    adam.step()
    both.step()
    from_adam, from_muon = optimizer_tensors(adam, one), optimizer_tensors(both, other)
    weight = "encoder.layers.0.attention.output.weight"
    assert f"momentum_buffer.{weight}" in from_muon
    assert f"exp_avg.{weight}" not in from_muon
    for start, model, tensors in (("adamw", one, from_muon), ("muon", other, from_adam)):
        fresh = build_optimizer(model, TrainConfig(optimizer=start))  # type: ignore[arg-type]
        load_optimizer_tensors(fresh, model, tensors)
        fill_gradients(model, 1)
        fresh.step()
        assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_run_learns_with_it(loop_in: MakeLoop, tmp_path: Path) -> None:
    loop = loop_in(
        tmp_path, optimizer="muon", max_steps=100, validate_every=50, label_smoothing=0.0, validate_bleu=0
    )
    loop.run()
    losses = [entry["loss"] for entry in metrics_of(tmp_path) if entry["kind"] == "valid"]
    assert losses[-1] < losses[0]
