from __future__ import annotations

import pytest
import torch

from glassformer import settings
from glassformer.config import PRESETS, ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.build import build_model, count_parameters
from tests.unit.model.models import SMALL, vocabulary


def build(preset: str, size: int, **choices: object) -> torch.nn.Module:
    config = settings.from_mapping(ModelConfig, {**PRESETS[preset], **choices})
    with torch.device("meta"):
        return build_model(config, vocabulary(size))


@pytest.mark.parametrize(
    ("preset", "bias", "expected"),
    [("base", True, 63_082_496), ("base", False, 63_045_632), ("big", True, 214_245_376)],
)
def test_presets_have_the_papers_size(preset: str, bias: bool, expected: int) -> None:
    """A shared vocabulary of 37,000; the paper rounds to 65 and 213 million."""
    assert count_parameters(build(preset, 37_000, attention_bias=bias)) == expected


def test_presets_have_the_layers_they_promise() -> None:
    for name, (layers, width, inner, heads) in {"tiny": (4, 128, 256, 4), "small": (3, 256, 1024, 4)}.items():
        assert tuple(PRESETS[name].values()) == (layers, layers, width, inner, heads)


def test_tying_shares_matrices() -> None:
    for tied, matrices in {"all": 1, "output": 2, "none": 3}.items():
        model = build_model(settings.from_mapping(ModelConfig, {**SMALL, "tied": tied}), vocabulary())
        weights = (model.source_embedding.weight_VD, model.target_embedding.weight_VD, model.output.weight_VD)
        assert len({id(weight) for weight in weights}) == matrices


def test_the_same_seed_gives_the_same_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        model = build_model(settings.from_mapping(ModelConfig, SMALL), vocabulary())
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_small_queries_take_the_place_of_the_root() -> None:
    torch.manual_seed(0)
    model = build_model(
        settings.from_mapping(ModelConfig, {**SMALL, "width": 64, "scale": "init"}), vocabulary()
    )
    query, key, _ = model.encoder.layers[0].attention.query_key_value.weight.split(64)
    assert query.std().item() == pytest.approx(key.std().item() / 4, rel=0.05)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"width": 10, "heads": 4}, r"width \(10\) must be divisible by heads \(4\); try heads = 5"),
        ({"heads": 4, "key_value_heads": 3}, r"heads \(4\) must be a multiple of key_value_heads \(3\)"),
        ({"width": 15, "heads": 3}, "must be even for sinusoidal positions"),
        ({"positions": "rotary", "score": "additive"}, "only in their dot product"),
        ({"positions": "rotary", "head_width": 5}, r"head_width \(5\) must be even"),
        ({"scale": "init", "score": "additive"}, "tanh bounds the scores"),
        ({"scale": "init", "query_key_norm": True}, "undone by query_key_norm"),
        ({"width": 0}, "width = 0 must be at least 1"),
        ({"dropout": 1.0}, "dropout = 1.0 must be from 0 up to"),
        ({"head_width": -1}, "head_width = -1 must not be negative"),
    ],
)
def test_senseless_combinations_are_refused_with_the_reason(choices: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        build_model(ModelConfig(**{**SMALL, **choices}), vocabulary())  # type: ignore[arg-type]


def test_one_matrix_for_two_vocabularies_is_refused() -> None:
    separate = VocabularyConfig(20, 30, False, 0, 1, 19, 29, 29)
    with pytest.raises(ConfigError, match=r"model.tied = 'all'.*set model.tied = 'output'"):
        build_model(ModelConfig(**SMALL), separate)  # type: ignore[arg-type]
    model = build_model(ModelConfig(**SMALL, tied="output"), separate)  # type: ignore[arg-type]
    assert model.output_weight.shape == (30, 16)


def test_all_problems_come_together() -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(ModelConfig(width=0, dropout=2.0), VocabularyConfig(2, 3))
    assert len(caught.value.problems) >= 4
