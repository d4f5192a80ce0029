"""The walk computes what the model computes, whatever the model is made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.look.page import texts
from glassformer.look.walk import FIRST, walk
from glassformer.model.record import record
from tests.unit.model.models import small_model

CHOICES: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "activation": "swiglu", "norm_kind": "rms"},
    {"positions": "rotary", "key_value_heads": 2},
    {"positions": "alibi", "score": "additive"},
    {"positions": "learned", "score": "bilinear", "activation": "gelu"},
    {"positions": "none", "score": "projected", "output_bias": True, "scale_embeddings": False},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_layer_and_the_end_are_the_models(choices: dict[str, Any]) -> None:
    model = small_model(**choices)
    source, target = [5, 7, 3, 0], [19, 4, 8, 2, 6]
    stages = walk(model, source, target)
    with torch.inference_mode(), record() as recorder:
        memory = model.encode(torch.tensor([source]), torch.tensor([4]))
        logits_TV = model.decode(memory, torch.tensor([target]))[0]
    found = {(stage.place, stage.key): stage for stage in stages}
    for place, calls in recorder.attention.items():
        weights_TS = calls[0][0, 0][:, :FIRST].float()
        assert torch.allclose(found[place, "weights"].numbers_TX, weights_TS, atol=1e-6)
        assert found[place, "weights"].shape == tuple(calls[0].shape)
    last = "residual" if choices.get("norm") == "pre" else "norm"
    for place in ("encoder.1", "decoder.0", "decoder.1"):
        leaves_TD = recorder.residual[place][0][0][:, :FIRST].float()
        assert torch.allclose(found[f"{place}.feed_forward", last].numbers_TX, leaves_TD, atol=1e-6)
    assert torch.allclose(found["output", "logits"].numbers_TX, logits_TV[:, :FIRST].float(), atol=1e-5)
    best_TX = logits_TV.softmax(-1).topk(FIRST).values
    assert torch.allclose(found["output", "softmax"].numbers_TX, best_TX.float(), atol=1e-6)


def test_every_stage_has_a_name_in_every_language() -> None:
    stages = {stage.key for choices in CHOICES for stage in walk(small_model(**choices), [5, 0], [19])}
    for language in texts().values():
        for key in stages:
            assert language[f"stage_{key}"]
            assert language[f"about_{key}"]


def test_shapes_and_axes_agree() -> None:
    for stage in walk(small_model(), [5, 7, 0], [19, 4]):
        assert len(stage.axes.split()) == len(stage.shape)
        assert len(stage.numbers_TX) == {"source": 3, "target": 2}[stage.side]
