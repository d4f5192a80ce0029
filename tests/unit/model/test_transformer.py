"""The whole model: what it promises, and each fast path against its slow twin."""

from __future__ import annotations

import threading

import pytest
import torch

from glassformer.model.record import record, watching
from tests.unit.model.models import sentences, small_model

CHOICES: list[dict[str, object]] = [
    {},
    {"norm": "pre", "norm_kind": "rms", "activation": "swiglu"},
    {"positions": "rotary", "key_value_heads": 2},
    {"positions": "alibi", "score": "bilinear"},
    {"positions": "learned", "score": "additive", "head_width": 3, "value_width": 5},
    {"positions": "none", "score": "projected", "query_key_norm": True, "tied": "none", "output_bias": True},
]


def real(log_probs: torch.Tensor) -> torch.Tensor:
    """Without the padding's column, whose -∞ would make differences NaN."""
    return log_probs[..., :-1]


@pytest.mark.parametrize("choices", CHOICES)
@torch.no_grad()
def test_steps_with_the_cache_equal_full_decoding(choices: dict[str, object]) -> None:
    model, (source, lengths, target) = small_model(**choices), sentences()
    memory = model.encode(source, lengths)
    full = model.decode(memory, target).log_softmax(-1)
    state = model.start(memory)
    for t in range(target.shape[1]):
        log_probs, state = model.step(target[:, t : t + 1], state)
        torch.testing.assert_close(real(log_probs[:, 0]), real(full[:, t]), atol=1e-10, rtol=0)


@pytest.mark.parametrize("choices", CHOICES)
@torch.no_grad()
def test_beams_follow_their_ancestors(choices: dict[str, object]) -> None:
    """Random reorderings and departures: each beam's next word is what its own history says."""
    model, (source, lengths, _) = small_model(**choices), sentences()
    generator = torch.Generator().manual_seed(1)
    memory, beams = model.encode(source, lengths), 3
    state = model.start(memory, beams)
    rows = torch.arange(4)
    history = torch.full((4, beams, 1), model.vocabulary.start)
    for step in range(24):  # longer than the first cache
        log_probs, state = model.step(history[:, :, -1], state)
        for b in range(len(rows)):
            alone = model.encode(source[rows[b : b + 1]], lengths[rows[b : b + 1]])
            for n in range(beams):
                expected = model.decode(alone, history[b, n][None])[0, -1].log_softmax(-1)
                torch.testing.assert_close(real(log_probs[b, n]), real(expected), atol=1e-9, rtol=0)
        parents = torch.randint(0, beams, (len(rows), beams), generator=generator)
        words = torch.randint(2, 19, (len(rows), beams, 1), generator=generator)
        state.reorder(parents)
        history = torch.cat([history.gather(1, parents[..., None].expand_as(history)), words], dim=2)
        if step in (4, 20):
            keep = torch.tensor([2, 0, 3]) if step == 4 else torch.tensor([1, 0])
            state.keep(keep)
            rows, history = rows[keep], history[keep]


@pytest.mark.parametrize("choices", CHOICES)
@torch.no_grad()
def test_a_batch_with_padding_equals_one_by_one(choices: dict[str, object]) -> None:
    model, (source, lengths, target) = small_model(**choices), sentences()
    together = model.decode(model.encode(source, lengths), target)
    for row, length in enumerate(lengths.tolist()):
        one = slice(row, row + 1)
        alone = model.decode(model.encode(source[one, :length], lengths[one]), target[one])
        torch.testing.assert_close(real(alone[0]), real(together[row]), atol=1e-10, rtol=0)


@pytest.mark.parametrize("choices", CHOICES)
@torch.no_grad()
def test_what_stands_in_the_padding_does_not_matter(choices: dict[str, object]) -> None:
    """Masks come from lengths, never from ids."""
    model, (source, lengths, target) = small_model(**choices), sentences()
    expected = model.decode(model.encode(source, lengths), target)
    scribbled = torch.where(source == 19, 5, source)
    assert torch.equal(model.decode(model.encode(scribbled, lengths), target), expected)


@pytest.mark.parametrize("choices", CHOICES)
@torch.no_grad()
def test_the_future_changes_nothing_before_it(choices: dict[str, object]) -> None:
    model, (source, lengths, target) = small_model(**choices), sentences()
    memory = model.encode(source, lengths)
    before = model.decode(memory, target)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 18 + 1
    after = model.decode(memory, changed)
    torch.testing.assert_close(real(after[:, :4]), real(before[:, :4]), atol=1e-12, rtol=0)
    assert not torch.allclose(real(after[:, 4:]), real(before[:, 4:]))


@torch.no_grad()
def test_without_positions_the_encoder_is_blind_to_order() -> None:
    source, _, _ = sentences()
    lengths, order = torch.full((4,), 7), torch.tensor([3, 1, 6, 0, 2, 5, 4])
    blind = small_model(positions="none")
    straight, shuffled = (blind.encode(s, lengths).states_BSD for s in (source, source[:, order]))
    torch.testing.assert_close(shuffled, straight[:, order], atol=1e-10, rtol=0)
    for positions in ("sinusoidal", "learned", "rotary", "alibi"):
        model = small_model(positions=positions)
        straight, shuffled = (model.encode(s, lengths).states_BSD for s in (source, source[:, order]))
        assert not torch.allclose(shuffled, straight[:, order], atol=1e-3), positions


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("choices", CHOICES)
@torch.no_grad()
def test_half_precision_stays_finite(choices: dict[str, object], dtype: torch.dtype) -> None:
    model, (source, lengths, target) = small_model(**choices).to(dtype), sentences()
    memory = model.encode(source, lengths)
    assert bool(real(model.decode(memory, target)).isfinite().all())
    log_probs, _ = model.step(target[:, :1].expand(4, 2), model.start(memory, 2))
    assert bool(real(log_probs).isfinite().all())
    with record():
        assert bool(real(model.decode(memory, target)).isfinite().all())


@torch.no_grad()
def test_sentences_longer_than_any_table_work() -> None:
    model = small_model()
    source = torch.randint(2, 19, (1, 700))
    assert model.encode(source, torch.tensor([700])).states_BSD.isfinite().all()


@torch.no_grad()
def test_a_recorder_sees_every_layer_and_changes_nothing() -> None:
    model, (source, lengths, target) = small_model(), sentences()
    plain = model.decode(model.encode(source, lengths), target)
    with record() as recorder:
        watched = model.decode(model.encode(source, lengths), target)
    torch.testing.assert_close(real(watched), real(plain), atol=1e-10, rtol=0)
    places = ["decoder.0.cross", "decoder.0.self", "decoder.1.cross", "decoder.1.self"]
    assert sorted(recorder.attention) == [*places, "encoder.0.self", "encoder.1.self"]
    assert recorder.attention["decoder.1.cross"][0].shape == (4, 4, 6, 7)
    for (weights,) in recorder.attention.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert not recorder.attention["decoder.0.cross"][0][1, :, :, 3:].any(), "padding is not attended"
    layers = [f"{stack}.{part}" for stack in ("decoder", "encoder") for part in ("0", "1", "embedding")]
    assert sorted(recorder.residual) == layers


def test_a_recorder_belongs_to_its_thread() -> None:
    seen = []
    with record():
        assert watching()
        thread = threading.Thread(target=lambda: seen.append(watching()))
        thread.start()
        thread.join()
    assert seen == [False]
    assert not watching()
