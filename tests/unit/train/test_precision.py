"""bfloat16 where it is faster, and close to float32 whatever the model is made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.data.batch import collate
from glassformer.model.build import build_model
from glassformer.train import precision as module
from glassformer.train.objective import TranslationObjective
from glassformer.train.precision import WIDE, multiplies_bfloat16, pays, precision

CPU = torch.device("cpu")
VOCABULARY = VocabularyConfig(source_size=30, target_size=30, shared=True)


def half(wanted: Any, width: int = WIDE) -> bool:
    with precision(wanted, CPU, width):
        return torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("native", [True, False])
def test_it_is_chosen_where_it_pays(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiplies_bfloat16", lambda: native)
    assert (half("auto"), half("auto", WIDE - 1)) == (native, False)
    assert (half("bfloat16", 8), half("float32")) == (True, False)
    assert not pays(torch.device("meta"), WIDE)


def test_only_processors_with_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for has in ({"avx512_bf16": True}, {"amx_bf16": True, "avx512_bf16": False}, {"avx2": True}, {}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda has=has: has)
        multiplies_bfloat16.cache_clear()
        assert multiplies_bfloat16() == (has.get("avx512_bf16", False) or has.get("amx_bf16", False))
    multiplies_bfloat16.cache_clear()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "positions": "rotary", "activation": "swiglu"},
        {"positions": "alibi", "norm_kind": "rms"},
        {"score": "additive"},
        {"score": "bilinear", "positions": "learned"},
        {"architecture": "recurrent", "recurrent_attention": "additive"},
        {"architecture": "recurrent", "recurrent_attention": "none"},
    ],
)
def test_losses_and_gradients_are_near_those_of_float32(changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "width": 64,
        "feed_forward": 96,
        "heads": 4,
    }
    shape |= {"dropout": 0.0, "attention_dropout": 0.0, **changes}
    model = build_model(ModelConfig(**shape), VOCABULARY)
    objective = TranslationObjective(model, smoothing=0.1).train()
    batch = collate([([5, 6, 7, 8], [9, 10, 11]), ([12, 13], [14, 15, 16, 17])], VOCABULARY)
    found = []
    for wanted in ("float32", "bfloat16"):
        model.zero_grad()
        with precision(wanted, CPU, 64):  # type: ignore[arg-type]
            losses = objective(batch)
        losses.loss_sum.backward()
        assert losses.loss_sum.dtype == torch.float32
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        assert gradient.dtype == torch.float32
        found.append((losses.loss_sum.detach(), gradient))
    (exact, gradient), (rough, other) = found
    torch.testing.assert_close(rough, exact, rtol=0.01, atol=0.0)
    assert torch.cosine_similarity(gradient, other, dim=0) > 0.99
