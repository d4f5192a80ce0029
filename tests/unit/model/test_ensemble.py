"""Several models together against the mean of what each says alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from glassformer.model.ensemble import Ensemble
from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.state import Memory
from glassformer.search.beam import beam
from tests.unit.model.models import sentences, small_model


def members() -> list[Seq2Seq]:
    """Three that are not alike: other weights, another depth, other positions."""
    return [
        small_model(1),
        small_model(2, decoder_layers=1, norm="pre"),
        small_model(3, positions="rotary", width=32),
    ]


def test_what_follows_is_the_mean_of_what_each_expects() -> None:
    models, (source_BS, lengths_B, target_BT) = members(), sentences()
    together = Ensemble(models)
    with torch.inference_mode():
        alone = [model.decode(model.encode(source_BS, lengths_B), target_BT) for model in models]
        found_BTV = together.decode(together.encode(source_BS, lengths_B), target_BT)
    expected_BTV = sum(logits.softmax(-1) for logits in alone) / 3
    torch.testing.assert_close(found_BTV.exp(), expected_BTV)


def test_steps_with_reordered_and_dropped_sentences_say_what_the_whole_says() -> None:
    models, (source_BS, lengths_B, target_BT) = members(), sentences()
    together = Ensemble(models)
    with torch.inference_mode():
        memory = together.encode(source_BS, lengths_B)
        whole_BTV = together.decode(memory, target_BT)
        state = together.start(memory, beams=2)
        rows = torch.arange(4)
        for place in range(target_BT.shape[1]):
            last_BN = target_BT[rows, place, None].expand(-1, 2)
            log_probs_BNV, state = together.step(last_BN, state)
            for n in range(2):
                torch.testing.assert_close(log_probs_BNV[:, n], whole_BTV[rows, place])
            state.reorder(torch.tensor([[1, 0]]).expand(len(rows), -1))
            if place == 2:
                state.keep(torch.tensor([3, 1]))
                rows = rows[[3, 1]]


def test_a_model_and_itself_are_the_model() -> None:
    model, (source_BS, lengths_B, target_BT) = small_model(4), sentences()
    together = Ensemble([model, model])
    with torch.inference_mode():
        alone = model.decode(model.encode(source_BS, lengths_B), target_BT).log_softmax(-1)
        torch.testing.assert_close(together.decode(together.encode(source_BS, lengths_B), target_BT), alone)


def test_a_wide_beam_finds_the_best_of_all_sentences() -> None:
    models = [small_model(seed, size=5) for seed in (5, 6)]
    together, longest = Ensemble(models), 3
    source_BS, lengths_B = torch.tensor([[2, 3, 0]]), torch.tensor([3])

    def score(said: tuple[int, ...]) -> float:
        """Token by token, each model from the beginning."""
        total = 0.0
        for place, token in enumerate(said):
            target_BT = torch.tensor([[4, *said[:place]]])
            shares = [m.decode(m.encode(source_BS, lengths_B), target_BT)[0, -1].softmax(-1) for m in models]
            total += math.log(sum(float(share[token]) for share in shares) / len(models))
        return total

    with torch.inference_mode():
        every = [(*words, 0) for n in range(longest) for words in itertools.product((1, 2, 3), repeat=n)]
        every += list(itertools.product((1, 2, 3), repeat=longest))
        best = max(every, key=score)
        state = together.start(together.encode(source_BS, lengths_B), beams=100)
        [[found]] = beam(
            together.step,
            state,
            batch=1,
            beams=100,
            start=4,
            eos=0,
            max_lengths=[longest],
            length_penalty=0.0,
        )
        assert found.tokens == [token for token in best if token != 0]
        assert found.log_prob == pytest.approx(score(best))


def test_the_shortest_reach_counts() -> None:
    assert Ensemble([small_model(1, max_length=30), small_model(2, max_length=12)]).max_length == 12


def test_a_foreign_memory_is_refused() -> None:
    source_BS, lengths_B, target_BT = sentences()
    memory = small_model(1).encode(source_BS, lengths_B)
    assert isinstance(memory, Memory)
    with pytest.raises(TypeError, match="encoded itself"):
        Ensemble(members()).decode(memory, target_BT)
