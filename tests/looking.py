"""Small translators to look at: random weights, but everything in its place."""

from __future__ import annotations

from typing import Any

import torch

from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig, SearchConfig, TokenizerConfig
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.translate import Translator

SHAPE = {"encoder_layers": 2, "decoder_layers": 2, "width": 32, "feed_forward": 48, "heads": 4}
LETTERS = "abcdefghij klmnopqrstuvwxyz.,!?<>/&=\"'我们喜欢看书学习的是不。"


def translator(seed: int = 3, search: SearchConfig | None = None, **choices: Any) -> Translator:
    """A character model whose weights are large enough for it to have opinions."""
    torch.manual_seed(seed)
    tokenizer = train_tokenizer("characters", [LETTERS])
    tokenizers = TokenizerPair(tokenizer, tokenizer, shared=True)
    config = settings.from_mapping(ModelConfig, {**SHAPE, "max_length": 200, **choices})
    model = build_model(config, tokenizers.vocabulary())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "attention" in name or "cross" in name:
                parameter.mul_(2.5)
    bundle = Bundle(
        BundleConfig(
            source_language="zh",
            target_language="en",
            vocabulary=tokenizers.vocabulary(),
            model=config,
            tokenizer=TokenizerConfig(kind="characters"),
            search=search or SearchConfig(max_length=14),
        ),
        tokenizers,
        model.eval(),
    )
    return Translator(bundle, engine="torch")
