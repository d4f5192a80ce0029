"""Four uses of one set of weights: nobody sees what it has to guess, by gradient and by perturbation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import RequestError
from glassformer.model.build import build_reader
from glassformer.model.families import Reader
from glassformer.model.masks import (
    hidden_ranks,
    left_to_right_ranks,
    may_attend_ranks,
    permuted_ranks,
    prefix_ranks,
    read_in_order,
)

VOCABULARY = VocabularyConfig(20, 20, shared=True, source_pad=19, target_pad=19, start=19)
T = 6
RANKS = {
    "hidden": hidden_ranks(torch.tensor([[False, True, False, False, True, False]])),
    "left to right": left_to_right_ranks(1, T),
    "prefix": prefix_ranks([3], T),
    "permuted": permuted_ranks(1, T, torch.Generator().manual_seed(4)),
}


def make(positions: str = "sinusoidal", norm: str = "pre") -> Reader:
    torch.manual_seed(0)
    shape = ModelConfig(
        encoder_layers=3,
        width=16,
        feed_forward=24,
        heads=2,
        norm=norm,  # type: ignore[arg-type]
        dropout=0.0,
        attention_dropout=0.0,
        positions=positions,  # type: ignore[arg-type]
    )
    return build_reader("masked_language_model", shape, VOCABULARY).double().eval()


IDS_BT = torch.tensor([[3, 4, 5, 6, 7, 8]])


def test_ranks_of_each_use() -> None:
    assert RANKS["left to right"][0].tolist() == [0, 1, 2, 3, 4, 5]
    assert RANKS["prefix"][0].tolist() == [0, 0, 0, 1, 2, 3]
    assert sorted(RANKS["permuted"][0].tolist()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("use", RANKS)
def test_no_gradient_reaches_a_guess_from_what_it_must_not_see(use: str, norm: str) -> None:
    model, ranks_T = make(norm=norm), RANKS[use][0]
    weight_VD = model.embedding.weight_VD  # each token of the text is another entry
    for guess in range(T):
        guesses_BTD = read_in_order(model, IDS_BT, RANKS[use])[1]
        (gradient_VD,) = torch.autograd.grad(guesses_BTD[0, guess].square().sum(), weight_VD)
        seen = gradient_VD[IDS_BT[0]].abs().sum(-1) > 0
        assert seen.tolist() == (ranks_T < ranks_T[guess]).tolist()


@pytest.mark.parametrize("use", RANKS)
def test_another_token_changes_only_the_guesses_that_come_after_it(use: str) -> None:
    model, ranks_T = make(), RANKS[use][0]
    with torch.no_grad():
        before_BTD = read_in_order(model, IDS_BT, RANKS[use])[1]
        for place in range(T):
            other_BT = IDS_BT.clone()
            other_BT[0, place] = 12
            after_BTD = read_in_order(model, other_BT, RANKS[use])[1]
            changed = (after_BTD - before_BTD).abs().sum(-1)[0] > 0
            assert changed.tolist() == (ranks_T > ranks_T[place]).tolist()


def test_all_ranks_alike_is_the_encoder_and_rising_ranks_the_language_model() -> None:
    model = make()
    lengths_B = torch.tensor([T])
    with torch.no_grad():
        encoder_BTD = read_in_order(model, IDS_BT, torch.zeros_like(IDS_BT))[0]
        language_BTD = read_in_order(model, IDS_BT, left_to_right_ranks(1, T))[0]
        torch.testing.assert_close(encoder_BTD, model.states(IDS_BT, lengths_B))
        torch.testing.assert_close(language_BTD, model.read(IDS_BT, causal=True))


def test_a_guess_is_what_a_masked_language_model_says_about_a_hidden_token() -> None:
    """In the first layer: further up, shown tokens differ, for here they do not look at the blank."""
    one_layer = (
        build_reader(
            "masked_language_model",
            ModelConfig(
                encoder_layers=1, width=16, feed_forward=24, heads=2, dropout=0.0, attention_dropout=0.0
            ),
            VOCABULARY,
        )
        .double()
        .eval()
    )
    hidden_BT = torch.tensor([[False, False, True, False, False, False]])
    blanked_BT = IDS_BT.masked_fill(hidden_BT, 19)
    with torch.no_grad():
        guess_D = read_in_order(one_layer, IDS_BT, hidden_ranks(hidden_BT))[1][0, 2]
        said_D = one_layer.states(blanked_BT, torch.tensor([T]))[0, 2]
    torch.testing.assert_close(guess_D, said_D)


def test_padding_is_seen_by_nobody() -> None:
    model = make()
    lengths_B = torch.tensor([4])

    def guesses(ids_BT: Tensor) -> Tensor:
        return read_in_order(model, ids_BT, left_to_right_ranks(1, T), lengths_B)[1][:, :4]

    other_BT = IDS_BT.clone()
    other_BT[0, 4:] = 19
    with torch.no_grad():
        assert torch.equal(guesses(IDS_BT), guesses(other_BT))
    assert not may_attend_ranks(torch.zeros(1, T).long(), lengths_B)[0, 0, :T, 4:T].any()


def test_positions_inside_attention_are_refused() -> None:
    with pytest.raises(RequestError, match="needs positions that are added to embeddings"):
        read_in_order(make("rotary"), IDS_BT, left_to_right_ranks(1, T))
