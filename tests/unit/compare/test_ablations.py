"""Each ablation takes out its part and nothing else, and what is left still decodes step by step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer import settings
from glassformer.compare.ablations import CHANGES, Unscaled
from glassformer.compare.contestants import ABLATIONS, OTHERS, Contestant
from glassformer.config import ModelConfig
from glassformer.model.build import build_transformer, count_parameters
from glassformer.model.scores import ScaledDot
from glassformer.model.transformer import Transformer
from tests.unit.model.models import SMALL, sentences, vocabulary


def build(contestant: Contestant, **choices: object) -> Transformer:
    torch.manual_seed(0)
    mapping = {**SMALL, "norm": "pre", "max_length": 40, **choices, **contestant.model}
    model = build_transformer(settings.from_mapping(ModelConfig, mapping), vocabulary()).double()
    if contestant.change:
        CHANGES[contestant.change](model)
    return model.eval()


def named(name: str) -> Contestant:
    return next(one for one in (*ABLATIONS, *OTHERS) if one.name == name)


@pytest.mark.parametrize("contestant", [*ABLATIONS, *OTHERS], ids=lambda one: one.name)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_steps_still_say_what_whole_sentences_say(contestant: Contestant, norm: str) -> None:
    model = build(contestant, norm=norm)
    source_BS, lengths_B, target_BT = sentences()
    memory = model.encode(source_BS, lengths_B)
    whole_BTV = model.decode(memory, target_BT).log_softmax(-1)
    assert whole_BTV[..., :-1].isfinite().all()
    state = model.start(memory, 1)
    for place in range(target_BT.shape[1]):
        log_probs_BNV, state = model.step(target_BT[:, place, None], state)
        torch.testing.assert_close(log_probs_BNV[:, 0], whole_BTV[:, place], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("contestant", ABLATIONS[1:], ids=lambda one: one.name)
def test_it_makes_a_difference(contestant: Contestant) -> None:
    source_BS, lengths_B, target_BT = sentences()
    whole, changed = build(ABLATIONS[0]), build(contestant)
    ours, theirs = (model.decode(model.encode(source_BS, lengths_B), target_BT) for model in (whole, changed))
    assert not torch.allclose(ours, theirs)


def test_raw_attention_compares_the_tokens_themselves() -> None:
    model = build(named("raw"))
    attention = model.encoder.layers[0].attention
    x_BTD = torch.randn(1, 5, 16, dtype=torch.double)
    q_BHTK, k_BHTK, v_BHTK = attention._project(x_BTD, range(5))
    assert torch.equal(q_BHTK, k_BHTK)
    assert torch.equal(q_BHTK, v_BHTK)
    assert torch.equal(q_BHTK.transpose(1, 2).flatten(2), x_BTD)
    projections = 6 * 3 * (16 * 16 + 16)  # two layers of the encoder, and twice two of the decoder
    assert count_parameters(build(ABLATIONS[0])) - count_parameters(model) == projections


def test_without_feed_forward_it_is_gone() -> None:
    whole, model = build(ABLATIONS[0]), build(named("no-feed-forward"))
    feed_forward = 16 * 32 + 32 + 32 * 16 + 16
    assert count_parameters(whole) - count_parameters(model) == 4 * (feed_forward + 2 * 16)


def test_without_norm_there_is_none() -> None:
    assert not any(isinstance(part, nn.LayerNorm) for part in build(named("no-norm")).modules())


def test_without_residual_what_went_in_is_not_added() -> None:
    residual = build(named("no-residual")).encoder.layers[0].attention_residual
    x_BTD = torch.randn(1, 3, 16, dtype=torch.double)
    assert not residual(x_BTD, torch.zeros_like).any()


def test_without_scaling_scores_are_plain_products() -> None:
    q, k = torch.randn(2, 1, 4, 3, 8)
    torch.testing.assert_close(Unscaled(4, 8)(q, k), ScaledDot(8)(q, k) * 8**0.5)
    attention = build(named("no-scaling")).encoder.layers[0].attention
    assert isinstance(attention.score, Unscaled)
