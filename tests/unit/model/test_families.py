"""The rest of the family: shapes, who sees whom, cached against full, padding, patches."""

from __future__ import annotations

import pytest
import torch

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError, RequestError
from glassformer.model.build import build_reader
from glassformer.model.families import (
    FAMILY,
    Classifier,
    ImageClassifier,
    LanguageModel,
    MaskedLanguageModel,
    Reader,
    Tagger,
    patches,
)
from glassformer.model.record import record

TEXT = VocabularyConfig(20, 20, shared=True, source_pad=19, target_pad=19, start=19)
LABELS = VocabularyConfig(20, 7, shared=False, source_pad=19, target_pad=6, start=6)
NETWORK = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "width": 16,
    "feed_forward": 24,
    "heads": 2,
    "norm": "pre",
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "max_length": 32,
}


def make(task: str, **changes: object) -> Reader:
    torch.manual_seed(0)
    vocabulary = TEXT if task in ("language_model", "masked_language_model") else LABELS
    return build_reader(task, ModelConfig(**{**NETWORK, **changes}), vocabulary).eval()  # type: ignore[arg-type]


IDS_BT = torch.tensor([[5, 6, 7, 8, 0], [9, 10, 0, 19, 19]])
LENGTHS_B = torch.tensor([5, 3])


def test_every_task_has_its_model() -> None:
    kinds = (LanguageModel, MaskedLanguageModel, Classifier, Tagger, ImageClassifier)
    assert tuple(type(make(task)) for task in FAMILY) == kinds


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi"])
@pytest.mark.parametrize("beams", [1, 3])
def test_steps_say_the_same_as_whole_texts(positions: str, beams: int) -> None:
    model = make("language_model", positions=positions)
    assert isinstance(model, LanguageModel)
    ids_BT = torch.randint(2, 19, (2, 6))
    with torch.no_grad():
        whole_BTV = model.decode(ids_BT).log_softmax(-1)
        state = model.start(2, beams)
        for place in range(6):
            last_BN = ids_BT[:, place : place + 1].expand(-1, beams)
            log_probs_BNV, state = model.step(last_BN, state)
            for beam in range(beams):
                torch.testing.assert_close(log_probs_BNV[:, beam], whole_BTV[:, place])


def test_a_kept_and_reordered_state_goes_on_with_the_right_past() -> None:
    model = make("language_model")
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        state = model.start(2, 2)
        model.step(torch.tensor([[19, 19], [19, 19]]), state)
        model.step(torch.tensor([[3, 4], [5, 6]]), state)
        state.reorder(torch.tensor([[1, 1], [1, 0]]))
        state.keep(torch.tensor([1]))
        log_probs_BNV, _ = model.step(torch.tensor([[7, 7]]), state)
        expected_BTV = model.decode(torch.tensor([[19, 6, 7], [19, 5, 7]])).log_softmax(-1)
    torch.testing.assert_close(log_probs_BNV[0], expected_BTV[:, -1])


def test_a_language_model_does_not_see_what_comes() -> None:
    model = make("language_model")
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        before = model.decode(torch.tensor([[5, 6, 7, 8]]))
        after = model.decode(torch.tensor([[5, 6, 9, 10]]))
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.equal(before[:, 2:], after[:, 2:])


@pytest.mark.parametrize("task", ["masked_language_model", "classify", "tag"])
def test_padding_changes_nothing(task: str) -> None:
    model = make(task)
    with torch.no_grad():
        both = model.states(IDS_BT, LENGTHS_B)
        alone = model.states(IDS_BT[1:, :3], LENGTHS_B[1:])
        if isinstance(model, Classifier):
            torch.testing.assert_close(
                model.pooled(IDS_BT, LENGTHS_B)[1:], model.pooled(IDS_BT[1:, :3], LENGTHS_B[1:])
            )
    torch.testing.assert_close(both[1:, :3], alone)


def test_an_encoder_sees_both_sides() -> None:
    model = make("masked_language_model")
    with torch.no_grad():
        before = model.states(torch.tensor([[5, 6, 7]]), torch.tensor([3]))
        after = model.states(torch.tensor([[5, 6, 9]]), torch.tensor([3]))
    assert not torch.allclose(before[:, 0], after[:, 0])


def test_only_labels_can_be_chosen() -> None:
    for task in ("classify", "tag", "image"):
        model = make(task)
        assert isinstance(model, (Classifier, Tagger))
        ids_BS = torch.randint(2, 19, (2, 17))
        logits = model.decide(ids_BS, torch.tensor([17, 17]))
        assert logits.shape[-1] == 7
        assert torch.isinf(logits[..., [0, 1, 6]]).all()
        assert torch.isfinite(logits[..., 2:6]).all()


def test_tied_or_not() -> None:
    tied, apart = make("masked_language_model"), make("masked_language_model", tied="none")
    assert tied.output_weight is tied.embedding.weight_VD
    assert apart.output_weight is not apart.embedding.weight_VD


def test_an_image_is_read_in_patches() -> None:
    model = make("image", patch=2)
    assert isinstance(model, ImageClassifier)
    model.embedding.levels_V[2:19] = torch.linspace(0, 1, 17)
    ids_BS = torch.cat([torch.randint(2, 19, (3, 16)), torch.zeros(3, 1, dtype=torch.long)], 1)
    with record() as recorder:
        assert model.pooled(ids_BS, torch.tensor([17] * 3)).shape == (3, 16)
    assert recorder.attention["encoder.0.self"][0].shape == (3, 2, 4, 4)
    with pytest.raises(RequestError, match="15 pixels can't be cut into squares of 2 × 2"):
        patches(torch.zeros(1, 15), 2)
    with pytest.raises(RequestError, match=r"multiple of model.patch"):
        patches(torch.zeros(1, 9), 2)


def test_places_are_named_for_whoever_watches() -> None:
    model = make("language_model")
    with record() as recorder:
        model.states(IDS_BT, LENGTHS_B)
    assert set(recorder.attention) == {"decoder.0.self", "decoder.1.self"}
    assert "decoder.embedding" in recorder.residual


def test_a_recurrent_family_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"task = 'classify' needs model.architecture = 'transformer'"):
        make("classify", architecture="recurrent")
