"""Modules that are called in odd ways, and the five lines that help."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.check import Attention, Layer, Loss, Model, check
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.model.build import build_model


class Odd(nn.Module):
    """Wants one tuple, and its mask as a dictionary."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, everything, options):
        q, k, v = (
            f(x).unflatten(-1, (4, -1)).transpose(1, 2)
            for f, x in zip((self.q, self.k, self.v), everything, strict=True)
        )
        scores = self.scale * q @ k.mT / math.sqrt(8)
        if options.get("mask") is not None:
            scores = scores.masked_fill(~options["mask"][:, None], -1e9)
        return {"answer": self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))}


def adapted(scale: float) -> Attention:
    module = Odd(scale)
    return Attention(lambda q, k, v, may_attend: module((q, k, v), {"mask": may_attend}), module, 32, 4)


def test_an_adapter_makes_odd_attention_checkable() -> None:
    assert check(Odd).mistakes == ["cannot_call"]
    assert check(adapted(1.0)).ok
    assert check(adapted(math.sqrt(8))).mistakes == ["scale"]
    assert check(lambda: adapted(1.0)).ok


def test_the_module_behind_an_adapter_is_left_as_it_was() -> None:
    adapter = adapted(1.0)
    module = adapter.module
    module.register_buffer("table", torch.ones(3))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    check(adapter)
    assert module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert {tensor.dtype for tensor in module.state_dict().values()} == {torch.float32}


def test_an_adapter_for_layers() -> None:
    encoder = nn.TransformerEncoderLayer(32, 4, batch_first=True)

    def encode(x, memory, own, source):
        masked = encoder(x, None if own is None else ~own.repeat_interleave(4, 0))
        return torch.nan_to_num(masked)  # torch's fast path gives NaN where everything is masked

    assert check(Layer(encode, encoder, 32)).mistakes == []
    decoder = nn.TransformerDecoderLayer(32, 4, batch_first=True)

    def decode(x, memory, own, source):
        masks = [None if mask is None else ~mask.repeat_interleave(4, 0) for mask in (own, source)]
        return decoder(x, memory, *masks)

    assert check(Layer(decode, decoder, 32, decoder=True)).mistakes == []

    def forgets_the_future(x, memory, own, source):
        return decode(x, memory, None, source)

    assert check(Layer(forgets_the_future, decoder, 32, decoder=True)).mistakes == ["causal_leak"]


def test_our_own_model_passes() -> None:
    shape = ModelConfig(encoder_layers=2, decoder_layers=2, width=24, feed_forward=40, heads=4, max_length=64)
    vocabulary = VocabularyConfig(source_size=17, target_size=17, source_pad=16, target_pad=16, start=16)
    for norm in ("post", "pre"):
        model = build_model(ModelConfig(**{**vars(shape), "norm": norm}), vocabulary)

        def call(source_BS, target_BT, model=model):
            return model.decode(model.encode(source_BS, (source_BS != 16).sum(1)), target_BT)

        report = check(Model(call, model, vocabulary=17, pad=16))
        assert report.ok, report.text()
        assert {v.code for v in report.verdicts} >= {
            "causal_leak",
            "padding_leak",
            "missing_residual",
            "missing_norm",
        }


def test_a_padding_that_is_not_masked_is_found_through_an_adapter() -> None:
    shape = ModelConfig(encoder_layers=1, decoder_layers=1, width=24, feed_forward=40, heads=4, max_length=64)
    vocabulary = VocabularyConfig(source_size=17, target_size=17, source_pad=16, target_pad=16, start=16)
    model = build_model(shape, vocabulary)

    def call(source_BS, target_BT):
        lengths_B = torch.full((len(source_BS),), source_BS.shape[1])
        return model.decode(model.encode(source_BS, lengths_B), target_BT)

    assert check(Model(call, model, vocabulary=17, pad=16)).mistakes == ["padding_leak"]


def test_an_adapter_for_losses() -> None:
    def right(model, source, target):
        logits = model(source, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)

    def wrong(model, source, target):
        return F.cross_entropy(model(source, target).flatten(0, 1), target.flatten(), ignore_index=0)

    assert check(Loss(right)).ok
    assert check(Loss(wrong)).mistakes == ["target_not_shifted"]
