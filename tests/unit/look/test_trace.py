"""A trace holds what happened: recorded tensors, the search's own numbers, true answers to what-ifs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.errors import RequestError
from glassformer.look.pack import unpack
from glassformer.look.run import all_heads
from glassformer.look.trace import trace
from glassformer.model.record import record
from glassformer.model.silence import silence
from glassformer.search.scoring import SearchOptions
from glassformer.translate import Translator, load
from tests.looking import translator

TEXT = "seven two ten one four."


@pytest.fixture(scope="module")
def machine(numbers: Path) -> Translator:
    return load(numbers, engine="torch")


@pytest.fixture(scope="module")
def seen(machine: Translator) -> dict:
    return trace(machine, TEXT, beams=3)


def test_it_is_plain_data(seen: dict) -> None:
    assert json.loads(json.dumps(seen, allow_nan=False)) == seen


def test_the_translation_is_the_translators(machine: Translator, seen: dict) -> None:
    found = machine.translate(TEXT, beams=3, n_best=3)
    assert seen["target"]["text"].strip() == found.text
    assert seen["scores"]["score"] == pytest.approx(found.score, abs=1e-5)
    assert seen["scores"]["log_prob"] / seen["scores"]["factor"] == pytest.approx(seen["scores"]["score"])


def test_attention_is_exactly_what_a_recorder_hears(machine: Translator, seen: dict) -> None:
    model = machine.bundle.model
    start = model.vocabulary.start
    with torch.inference_mode(), record() as recorder:
        source = torch.tensor([seen["source"]["ids"]])
        memory = model.encode(source, torch.tensor([source.shape[1]]))
        model.decode(memory, torch.tensor([[start, *seen["target"]["ids"][:-1]]]))
    assert set(seen["attention"]) == set(recorder.attention)
    assert len(seen["attention"]) == 5
    for place, calls in recorder.attention.items():
        assert np.array_equal(unpack(seen["attention"][place]), calls[0][0].numpy())


def test_the_candidates_of_each_step_are_the_likeliest(machine: Translator, seen: dict) -> None:
    scored = machine.torch_engine.score_ids([seen["source"]["ids"][:-1]], [seen["target"]["ids"]])[0]
    for step, candidates in enumerate(seen["candidates"]):
        log_probs = [one["log_prob"] for one in candidates]
        assert len(candidates) == min(10, machine.bundle.tokenizers.target.size - 1)
        assert log_probs[:9] == sorted(log_probs[:9], reverse=True)
        [chosen] = [one for one in candidates if one["chosen"]]
        assert chosen["id"] == seen["target"]["ids"][step]
        assert chosen["log_prob"] == pytest.approx(scored[step], abs=1e-4)


def test_a_forced_word_goes_on_as_translate_does_with_that_prefix(machine: Translator, seen: dict) -> None:
    assert len(seen["continuations"]) > 20
    assert "0:0" not in seen["continuations"]  # the end leads nowhere
    options = SearchOptions(beams=3)
    longest = 2 * len(seen["source"]["ids"][:-1]) + 32
    for key, outcome in seen["continuations"].items():
        step, token = map(int, key.split(":"))
        prefix = [*seen["target"]["ids"][:step], token]
        [[alone]] = machine.torch_engine.translate_ids(
            [seen["source"]["ids"][:-1]], options, max_lengths=[min(longest, 40)], prefixes=[prefix]
        )
        assert outcome["text"] == machine.bundle.tokenizers.target.decode(alone.tokens)
        assert outcome["score"] == pytest.approx(alone.score, abs=1e-4)


def test_a_forced_word_equals_translate_with_its_text_as_prefix(machine: Translator, seen: dict) -> None:
    for key in list(seen["continuations"])[:10]:
        step, token = map(int, key.split(":"))
        prefix = machine.bundle.tokenizers.target.decode([*seen["target"]["ids"][:step], token])
        again = trace(machine, TEXT, beams=3, prefix=prefix, continuations=0, ablations=False)
        assert again["target"]["text"] == seen["continuations"][key]["text"]
        assert again["target"]["text"].strip() == machine.translate(TEXT, beams=3, prefix=prefix).text


def test_every_head_is_switched_off_once(machine: Translator, seen: dict) -> None:
    heads = all_heads(machine.bundle.model)
    assert len(heads) == 10
    assert set(seen["ablations"]) == {f"{place}:{head}" for place, head in heads}
    for place, head in heads:
        with silence([(place, head)]):
            [[alone]] = machine.torch_engine.translate_ids(
                [seen["source"]["ids"][:-1]], SearchOptions(beams=3), max_lengths=[40]
            )
        outcome = seen["ablations"][f"{place}:{head}"]
        assert outcome["text"] == machine.bundle.tokenizers.target.decode(alone.tokens)
        assert outcome["changed"] == (outcome["text"] != seen["target"]["text"])
        assert outcome["bleu_before"] == pytest.approx(100)
    assert any(one["changed"] and one["bleu"] < 99 for one in seen["ablations"].values())


def test_bleu_is_against_the_reference_if_there_is_one(machine: Translator) -> None:
    seen = trace(machine, TEXT, reference="七二十", continuations=0)
    assert all(one["bleu_before"] < 99 for one in seen["ablations"].values())


def test_heads_that_are_off_are_off_in_the_whole_trace(machine: Translator) -> None:
    off = [("decoder.0.cross", 1), ("encoder.0.self", 0)]
    seen = trace(machine, TEXT, heads_off=off, continuations=0, ablations=False)
    with silence(off):
        assert machine.translate(TEXT).text == seen["target"]["text"].strip()
    assert "continuations" not in seen
    assert seen["request"]["heads_off"] == [["decoder.0.cross", 1], ["encoder.0.self", 0]]


def test_without_heads_the_whole_model_stands_beside_it(machine: Translator, seen: dict) -> None:
    assert "whole" not in seen
    [(place, head), *_] = [
        (key.split(":")[0], int(key.split(":")[1]))
        for key, one in seen["ablations"].items()
        if one["changed"]
    ]
    without = trace(machine, TEXT, heads_off=[(place, head)], continuations=0, ablations=False)
    kept = {key: without["whole"][key] for key in ("text", "score")}
    assert kept == {
        "text": seen["n_best"][0]["text"],
        "score": pytest.approx(seen["scores"]["score"], abs=1e-5),
    }
    assert without["whole"]["changed"]
    assert without["whole"]["bleu"] == seen["ablations"][f"{place}:{head}"]["bleu"]
    assert without["whole"]["bleu_before"] == seen["ablations"][f"{place}:{head}"]["bleu_before"]


def test_the_tree_holds_the_search(seen: dict) -> None:
    nodes = seen["beam"]["nodes"]
    winner = [node for node in nodes if node["winner"]]
    assert [node["id"] for node in winner] == seen["target"]["ids"]
    assert [node["log_prob"] for node in winner] == pytest.approx(seen["target"]["log_probs"])
    assert winner[-1]["closed"]
    assert winner[-1]["score"] == pytest.approx(seen["scores"]["score"])
    for node in nodes:
        before = nodes[node["parent"]]["sum"] if node["parent"] >= 0 else 0.0
        assert node["sum"] == pytest.approx(before + node["log_prob"], abs=1e-4)
        assert node["parent"] < 0 or nodes[node["parent"]]["kept"]
    kept = [sum(node["kept"] for node in nodes if node["step"] == step) for step in range(len(winner))]
    assert kept[:-1] == [3] * (len(winner) - 1)
    assert any(not node["kept"] and not node["closed"] for node in nodes)


def test_the_last_layer_says_what_was_said(seen: dict) -> None:
    last = seen["opinions"][-1]
    for step, log_prob in enumerate(seen["target"]["log_probs"]):
        assert unpack(last["chosen_p"])[step] == pytest.approx(math.exp(log_prob), abs=1e-4)
        [chosen] = [one for one in seen["candidates"][step] if one["chosen"]]
        assert last["chosen_rank"][step] == chosen["rank"]
    assert [layer["place"] for layer in seen["opinions"]] == [
        "decoder.embedding",
        "decoder.0",
        "decoder.1",
    ]


def test_spans_point_at_the_text(seen: dict) -> None:
    assert seen["source"]["text"] == TEXT
    check_spans(seen)


def check_spans(seen: dict) -> None:
    for side in ("source", "target"):
        text = seen[side]["text"]
        for piece, (start, end) in zip(seen[side]["pieces"], seen[side]["spans"], strict=True):
            assert piece == "</s>" or text[start:end].strip() == piece.strip("▁ ")


def test_a_sentence_in_several_scripts_is_cut_where_it_should_be() -> None:
    seen = trace(translator(), "我们 like <b>.", continuations=5, ablations=False)
    check_spans(seen)
    assert 1 <= len(seen["continuations"]) <= 2 * len(seen["target"]["ids"])
    assert not seen["target"]["finished"]  # its weights are random, and it is cut at the maximum
    assert len(seen["target"]["ids"]) == 14


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("  ", {}, "blank"),
        ("a\nb", {}, "one sentence of at most"),
        ("one two " * 60, {}, "at most 39 tokens"),
        ("abc", {"beams": 0}, "beams = 0"),
        ("abc", {"heads_off": [("decoder.9.cross", 0)]}, "decoder.9.cross"),
        ("abc", {"heads_off": [("decoder.0.cross", 4)]}, "no head 4"),
        ("abc", {"prefix": [10_000]}, "10000"),
        ("abc", {"prefix": [0]}, "end of sentence"),
        ("abc", {"prefix": [3] * 50}, "prefix of 50 tokens"),
    ],
)
def test_what_can_not_be_looked_at(machine: Translator, text: str, options: dict, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        trace(machine, text, **options)
