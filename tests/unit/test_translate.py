"""The Translator on a small model that has really learnt something, and on hostile text."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer
from glassformer import translate as module
from glassformer.bundle import Bundle
from glassformer.errors import BundleError, RequestError
from glassformer.search.scoring import Hypothesis, Later, SearchOptions
from glassformer.translate import Translator, choose_shipped, load
from glassformer.translation import Line, Part, Translation, joined, prepare, read
from tests.unit.conftest import CHINESE, SENTENCES


def kinds(translation: Translation) -> list[str]:
    return [note.kind for note in translation.notes]


def test_texts_become_texts(translator: Translator) -> None:
    assert translator.translate(SENTENCES[0]).text == CHINESE[0]
    assert [one.text for one in translator.translate(SENTENCES)] == CHINESE
    assert [one.text for one in translator.translate(iter(SENTENCES))] == CHINESE
    assert translator.translate([]) == []
    assert glassformer.load is load


def test_a_result_says_what_it_is_made_of(translator: Translator) -> None:
    found = translator.translate("one two three.")
    assert found.source == "one two three."
    assert found.tokens == ["一", "二", "三", "。"]
    assert len(found.token_log_probs) == 5
    assert found.log_prob == pytest.approx(sum(found.token_log_probs), abs=1e-5)
    assert found.score == pytest.approx(found.log_prob / 5)
    assert (found.notes, found.alternatives, found.alignment) == ([], [], None)


def test_forced_scoring_gives_the_scores_of_search(translator: Translator) -> None:
    found = translator.translate(SENTENCES, n_best=4)
    for best in found:
        for one in [best, *best.alternatives]:
            forced = translator.score(one.source, one.text)
            assert forced.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-4)
            assert forced.score == pytest.approx(one.score, abs=1e-4)
            assert forced.tokens == one.tokens
    together = translator.score(SENTENCES, CHINESE)
    assert [one.score for one in together] == pytest.approx([one.score for one in found], abs=1e-4)
    assert translator.score("one.", "九。").score < translator.score("one.", "一。").score - 1
    assert translator.score("one.", "", align=True).alignment is not None


def test_n_best_is_sorted_and_each_text_comes_once(translator: Translator) -> None:
    found = translator.translate("one two three.", n_best=4)
    ways = [found, *found.alternatives]
    assert len({one.text for one in ways}) == len(ways) == 4
    assert [one.score for one in ways] == sorted((one.score for one in ways), reverse=True)
    many = translator.translate("one two three.", n_best=7)  # more than the bundle's beams: they are raised
    assert len(many.alternatives) >= 5


def test_alignment_finds_the_words(translator: Translator) -> None:
    found = translator.translate("one two three four five.", align=True)
    assert found.alignment is not None
    assert found.alignment.source_words == ["one", "two", "three", "four", "five."]
    assert found.alignment.target_words == ["一", "二", "三", "四", "五", "。"]
    right = {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (4, 5)}
    assert len(right & set(found.alignment.links)) >= 5
    for row in found.alignment.weights:
        assert sum(row) <= 1 + 1e-5


@pytest.mark.parametrize("beams", [1, 4])
def test_a_text_does_not_feel_the_batch(numbers: Path, beams: int) -> None:
    translator = Translator(Bundle.load(numbers, dtype=torch.float64), engine="torch")
    texts = [" ".join(words) + "." for words in itertools.permutations(["one", "two", "three", "nine"])]
    texts += SENTENCES
    together = translator.translate(texts, beams=beams)
    for size in (1, 2, 7):
        translator.torch_engine.batch_sentences = size
        apart = translator.translate(texts, beams=beams)
        assert [one.text for one in apart] == [one.text for one in together]
        assert [one.score for one in apart] == pytest.approx([one.score for one in together], abs=1e-12)


def test_blank_stays_blank_and_in_its_place(translator: Translator) -> None:
    texts = ["", "one.", " \t ", "\u200b\ufeff", "two.", "\u3000", "\n\n"]
    found = translator.translate(texts)
    assert [one.text for one in found] == ["", "一。", "", "", "二。", "", "\n\n"]
    assert found[0] == Translation("", "")
    assert translator.translate("", align=True, n_best=2).text == ""


def test_lines_within_a_text_stay_lines(translator: Translator) -> None:
    assert translator.translate("one two.\n\nthree four.\r\nnine.").text == "一二。\n\n三四。\n九。"


def test_long_texts_are_split_and_say_so(translator: Translator) -> None:
    sentence = "one two three four five. "
    found = translator.translate(sentence * 12, align=True)
    assert found.text == "一二三四五。" * 12
    assert kinds(found) == ["split"]
    assert "the model takes 39: translated in 12 parts, split between sentences" in found.notes[0].message
    assert found.alignment is not None
    assert len(found.alignment.source_words) == 60
    assert (56, 67) in found.alignment.links
    assert len(found.token_log_probs) == 84
    worse = translator.translate("one two three " * 30)
    assert "split between words" in worse.notes[0].message
    worst = translator.translate("x" * 5000)
    assert "split inside words" in worst.notes[0].message
    assert worst.source == "x" * 5000


def test_prefixes(translator: Translator) -> None:
    assert translator.translate("one two three.", prefix="九").text.startswith("九")
    found = translator.translate(["one two.", "three.", ""], prefix=["七", "", "八"])
    assert found[0].text.startswith("七")
    assert [found[1].text, found[2].text] == ["三。", ""]
    forced = translator.score("one two.", found[0].text)
    assert forced.log_prob == pytest.approx(found[0].log_prob, abs=1e-4)
    with pytest.raises(RequestError, match="as many prefixes as texts"):
        translator.translate(["one.", "two."], prefix=["七"])
    with pytest.raises(RequestError, match="the model takes 39"):
        translator.translate("one.", prefix="七" * 60)


def test_options_reach_the_search(translator: Translator) -> None:
    assert len(translator.translate("one.", min_length=6).tokens) >= 6
    short = translator.translate("one two three four.", max_length=2)
    assert (short.tokens, kinds(short)) == (["一", "二"], ["cut"])
    assert "cut at the maximum of 2 tokens" in str(short.notes[0])
    repeated = translator.translate("one one one.", no_repeat_ngram=1)
    assert len(set(repeated.tokens)) == len(repeated.tokens)
    wu = translator.translate("one two.", penalty="wu", length_penalty=0.6)
    assert wu.score == pytest.approx(wu.log_prob / ((5 + 4) / 6) ** 0.6)
    exact = translator.translate("one two.", stop="exact")
    assert exact.score >= translator.translate("one two.").score - 1e-6
    assert translator.translate("one two.", beams=1).text == "一二。"


def test_sampling_depends_on_the_seed_alone(translator: Translator) -> None:
    options: dict[str, Any] = {"sampling": True, "temperature": 3.0, "seed": 5}
    first = [one.text for one in translator.translate(SENTENCES, **options)]
    assert first == [one.text for one in translator.translate(SENTENCES, **options)]
    assert first != [one.text for one in translator.translate(SENTENCES, **{**options, "seed": 6})]
    assert first[0] == translator.translate(SENTENCES[0], **options).text
    drawn = translator.translate("one two three.", n_best=5, sampling=True, temperature=2.0)
    assert drawn.alternatives
    assert translator.translate("one two.", sampling=True, top_k=1).text == "一二。"


def test_endless_repetition_is_cut_and_reported(translator: Translator) -> None:
    seven = translator.bundle.tokenizers.target.encode("七")[0]

    class Stuck:
        name = "stuck"

        def refuses(self, options: SearchOptions) -> str:
            return ""

        def translate_ids(self, sources: Any, options: SearchOptions, **rest: Any) -> list[list[Hypothesis]]:
            return [[Hypothesis([2, *[seven] * 30], -3.0, -0.1, [-0.1] * 31, False)] for _ in sources]

    stuck = Translator(translator.bundle, engine="torch")
    stuck._engine = Stuck()  # type: ignore[assignment]
    found = stuck.translate("one.", align=True)
    assert found.text == "。七"
    assert len(found.token_log_probs) == len(found.tokens) == 2
    assert kinds(found) == ["repetition"]
    assert "'七' 30 times" in found.notes[0].message


def test_nobody_pays_for_log_probs_that_nobody_reads(translator: Translator) -> None:
    """Not even when a repetition is cut out of the middle of them."""
    asked: list[str] = []
    seven = translator.bundle.tokenizers.target.encode("七")[0]
    later = Later(31, lambda: asked.append("now") or [-float(place) for place in range(31)])
    part = Part("x", "", longest=40)
    read(
        [(part, [Hypothesis([2, *[seven] * 30], -3.0, -0.1, later, False)])],
        translator.bundle.tokenizers.target,
    )
    [found] = part.found
    assert (len(found.token_log_probs), asked) == (2, [])
    assert (list(found.token_log_probs), set(asked)) == ([0.0, -1.0], {"now"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, "beams = 0 must be at least 1"),
        ({"beams": 2, "n_best": 3}, "n_best = 3 needs as many beams, but beams = 2"),
        ({"beams": "4"}, "beams = '4' must be a whole number"),
        ({"temperature": 0.0, "sampling": True, "top_p": 2.0}, "2 problems"),
        ({"penalty": "none"}, "penalty = 'none': choose length | wu"),
        ({"beam": 4}, "unknown options beam; there are beams"),
        ({"min_length": 9, "max_length": 3}, "min_length = 9 is above max_length = 3"),
        ({"min_length": 200}, "the model takes 39"),
    ],
)
def test_senseless_options_are_refused(translator: Translator, options: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        translator.translate("one.", **options)


def test_senseless_calls_are_refused(translator: Translator) -> None:
    with pytest.raises(RequestError, match="text 1 is int, not a string: 5"):
        translator.translate(["one.", 5])  # type: ignore[list-item]
    with pytest.raises(RequestError, match="a stream is one growing text"):
        next(translator.stream("one.", n_best=2))
    with pytest.raises(RequestError, match="2 sources, but 1 targets"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(RequestError, match="must both be texts"):
        translator.score("a", ["c"])  # type: ignore[call-overload]
    with pytest.raises(RequestError, match="target 0 has 60 tokens, but the model takes 39"):
        translator.score("one.", "七" * 60)
    with pytest.raises(RequestError, match="engine = 'fast': choose auto"):
        Translator(translator.bundle, engine="fast")  # type: ignore[arg-type]
    with pytest.raises(BundleError, match="there is no such bundle"):
        load("no-such-thing")


def test_engines_are_chosen_and_say_why(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert translator.engine_for()[0].name == "torch"
    assert translator.engine_for()[1] == "asked for"

    class Fast:
        name = "fast"

        def refuses(self, options: SearchOptions) -> str:
            return "it can't sample" if options.sampling else ""

    monkeypatch.setattr("glassformer.formats.ctranslate2_engine.load_engine", lambda *_: Fast())
    chosen = Translator(translator.bundle, engine="auto")
    assert (chosen.engine_for()[0].name, chosen.engine_for()[1]) == ("fast", "the fastest that is installed")
    assert chosen.engine_for(sampling=True)[0].name == "torch"
    assert "it can't sample" in chosen.engine_for(sampling=True)[1]
    asked = Translator(translator.bundle, engine="ctranslate2")
    with pytest.raises(RequestError, match="can't do this: it can't sample; use engine torch"):
        asked.translate("one.", sampling=True)


def test_shipped_bundles_are_chosen_by_language(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "shipped", lambda: {"numbers": numbers})
    assert choose_shipped("en", "zh") == numbers
    assert choose_shipped("", "zh-Hans") == numbers
    assert choose_shipped("en", "") == numbers
    with pytest.raises(
        RequestError, match="no model from en to es: there is en to zh; name one with --model"
    ):
        choose_shipped()
    monkeypatch.setattr(module, "shipped", dict)
    with pytest.raises(RequestError, match="the package brings no model"):
        choose_shipped("en", "fr")


def test_unknown_characters_are_reported(translator: Translator) -> None:
    """A vocabulary of characters has no bytes to spell with."""
    tokenizer = translator.bundle.tokenizers.target
    [line] = prepare(["一☃二☃€"], tokenizer, 39)
    assert [str(note) for note in line.notes] == ["the model does not know '☃', '€'"]
    part = Part("x", "", longest=9)
    read([(part, [Hypothesis([2, 1], -1.0, -1.0, [-0.5, -0.5], True)])], tokenizer)
    [found] = part.found
    assert (found.text, kinds(found)) == ("。⁇", ["unknown"])


def test_parts_are_joined_as_the_script_wants() -> None:
    def line(*texts: str) -> Line:
        return Line(
            "",
            [Part("x", None if at else "", found=[Translation("x", text)]) for at, text in enumerate(texts)],
        )

    assert joined(line("Hello.", "World."), 1.0, "length").text == "Hello. World."
    assert joined(line("你好。", "再见。"), 1.0, "length").text == "你好。再见。"
    assert joined(line("", "Then."), 1.0, "length").text == "Then."


@settings(max_examples=60)
@given(st.lists(st.text(alphabet=st.characters(codec=None), max_size=60), min_size=1, max_size=6))
def test_no_text_crashes_or_gets_lost(translator: Translator, texts: list[str]) -> None:
    found = translator.translate(texts, beams=2, max_length=6)
    assert [one.source for one in found] == texts
    for text, one in zip(texts, found, strict=True):
        assert one.text.count("\n") == text.count("\n")
        assert "<" not in one.text
        one.text.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "<pad> </s> <unk> ▁ <0x0A>",
        "שלום עולם \u202emirrored",
        "👨\u200d👩\u200d👧\u200d👦🏳\ufe0f\u200d🌈" * 9,
        "\x00\x01\x1b[31m\x7f",
        "a\u2028b\u0085c\x0bd",
        "\ud800 half",
        "e\u0301" * 50,
        "one " * 20000,
    ],
    ids=range(8),
)
def test_strange_texts(translator: Translator, text: str) -> None:
    found = translator.translate(["one.", text, "two."], beams=1, max_length=8)
    assert [found[0].text, found[2].text] == ["一。", "二。"]
    assert "\n" not in found[1].text
    assert "<" not in found[1].text
