"""Looking at models that do not translate: the walk computes the same as the model; the page is whole."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig
from glassformer.errors import RequestError
from glassformer.look.reader import explain_reader, read_ids, reader_page
from glassformer.look.walk import walk_reader
from glassformer.model.build import build_reader
from glassformer.model.families import FAMILY, Classifier, Reader
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer

TEXTS = dict.fromkeys(FAMILY, "the old dog barks") | {"image": " ".join(map(str, range(16)))}


def make(task: str) -> Bundle[Reader]:
    source = train_tokenizer("symbols", ["the old dog barks", TEXTS["image"]])
    labels = train_tokenizer("symbols", ["DET ADJ NOUN VERB"])
    one_sided = task in ("language_model", "masked_language_model")
    pair = TokenizerPair(source, source if one_sided else labels, shared=one_sided)
    shape = ModelConfig(
        encoder_layers=2, decoder_layers=2, width=16, feed_forward=24, heads=2, norm="pre", dropout=0.0
    )
    torch.manual_seed(0)
    model = build_reader(task, shape, pair.vocabulary()).eval()
    return Bundle(BundleConfig(task=task, vocabulary=pair.vocabulary(), model=shape), pair, model)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", FAMILY)
def test_the_walk_ends_where_the_model_does(task: str) -> None:
    bundle = make(task)
    ids, _ = read_ids(bundle, TEXTS[task])
    logits = next(stage for stage in walk_reader(bundle.model, ids) if stage.key == "logits")
    ids_BT, lengths_B = torch.tensor([ids]), torch.tensor([len(ids)])
    with torch.no_grad():
        if isinstance(bundle.model, Classifier):
            expected_TV = bundle.model.output(bundle.model.pooled(ids_BT, lengths_B))
        else:
            expected_TV = bundle.model.output(bundle.model.states(ids_BT, lengths_B))[0]
    torch.testing.assert_close(logits.numbers_TX, expected_TV[:, : logits.numbers_TX.shape[1]])


@pytest.mark.parametrize("task", FAMILY)
def test_the_page_shows_every_head_and_loads_nothing(task: str) -> None:
    page = reader_page(make(task), TEXTS[task])
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    HTMLParser().feed(page)


@pytest.mark.parametrize("task", FAMILY)
def test_the_walk_can_be_printed(task: str) -> None:
    lines = list(explain_reader(make(task), TEXTS[task]).lines())
    assert any("softmax" in line for line in lines)
    assert lines[-1].strip()


def test_a_text_is_needed() -> None:
    with pytest.raises(RequestError, match="the text is empty"):
        reader_page(make("classify"), "")
    with pytest.raises(RequestError, match="there is no step 9"):
        explain_reader(make("language_model"), "the old", step=9)


def test_what_a_text_says_can_not_become_markup() -> None:
    page = reader_page(make("language_model"), "<script>alert(1)</script> the")
    assert "<script" not in page
