"""The recurrent models go through the same loop, bundles and borders as the Transformer."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.errors import FormatError, RequestError
from glassformer.formats import ctranslate2, huggingface
from glassformer.look.explain import explain
from glassformer.look.trace import trace
from glassformer.train.card import model_card
from glassformer.train.loop import Loop
from glassformer.train.report import read_metrics
from glassformer.translate import Translator
from tests.unit.train.conftest import MakeLoop, metrics_of

SHAPE = {"architecture": "recurrent", "width": 24}
KINDS = ("none", "dot", "additive", "bilinear")


def recurrent(loop_in: MakeLoop, directory: Path, kind: str = "dot", **changes: object) -> Loop:
    model = {**SHAPE, "recurrent_attention": kind}
    return loop_in(directory, model=model, validation=bool(changes.pop("validation", False)), **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_loss(tmp_path: Path, loop_in: MakeLoop, kind: str) -> None:
    recurrent(loop_in, tmp_path, kind, max_steps=60, validate_every=1000).run()
    losses = [entry["nll"] for entry in read_metrics(tmp_path / "metrics.jsonl")]
    assert losses[-1] < 0.75 * losses[0]


def test_a_resumed_run_is_the_run_that_never_stopped(tmp_path: Path, loop_in: MakeLoop) -> None:
    whole = recurrent(loop_in, tmp_path / "whole", max_steps=10, ema=4, validation=True)
    whole.run()
    recurrent(loop_in, tmp_path / "parts", max_steps=5, ema=4, validation=True).run()
    resumed = recurrent(loop_in, tmp_path / "parts", max_steps=10, ema=4, validation=True)
    resumed.run()
    assert metrics_of(tmp_path / "parts") == metrics_of(tmp_path / "whole")
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name


@pytest.mark.parametrize("kind", ["none", "additive"])
def test_a_bundle_there_and_back(tmp_path: Path, loop_in: MakeLoop, kind: str) -> None:
    bundle = recurrent(loop_in, tmp_path / "run", kind).bundle
    loaded = Bundle.load(bundle.save(tmp_path / "bundle"))
    assert loaded.config == bundle.config
    texts = ["abc", "fedcba", "aab"]
    options = {"beams": 3, "max_length": 12}
    ours = [found.text for found in Translator(bundle, engine="torch").translate(texts, **options)]
    theirs = [found.text for found in Translator(loaded).translate(texts, **options)]
    assert theirs == ours
    assert [Translator(loaded).translate(text, **options).text for text in texts] == ours


def test_attention_aligns_and_its_absence_is_said(tmp_path: Path, loop_in: MakeLoop) -> None:
    model = Translator(recurrent(loop_in, tmp_path / "a").bundle)
    found = model.translate("abc", align=True, max_length=6, min_length=3)
    assert found.alignment is None or len(found.alignment.source_words) == 1
    without = Translator(recurrent(loop_in, tmp_path / "b", "none").bundle)
    with pytest.raises(RequestError, match="no attention over the source"):
        without.translate("abc", align=True, max_length=6, min_length=3)


def test_borders_refuse_it_by_name(tmp_path: Path, loop_in: MakeLoop) -> None:
    bundle = recurrent(loop_in, tmp_path / "run").bundle
    for border in (ctranslate2, huggingface):
        with pytest.raises(FormatError, match="architecture = 'recurrent'"):
            border.export_bundle(bundle, tmp_path / "out")
    translator = Translator(bundle)  # `auto` takes our own engine then
    assert translator.engine_for()[0].name == "torch"
    for look in (trace, explain):
        with pytest.raises(RequestError, match="only a Transformer has"):
            look(translator, "abc")


def test_its_card_says_what_it_is(tmp_path: Path, loop_in: MakeLoop) -> None:
    from glassformer.recipe import Recipe
    from glassformer.text.corpus import Report

    for kind, words in (("none", "(LSTM) without attention"), ("bilinear", "with bilinear attention")):
        loop = recurrent(loop_in, tmp_path / kind, kind)
        card = model_card(Recipe(), Report(), loop.bundle, loop.progress, None, "update 1")
        assert words in card


def test_a_configuration_of_another_size_is_still_refused(tmp_path: Path, loop_in: MakeLoop) -> None:
    bundle = recurrent(loop_in, tmp_path / "run").bundle
    path = bundle.save(tmp_path / "bundle")
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(text.replace("width = 24", "width = 60000"))
    with pytest.raises(Exception, match="at least"):
        Bundle.load(path)
    small = replace(bundle.config.model, feed_forward=10**7)  # which means nothing to an LSTM
    replace(bundle, config=replace(bundle.config, model=small)).save(tmp_path / "other")
    assert Bundle.load(tmp_path / "other").config.model.feed_forward == 10**7


def test_the_order_of_a_batch_does_not_matter(tmp_path: Path, loop_in: MakeLoop) -> None:
    translator = Translator(recurrent(loop_in, tmp_path, "additive").bundle)
    texts = ["a", "abcdef", "fed", "cc", "abcabcabc"]
    said = {text: translator.translate(text, beams=2, max_length=9).text for text in texts}
    random.Random(0).shuffle(texts)
    together = translator.translate(texts, beams=2, max_length=9)
    assert [found.text for found in together] == [said[text] for text in texts]
