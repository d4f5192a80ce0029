"""Every option of search on the model that the package brings, with each engine that has it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from glassformer.cli import translate as command
from glassformer.errors import RequestError
from glassformer.text.lines import read_lines
from glassformer.translate import Options, Translation, Translator, choose_shipped, load

TEXTS = [
    *("Where is the station?", "I would like a cup of tea.", "The children are playing in the garden."),
    *("She has been reading that book for a week.", "It is too late to change anything now.", "Thank you."),
]
RELATIVE = 1e-4
TORCH_ONLY: list[Options] = [
    {"penalty": "wu", "length_penalty": 0.6},
    {"stop": "exact"},
    {"min_length": 12},
    {"no_repeat_ngram": 1},
    {"sampling": True, "seed": 1},
]


@pytest.fixture(scope="module")
def torch_engine() -> Translator:
    return load(choose_shipped(), engine="torch")


@pytest.fixture(scope="module")
def fast_engine() -> Translator:
    pytest.importorskip("ctranslate2")
    return load(choose_shipped(), engine="ctranslate2")


@pytest.fixture(params=["torch", "ctranslate2"])
def translator(request: pytest.FixtureRequest) -> Translator:
    name = "torch_engine" if request.param == "torch" else "fast_engine"
    found: Translator = request.getfixturevalue(name)
    return found


def said(found: list[Translation]) -> list[str]:
    return [one.text for one in found]


def ways(one: Translation) -> list[Translation]:
    return [one, *one.alternatives]


def test_the_default_is_english_to_spanish(translator: Translator) -> None:
    assert translator.translate("Where is the station?").text == "¿Dónde está la estación?"
    config = translator.bundle.config
    assert (config.source_language, config.target_language) == ("en", "es")


@pytest.mark.parametrize(
    "options",
    [
        *({"beams": 1}, {"beams": 4}, {"beams": 7}, {"beams": 5, "n_best": 3}),
        *({"length_penalty": 0.0}, {"length_penalty": 2.0}, {"max_length": 4}, {"max_length": 60}),
        *({"prefix": "No sé"}, {"beams": 1, "prefix": ["El", "", "Los", "", "", ""]}),
    ],
    ids=str,
)
def test_both_engines_say_the_same(
    torch_engine: Translator, fast_engine: Translator, options: Options
) -> None:
    ours, theirs = torch_engine.translate(TEXTS, **options), fast_engine.translate(TEXTS, **options)
    for one, other in zip(ours, theirs, strict=True):
        assert [way.text for way in ways(one)] == [way.text for way in ways(other)]
        assert [way.score for way in ways(one)] == pytest.approx(
            [way.score for way in ways(other)], abs=RELATIVE
        )
        assert one.token_log_probs == pytest.approx(list(other.token_log_probs), abs=1e-3)
        assert one.notes == other.notes


def test_n_best_is_sorted_without_duplicates_and_scored_as_forced_scoring_does(
    translator: Translator,
) -> None:
    for best in translator.translate(TEXTS, beams=6, n_best=6):
        found = ways(best)
        assert 2 <= len(found) <= 6
        assert len({one.text for one in found}) == len(found)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        for one in found:
            forced = translator.score(best.source, one.text)
            if forced.ids == one.ids:  # a text may be spelled in other pieces than those that were searched
                assert one.log_prob == pytest.approx(forced.log_prob, abs=1e-3)
                assert list(one.token_log_probs) == pytest.approx(list(forced.token_log_probs), abs=1e-3)


def test_length_penalties(torch_engine: Translator) -> None:
    for one in torch_engine.translate(TEXTS, penalty="wu", length_penalty=0.6):
        length = len(one.token_log_probs)
        assert one.score == pytest.approx(one.log_prob / ((5 + length) / 6) ** 0.6)
    for one in torch_engine.translate(TEXTS, penalty="length", length_penalty=1.0):
        assert one.score == pytest.approx(one.log_prob / len(one.token_log_probs))
    short, long = (
        sum(len(one.ids) for one in torch_engine.translate(TEXTS, beams=8, length_penalty=alpha))
        for alpha in (0.0, 3.0)
    )
    assert short <= long


def test_lengths(translator: Translator, torch_engine: Translator) -> None:
    for one in translator.translate(TEXTS, max_length=3):
        assert len(one.token_log_probs) <= 3
        assert [note.kind for note in one.notes] == ["cut"] or len(one.ids) < 3
    assert all(len(one.ids) >= 12 for one in torch_engine.translate(TEXTS, min_length=12, max_length=40))


def test_no_repeated_n_grams(torch_engine: Translator) -> None:
    for one in torch_engine.translate(["A very very very very good dog.", *TEXTS], no_repeat_ngram=2):
        pairs = list(itertools.pairwise(one.ids))
        assert len(set(pairs)) == len(pairs)


def test_the_exact_rule_never_finds_less(torch_engine: Translator) -> None:
    usual, exact = torch_engine.translate(TEXTS), torch_engine.translate(TEXTS, stop="exact")
    assert all(one.score >= other.score - RELATIVE for one, other in zip(exact, usual, strict=True))


def test_sampling(torch_engine: Translator) -> None:
    def draw(**options: Any) -> list[str]:
        return said(torch_engine.translate(TEXTS, sampling=True, **options))

    assert draw(seed=3) == draw(seed=3)
    assert draw(seed=3) != draw(seed=4)
    greedy = said(torch_engine.translate(TEXTS, beams=1))
    assert draw(top_k=1) == draw(top_p=1e-6) == greedy
    assert draw(temperature=0.001, seed=5) == greedy
    assert draw(temperature=5.0, seed=5) != greedy
    several = torch_engine.translate(TEXTS[0], sampling=True, n_best=8, temperature=2.0)
    assert several.alternatives


def test_a_forced_prefix_is_kept_and_the_rest_is_the_models(translator: Translator) -> None:
    found = translator.translate("Where is the station?", prefix="¿En qué lugar")
    assert found.text.startswith("¿En qué lugar")
    assert len(found.text) > len("¿En qué lugar")
    whole = translator.translate(TEXTS[0]).text
    assert translator.translate(TEXTS[0], prefix=whole.split()[0]).text == whole


def test_forced_scoring_prefers_the_right_translation(translator: Translator) -> None:
    right, wrong = translator.score([TEXTS[0]] * 2, ["¿Dónde está la estación?", "Me gusta el té."])
    assert right.score > wrong.score + 1
    assert len(right.token_log_probs) == len(right.ids) + 1


@pytest.mark.parametrize("beams", [1, 4])
def test_a_stream_grows_into_the_translation(translator: Translator, beams: int) -> None:
    for text in TEXTS:
        shown = list(translator.stream(text, beams=beams))
        assert shown[-1] == translator.translate(text, beams=beams).text
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown))


def test_words_are_aligned(translator: Translator) -> None:
    """Words that can be nothing else, in whatever way the sentences are translated."""
    known = {
        "tea.": "té.",
        "children": "niños",
        "garden.": "jardín.",
        "book": "libro",
        "station?": "estación?",
    }
    found = translator.translate(TEXTS, align=True)
    right = wrong = 0
    for one in found:
        alignment = one.alignment
        assert alignment is not None
        assert alignment.target_words == one.text.split()
        for source, target in alignment.links:
            word, expected = alignment.target_words[target], known.get(alignment.source_words[source])
            if word in known.values():
                right, wrong = right + (word == expected), wrong + (word != expected)
    assert right >= 3
    assert wrong <= 1
    alone = translator.translate(TEXTS[2], align=True).alignment
    assert alone is not None
    assert alone.links == found[2].alignment.links  # type: ignore[union-attr]


@pytest.mark.parametrize("options", TORCH_ONLY, ids=str)
def test_what_one_engine_lacks_goes_to_the_other_and_is_said(options: Options) -> None:
    pytest.importorskip("ctranslate2")
    auto = load(choose_shipped())
    assert auto.engine_for()[0].name == "ctranslate2"
    assert auto.engine_for()[1] == "the fastest that is installed"
    engine, why = auto.engine_for(**options)
    assert engine.name == "torch"
    assert why.startswith("ctranslate2 can't do this: ")
    assert auto.translate(TEXTS[0], **options).text
    with pytest.raises(RequestError, match="use engine torch"):
        load(choose_shipped(), engine="ctranslate2").translate(TEXTS[0], **options)


def test_rounded_weights_say_nearly_the_same(fast_engine: Translator) -> None:
    rounded = load(choose_shipped(), engine="ctranslate2-int8")
    assert rounded.engine_for()[1] == "asked for"
    pairs = zip(said(rounded.translate(TEXTS)), said(fast_engine.translate(TEXTS)), strict=True)
    assert sum(one == other for one, other in pairs) >= len(TEXTS) - 2


def test_any_stream_is_read_piece_by_piece(translator: Translator) -> None:
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for text in itertools.cycle(TEXTS):
            taken += 1
            yield text

    found = translator.translate_lines(lines(), window=12)
    assert said(list(itertools.islice(found, 13))) == (said(translator.translate(TEXTS)) * 3)[:13]
    assert taken == 24


BAD = {
    "blank lines": ("\n  \nThank you.\n\t\n\n", ["", "", "Thank you.", "", ""]),
    "no final newline": ("Thank you.\nThank you.", ["Thank you.", "Thank you."]),
    "an empty file": ("", []),
    "line breaks that are none": ("Thank\u2028you.\nThank\x85you.\x0b\nThank you.\x0c\n", 3),
    "special tokens as text": ("</s>\n<pad> <unk>\nHello </s> you <s>.\n<0x41>\n▁\n", 5),
    "rare scripts, emoji": ("ᚠᚢᚦ\n👩‍👩‍👧‍👦🏳️‍🌈\n𓀀𓀁\nשלום עולם\n你好，世界。\nกขค\n", 6),
    "zero width, NFD, nbsp": ("Tha\u200bnk you.\nca\u0301fe\nThank\u00a0you.\nTha\u00adnk you.\n", 4),
    "control characters": ("\x01Thank\x07 you.\x1b[31m\n\ufeffThank you.\n", 2),
    "half a line end": ("Thank you.\r\nThank you.\r\n", ["Thank you.", "Thank you."]),
    "very long": (f"{'Thank you. ' * 600}\n{'x' * 2500}\nThank you.\n", 3),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_neither_lost_nor_invented(translator: Translator, name: str, tmp_path: Any) -> None:
    content, expected = BAD[name]
    path = tmp_path / "in.txt"
    path.write_bytes(content.encode())
    options: Options = {"beams": 1, "max_length": 16} if name == "very long" else {}
    found = list(translator.translate_lines(read_lines(path), **options))
    if isinstance(expected, list):
        assert said(found) == said(translator.translate(expected))
    else:
        assert len(found) == expected
    for one in found:
        assert not any(mark in one.text for mark in ("<pad>", "</s>", "\n"))
        assert not [note for note in one.notes if note.kind == "error"]


def test_a_line_does_not_feel_the_batch(translator: Translator) -> None:
    together = translator.translate(TEXTS * 11)
    for size in (1, 2, 7):
        apart = [
            one for start in range(0, 6, size) for one in translator.translate(TEXTS[start : start + size])
        ]
        assert said(apart) == said(together)[:6]
        assert [one.score for one in apart] == pytest.approx(
            [one.score for one in together[:6]], abs=RELATIVE
        )


def test_the_command_says_which_engine_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    command.translate("Thank you.", show=command.Show(verbose=True))
    said, notes = capfd.readouterr()
    assert said.strip()
    assert "engine ctranslate2: the fastest that is installed" in notes
    command.translate("Thank you.", show=command.Show(verbose=True), how=command.How(stop="exact"))
    assert "engine torch: ctranslate2 can't do this: it has no stop = 'exact'" in capfd.readouterr().err
