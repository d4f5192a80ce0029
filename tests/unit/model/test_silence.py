"""Silenced heads say nothing, in this thread only, and cost nothing outside the block."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from glassformer.model.attention import Heads
from glassformer.model.record import record
from glassformer.model.silence import loudness, silence, silence_each
from glassformer.model.transformer import Transformer
from tests.unit.model.models import sentences, small_model

HEAD = ("decoder.1.cross", 2)


def decode(model: Transformer) -> Tensor:
    source_BS, lengths_B, target_BT = sentences()
    return model.decode(model.encode(source_BS, lengths_B), target_BT)


def without_columns(model: Transformer, place: str, head: int) -> None:
    """The same by hand: the head's columns of W^O are zero."""
    [attention] = [m for m in model.modules() if isinstance(m, Heads) and m.place == place]
    width = attention.output.in_features // attention.heads
    with torch.no_grad():
        attention.output.weight[:, head * width : (head + 1) * width] = 0


@pytest.mark.parametrize("place", ["encoder.0.self", "decoder.0.self", "decoder.1.cross"])
def test_a_silent_head_is_a_head_without_output_weights(place: str) -> None:
    model = small_model()
    with silence([(place, 1)]):
        silenced = decode(model)
    without_columns(model, place, 1)
    assert torch.allclose(silenced, decode(model))


def test_recorded_weights_are_the_same_and_so_is_the_path_taken() -> None:
    model = small_model()
    with silence([HEAD]):
        unwatched = decode(model)
        with record() as recorder:
            watched = decode(model)
    assert torch.allclose(unwatched, watched)
    assert recorder.attention["decoder.1.cross"][0].shape[1] == 4


def test_each_sentence_of_a_batch_may_do_without_another_head() -> None:
    model = small_model()
    heads = [[], [HEAD], [("encoder.0.self", 0)], [("decoder.0.self", 3), HEAD]]
    with silence_each(heads):
        together = decode(model)
    for row, off in enumerate(heads):
        with silence(off):
            assert torch.allclose(decode(model)[row], together[row])


def test_steps_honour_it_too() -> None:
    model = small_model()
    source_BS, lengths_B, target_BT = sentences()
    with silence([HEAD]):
        whole = decode(model).log_softmax(-1)
        state = model.start(model.encode(source_BS, lengths_B), beams=1)
        for place in range(target_BT.shape[1]):
            log_probs_BNV, state = model.step(target_BT[:, place : place + 1], state)
            assert torch.allclose(log_probs_BNV[:, 0], whole[:, place])


def test_other_threads_and_later_code_hear_every_head() -> None:
    model, like = small_model(), torch.zeros(1, dtype=torch.float64)
    whole = decode(model)
    heard: list[Tensor] = []
    with silence([HEAD]):
        assert loudness("decoder.1.cross", 4, like) is not None
        assert loudness("decoder.0.cross", 4, like) is None
        thread = threading.Thread(target=lambda: heard.append(decode(model)))
        thread.start()
        thread.join()
    assert torch.equal(heard[0], whole)
    assert torch.equal(decode(model), whole)
    assert loudness("decoder.1.cross", 4, like) is None
