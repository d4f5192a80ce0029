"""Models that do not translate, as small as can be and untrained, for tests of what is around them."""

from __future__ import annotations

import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig
from glassformer.model.build import build_reader
from glassformer.model.families import Reader
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer


def make(task: str) -> Bundle[Reader]:
    source = train_tokenizer("symbols", ["the old dog barks at a red cat"])
    labels = train_tokenizer("symbols", ["GOOD BAD"])
    pair = (
        TokenizerPair(source, source, True)
        if task in ("language_model", "masked_language_model")
        else TokenizerPair(source, labels, False)
    )
    shape = ModelConfig(
        encoder_layers=1, decoder_layers=1, width=16, feed_forward=24, heads=2, dropout=0.0, max_length=32
    )
    torch.manual_seed(0)
    model = build_reader(task, shape, pair.vocabulary()).eval()
    return Bundle(BundleConfig(task=task, vocabulary=pair.vocabulary(), model=shape), pair, model)  # type: ignore[arg-type]
