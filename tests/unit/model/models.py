"""Small models for tests."""

from __future__ import annotations

from typing import Any

import torch

from glassformer import settings
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.model.build import build_model
from glassformer.model.transformer import Transformer

SMALL = {"encoder_layers": 2, "decoder_layers": 2, "width": 16, "feed_forward": 32, "heads": 4}


def vocabulary(size: int = 20) -> VocabularyConfig:
    last = size - 1
    return VocabularyConfig(size, size, True, 0, 1, last, last, last)


def small_model(seed: int = 0, size: int = 20, **choices: Any) -> Transformer:
    """A float64 model in evaluation, every parameter random (zeros and ones would hide a lost one)."""
    torch.manual_seed(seed)
    model = build_model(settings.from_mapping(ModelConfig, {**SMALL, **choices}), vocabulary(size)).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            assert parameter.isfinite().all(), name
    return model.eval()


def sentences(seed: int = 0, size: int = 20) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources of different lengths, padded on the right, and targets that begin with the start symbol."""
    generator = torch.Generator().manual_seed(seed)
    lengths_B = torch.tensor([7, 3, 5, 1])
    source_BS = torch.randint(2, size - 1, (4, 7), generator=generator)
    for row, length in enumerate(lengths_B.tolist()):
        source_BS[row, length:] = size - 1
    target_BT = torch.randint(2, size - 1, (4, 6), generator=generator)
    target_BT[:, 0] = size - 1
    return source_BS, lengths_B, target_BT
