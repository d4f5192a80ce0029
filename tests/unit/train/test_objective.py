"""The objective against the plain way: all logits, PyTorch's loss, padding left out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.data.batch import Batch, collate
from glassformer.model.build import build_model
from glassformer.model.transformer import Transformer
from glassformer.train.objective import TranslationObjective

VOCABULARY = VocabularyConfig(source_size=20, target_size=20, source_pad=19, target_pad=19, start=19)


def make_model(dropout: float = 0.0, **changes: Any) -> Transformer:
    torch.manual_seed(1)
    network = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "feed_forward": 24, "heads": 2}
    config = ModelConfig(**{**network, "dropout": dropout, "attention_dropout": dropout, **changes})
    return build_model(config, VOCABULARY)


def make_batch() -> Batch:
    return collate([([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12]), ([2, 3, 4, 5, 6], [])], VOCABULARY)


def reference(model: Transformer, batch: Batch, smoothing: float) -> torch.Tensor:
    """Logits of everything, the padding's column cut off, rows picked one by one."""
    logits = model.decode(model.encode(batch.source_BS, batch.source_lengths_B), batch.target_in_BT)
    total = torch.zeros(())
    for row, length in enumerate(batch.target_lengths_B.tolist()):
        total = total + F.cross_entropy(
            logits[row, :length, :19],
            batch.target_out_BT[row, :length],
            label_smoothing=smoothing,
            reduction="sum",
        )
    return total


@pytest.mark.parametrize("output_bias", [False, True])
def test_equals_the_plain_way_with_gradients(output_bias: bool) -> None:
    model, batch = make_model(output_bias=output_bias), make_batch()
    losses = TranslationObjective(model, smoothing=0.1)(batch)
    assert losses.tokens == batch.tokens == 3 + 5 + 1
    torch.testing.assert_close(losses.loss_sum, reference(model, batch, 0.1))
    torch.testing.assert_close(losses.nll_sum, reference(model, batch, 0.0).detach())
    parameters = list(model.parameters())
    ours = torch.autograd.grad(losses.loss_sum, parameters)
    theirs = torch.autograd.grad(reference(model, batch, 0.1), parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_pieces_of_a_batch_add_up() -> None:
    model, batch = make_model(), make_batch()
    objective = TranslationObjective(model, smoothing=0.1)
    whole = objective(batch)
    pieces = [objective(piece) for piece in batch.split(3)]
    torch.testing.assert_close(sum(piece.loss_sum for piece in pieces), whole.loss_sum)
    assert sum(piece.tokens for piece in pieces) == whole.tokens


def test_the_row_of_the_padding_gets_no_gradient() -> None:
    model, batch = make_model(dropout=0.1), make_batch()
    TranslationObjective(model, smoothing=0.1)(batch).loss_sum.backward()
    assert model.output_weight.grad is not None
    assert not model.output_weight.grad[19].any()


def test_r_drop_without_dropout_is_the_plain_loss() -> None:
    model, batch = make_model(), make_batch()
    plain, doubled = (
        TranslationObjective(model, 0.1)(batch),
        TranslationObjective(model, 0.1, r_drop=5.0)(batch),
    )
    torch.testing.assert_close(doubled.loss_sum, plain.loss_sum)
    torch.testing.assert_close(doubled.nll_sum, plain.nll_sum)


def test_r_drop_adds_the_divergence_of_two_passes() -> None:
    model, batch = make_model(dropout=0.3), make_batch()
    torch.manual_seed(7)
    loss = TranslationObjective(model, 0.1, r_drop=5.0)(batch).loss_sum
    torch.manual_seed(7)
    both = TranslationObjective(model, 0.1)(batch.rows([*range(len(batch))] * 2)).loss_sum
    assert loss > 0.5 * both
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    torch.testing.assert_close(
        TranslationObjective(model, 0.1, 5.0).eval()(batch).loss_sum,
        TranslationObjective(model, 0.1).eval()(batch).loss_sum,
    )
