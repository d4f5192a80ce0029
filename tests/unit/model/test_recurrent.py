"""LSTMs with the Transformer's interface: padding, steps, beams, gradients, what they can attend to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer import settings
from glassformer.config import ModelConfig
from glassformer.errors import ConfigError
from glassformer.model.build import build_model, build_transformer
from glassformer.model.record import record
from glassformer.model.recurrent import Recurrent, summary
from glassformer.model.state import Memory
from glassformer.recipe import Recipe
from glassformer.search.beam import beam
from glassformer.search.greedy import greedy
from tests.unit.model.models import sentences, vocabulary

KINDS = ("none", "dot", "additive", "bilinear")
pytestmark = pytest.mark.filterwarnings("error")


def small(kind: str = "dot", **choices: Any) -> Recurrent:
    """A float64 model in evaluation, every parameter random."""
    torch.manual_seed(0)
    shape = {"encoder_layers": 2, "decoder_layers": 2, "width": 16, "heads": 3, "architecture": "recurrent"}
    mapping = {**shape, "recurrent_attention": kind, **choices}
    model = build_model(settings.from_mapping(ModelConfig, mapping), vocabulary()).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    assert isinstance(model, Recurrent)
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind: str) -> None:
    model = small(kind)
    source_BS, lengths_B, target_BT = sentences()
    together_BTV = model.decode(model.encode(source_BS, lengths_B), target_BT)
    more_BS = torch.cat(
        [source_BS, torch.full((4, 3), 5)], 1
    )  # what stands in the padding is nobody's business
    torch.testing.assert_close(model.decode(model.encode(more_BS, lengths_B), target_BT), together_BTV)
    for row, length in enumerate(lengths_B.tolist()):
        alone = model.encode(source_BS[row : row + 1, :length], lengths_B[row : row + 1])
        torch.testing.assert_close(
            model.decode(alone, target_BT[row : row + 1]), together_BTV[row : row + 1], rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("kind", KINDS)
def test_steps_say_what_whole_sentences_say(kind: str) -> None:
    model = small(kind, output_bias=True)
    source_BS, lengths_B, target_BT = sentences()
    memory = model.encode(source_BS, lengths_B)
    whole_BTV = model.decode(memory, target_BT).log_softmax(-1)
    state = model.start(memory, 1)
    for place in range(target_BT.shape[1]):
        log_probs_BNV, state = model.step(target_BT[:, place, None], state)
        torch.testing.assert_close(log_probs_BNV[:, 0], whole_BTV[:, place], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "additive"])
def test_beams_are_reordered_and_sentences_leave(kind: str) -> None:
    """Each hypothesis goes on as if it had been alone from the start."""
    model = small(kind)
    source_BS, lengths_B, _ = sentences()
    memory = model.encode(source_BS, lengths_B)
    state = model.start(memory, 3)
    start = model.vocabulary.start
    said_BNT = torch.full((4, 3, 1), start)
    _, state = model.step(said_BNT[..., -1], state)
    parents_BN = torch.tensor([[2, 0, 1], [1, 1, 0], [0, 2, 2], [1, 0, 2]])
    new_BN = torch.tensor([[3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14]])
    said_BNT = torch.cat([said_BNT, new_BN[..., None]], -1)
    _, state = model.step(new_BN, state)
    state.reorder(parents_BN)
    said_BNT = said_BNT.gather(1, parents_BN[..., None].expand_as(said_BNT))
    rows = torch.tensor([3, 1])
    state.keep(rows)
    said_BNT = torch.cat([said_BNT[rows], torch.full((2, 3, 1), 7)], -1)
    log_probs_BNV, _ = model.step(said_BNT[..., -1], state)
    for at, row in enumerate(rows.tolist()):
        for n in range(3):
            alone = model.encode(source_BS[row : row + 1, : lengths_B[row]], lengths_B[row : row + 1])
            expected_V = model.decode(alone, said_BNT[at, n][None])[0, -1].log_softmax(-1)
            torch.testing.assert_close(log_probs_BNV[at, n], expected_V, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_searched_like_the_transformer(kind: str) -> None:
    model = small(kind)
    source_BS, lengths_B, _ = sentences()
    memory = model.encode(source_BS, lengths_B)
    shared: dict[str, Any] = {
        "batch": 4,
        "start": model.vocabulary.start,
        "eos": model.vocabulary.eos,
        "max_lengths": [9] * 4,
    }
    with torch.inference_mode():
        one = greedy(model.step, model.start(memory, 1), **shared)
        beam_of_one = beam(model.step, model.start(memory, 1), beams=1, n_best=1, **shared)
        four = beam(model.step, model.start(memory, 4), beams=4, n_best=4, stop="exact", **shared)
    assert [row[0].tokens for row in one] == [row[0].tokens for row in beam_of_one]
    for row, best in enumerate(four):
        target_BT = torch.tensor([[model.vocabulary.start, *best[0].tokens]])
        log_probs_TV = model.decode(Memory(memory.states_BSD[row, None], lengths_B[row, None]), target_BT)[0]
        said = [*best[0].tokens, model.vocabulary.eos][: len(best[0].token_log_probs)]
        expected = log_probs_TV.log_softmax(-1)[range(len(said)), said].sum()
        assert best[0].log_prob == pytest.approx(expected.item())
        assert len({(*one.tokens, one.finished) for one in best}) == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", ["all", "output", "none"])
def test_every_weight_gets_a_gradient(kind: str, tied: str) -> None:
    model = small(kind, tied=tied, output_bias=True)
    source_BS, lengths_B, target_BT = sentences()
    logits_BTV = model.decode(model.encode(source_BS, lengths_B), target_BT)
    logits_BTV[..., :-1].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_without_attention_the_summary_is_all_there_is() -> None:
    """The bottleneck: states between the two ends may be anything. With attention they matter."""
    source_BS, lengths_B, target_BT = torch.arange(2, 8)[None], torch.tensor([6]), torch.tensor([[19, 3, 4]])
    for kind in ("none", "dot"):
        model = small(kind)
        memory = model.encode(source_BS, lengths_B)
        states_BSD = memory.states_BSD.clone()
        states_BSD[:, 1:-1] = torch.randn_like(states_BSD[:, 1:-1])
        other = Memory(states_BSD, lengths_B)
        assert torch.equal(summary(memory), summary(other))
        same = torch.equal(model.decode(memory, target_BT), model.decode(other, target_BT))
        assert same == (kind == "none")


def test_the_summary_has_read_everything() -> None:
    model = small("none")
    source_BS, lengths_B, _ = sentences()
    before_BD = summary(model.encode(source_BS, lengths_B))
    for place in range(7):
        changed_BS = source_BS.clone()
        changed_BS[0, place] = (changed_BS[0, place] - 1) % 17 + 2
        after_BD = summary(model.encode(changed_BS, lengths_B))
        assert not torch.equal(before_BD[0], after_BD[0])
        assert torch.equal(before_BD[1:], after_BD[1:])


def test_keys_are_values_and_a_recorder_sees_the_weights() -> None:
    model = small("bilinear")
    source_BS, lengths_B, target_BT = sentences()
    memory = model.encode(source_BS, lengths_B)
    with record() as recorder:
        model.states(memory, target_BT)
    [weights_B1TS] = recorder.attention["decoder.1.cross"]
    assert weights_B1TS.shape == (4, 1, 6, 7)
    torch.testing.assert_close(weights_B1TS.sum(-1), torch.ones(4, 1, 6, dtype=torch.double))
    hidden: list[Tensor] = []
    model.decoder.context.register_forward_hook(lambda _, __, out: hidden.append(out))
    model.states(memory, target_BT)
    torch.testing.assert_close(hidden[0], weights_B1TS[:, 0] @ memory.states_BSD)
    assert not (weights_B1TS[1, 0, :, 3:]).any()  # nothing is spent on padding


def test_dropout_follows_the_mode() -> None:
    model = small("dot", dropout=0.5)
    source_BS, lengths_B, target_BT = sentences()

    def run() -> Tensor:
        return model.states(model.encode(source_BS, lengths_B), target_BT)

    assert torch.equal(run(), run())
    model.train()
    assert not torch.equal(run(), run())


def test_what_can_not_be_built_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"width \(15\) must be even"):
        small("dot", width=15)
    with pytest.raises(ConfigError, match="recurrent_attention = 'cosine'"):
        small("cosine")
    with pytest.raises(ConfigError, match="a Transformer was asked for"):
        build_transformer(ModelConfig(width=16, architecture="recurrent"), vocabulary())
    with pytest.raises(ConfigError, match="can't do task = 'language_model'"):
        settings.from_mapping(Recipe, {"task": "language_model", "model": {"architecture": "recurrent"}})


def test_one_layer_makes_no_warning() -> None:
    assert small("dot", encoder_layers=1, decoder_layers=1, dropout=0.3).decoder.layers == 1
