"""The metrics themselves: tokenizers by language, edit distance, rows and sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from glassformer import metrics
from glassformer.errors import RequestError
from glassformer.metrics import METRICS, bleu_tokenizer, build_metric, edit_distance

SAID = ["the cat sat on a mat", "a dog", "", "nobody knows what this is about"]
RIGHT = [["the cat sat on the mat"], ["the dog", "a dog barks"], ["gone"], ["nobody knows what it is about"]]


def table_distance(first: str, second: str) -> int:
    """The textbook table, cell by cell: the slow twin."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        new = [i]
        for j, b in enumerate(second, start=1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (a != b)))
        row = new
    return row[-1]


@given(st.text("abcd", max_size=40), st.text("abcd", max_size=40))
def test_edit_distance_is_the_tables(first: str, second: str) -> None:
    assert edit_distance(first, second) == table_distance(first, second)


def test_edit_distance_of_known_words() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance([], ["a", "b"]) == 2
    assert edit_distance(["AH", "B", "AW", "T"], ["AH", "B", "AW", "T"]) == 0


@pytest.mark.parametrize(("name", "theirs"), [("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())])
def test_summed_rows_give_sacrebleus_corpus_score(name: str, theirs) -> None:
    metric, note = build_metric(name)
    streams = [[r[place] if place < len(r) else None for r in RIGHT] for place in range(2)]
    assert metric.value(metric.rows(SAID, RIGHT).sum(0)) == theirs.corpus_score(SAID, streams).score
    assert metric.signature() == str(theirs.get_signature())
    assert note == ""


def test_sentence_bleu_is_sacrebleus() -> None:
    metric, _ = build_metric("bleu")
    rows = metric.rows(SAID, RIGHT)
    theirs = BLEU(effective_order=True)
    for place, row in enumerate(rows):
        expected = theirs.sentence_score(SAID[place], RIGHT[place]).score
        assert metric.sentence_value(row) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("zh", "zh"),
        ("zh-Hans", "zh"),
        ("zh_TW", "zh"),
        ("cmn", "zh"),
        ("de", "13a"),
        ("", "13a"),
        ("th", "char"),
    ],
)
def test_the_tokenizer_follows_the_language(language: str, tokenizer: str) -> None:
    assert bleu_tokenizer(language)[0] == tokenizer


@pytest.mark.parametrize("language", ["ja", "ja-JP", "ko", "kor"])
def test_without_mecab_characters_count_and_that_is_said(language: str, monkeypatch) -> None:
    monkeypatch.setattr(metrics, "_constructs", lambda tokenizer: False)
    name, note = bleu_tokenizer(language)
    assert name == "char"
    assert f"pip install 'sacrebleu[{language[:2]}]'" in note
    monkeypatch.setattr(metrics, "_constructs", lambda tokenizer: True)
    assert bleu_tokenizer(language) == (f"{language[:2]}-mecab", "")


def test_chinese_is_not_scored_as_one_word() -> None:
    said, right = ["我喜欢这只猫。"], [["我喜欢那只猫。"]]
    scores = {}
    for name in ("bleu", "ter"):
        metric, _ = build_metric(name, "zh")
        scores[name] = metric.value(metric.rows(said, right).sum(0))
    assert 30 < scores["bleu"] < 90
    assert scores["ter"] == pytest.approx(100 / 7)


def test_any_reference_counts_and_the_nearest_one_is_measured() -> None:
    said = ["T AH M EY T OW", "R EH D", "B AE D"]
    right = [["T AH M AA T OW", "T AH M EY T OW"], ["R IY D", "R EH D"], ["G UH D"]]
    values = {}
    for name in ("exact", "line_error", "phone_error", "character_error"):
        metric, _ = build_metric(name)
        values[name] = metric.value(metric.rows(said, right).sum(0))
    assert values["exact"] == pytest.approx(200 / 3)
    assert values["line_error"] == pytest.approx(100 / 3)
    assert values["phone_error"] == pytest.approx(100 * 2 / 12)
    assert values["character_error"] == pytest.approx(100 * 3 / (14 + 6 + 6))


def test_case_can_be_ignored() -> None:
    for name in METRICS:
        metric, _ = build_metric(name, lowercase=True)
        rows = metric.rows(["The CAT sat on it"], [["the cat sat on IT"]])
        assert metric.value(rows.sum(0)) == pytest.approx(100 if metric.higher_is_better else 0)


def test_unknown_and_unavailable_tokenizers_are_said() -> None:
    with pytest.raises(RequestError, match=r"tokenize = 'moses': sacreBLEU has .*13a.*zh"):
        build_metric("bleu", tokenize="moses")


def test_a_tokenizer_that_can_not_be_prepared_is_said(monkeypatch) -> None:
    class Broken:
        TOKENIZERS = ("flores200",)

        def __init__(self, **settings: object) -> None:
            raise OSError("no network")

    monkeypatch.setattr(metrics, "BLEU", Broken)
    with pytest.raises(RequestError, match="'flores200': sacreBLEU can't prepare it here: no network"):
        build_metric("bleu", tokenize="flores200")


def test_an_empty_reference_divides_by_nothing() -> None:
    metric, _ = build_metric("token_error")
    assert metric.value(metric.rows([""], [[""]]).sum(0)) == 0
    assert metric.value(metric.rows(["a b"], [[""]]).sum(0)) == 200
