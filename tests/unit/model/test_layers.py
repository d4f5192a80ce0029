from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.model.layers import (
    Embedding,
    FeedForward,
    GatedFeedForward,
    Output,
    PostNorm,
    PreNorm,
    embedding_weight,
)
from glassformer.model.positions import Positions, Sinusoidal, sinusoids


def test_feed_forward_is_equation_two() -> None:
    layer, x = FeedForward(4, 8), torch.randn(2, 3, 4)
    w1, b1, w2, b2 = layer.inner.weight, layer.inner.bias, layer.outer.weight, layer.outer.bias
    torch.testing.assert_close(layer(x), (x @ w1.T + b1).clamp(min=0) @ w2.T + b2)


def test_gated_feed_forward_is_its_formula() -> None:
    layer, x = GatedFeedForward(4, 8), torch.randn(2, 3, 4)
    gate, inner = layer.gate_inner(x).split(8, dim=-1)
    torch.testing.assert_close(layer(x), layer.outer(gate * gate.sigmoid() * inner))


def test_where_the_norm_stands() -> None:
    norm, x = nn.LayerNorm(4), torch.randn(2, 3, 4)
    torch.testing.assert_close(PostNorm(norm, 0.0)(x, torch.sin), norm(x + x.sin()))
    torch.testing.assert_close(PreNorm(norm, 0.0)(x, torch.sin), x + norm(x).sin())


def test_embeddings_are_scaled_and_know_their_place() -> None:
    weight = embedding_weight(10, 16, pad=9)
    layer = Embedding(weight, 9, Sinusoidal(16), True, 0.0, "encoder.embedding")
    ids = torch.tensor([[3, 9]])
    expected = torch.stack([weight[3] * 4, torch.zeros(16)]) + sinusoids(2, 16).float()
    torch.testing.assert_close(layer(ids, range(2))[0], expected)


def test_the_padding_row_is_zero_and_stays_zero() -> None:
    """Also when the matrix is tied to the output, whose softmax would send the row a gradient."""
    torch.manual_seed(0)
    weight = embedding_weight(10, 16, pad=9)
    embedding = Embedding(weight, 9, Positions(), True, 0.0, "decoder.embedding")
    output = Output(weight, bias=False, pad=9)
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    for _ in range(3):
        logits = output(embedding(torch.tensor([[9, 3, 4]]), range(3)))
        F.cross_entropy(logits[0], torch.tensor([3, 4, 0])).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert not weight[9].any()
    assert weight[:9].any(dim=1).all()


def test_padding_is_never_predicted() -> None:
    logits = Output(embedding_weight(10, 16, pad=9), bias=True, pad=9)(torch.randn(2, 3, 16))
    assert bool((logits[..., 9] == float("-inf")).all())
    assert bool(logits[..., :9].isfinite().all())
