"""Telling languages apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.serve.detect import Detection, Detector

SENTENCES = {
    "en": "Where is the train to the sea? I would like to buy a ticket for tomorrow.",
    "de": "Wo ist der Zug zum Meer? Ich möchte eine Fahrkarte für morgen kaufen.",
    "fr": "Où est le train pour la mer ? Je voudrais acheter un billet pour demain.",
    "es": "¿Dónde está el tren al mar? Me gustaría comprar un billete para mañana.",
    "zh-Hans": "去海边的火车在哪里？我想买一张明天的票。",
    "ja": "海行きの電車はどこですか。明日の切符を買いたいです。",
    "ru": "Где поезд к морю? Я хотел бы купить билет на завтра.",
    "ko": "바다로 가는 기차는 어디에 있습니까?",
    "ar": "أين القطار المتجه إلى البحر؟",
}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(SENTENCES)


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_recognised(detector: Detector, language: str) -> None:
    first = detector.detect(SENTENCES[language])[0]
    assert first.language == language
    assert first.confidence > 80


@pytest.mark.parametrize("text", ["", "12", "🙂", " \n", "ꦗꦮ", "!?"])
def test_what_says_nothing_has_no_confidence(text: str) -> None:
    assert Detector(["fr", "en"]).detect(text) == [Detection("en", 0.0)]


def test_a_name_in_latin_letters_is_not_the_language() -> None:
    assert Detector(["en", "zh-Hans"]).detect("Tom游泳。")[0].language == "zh-Hans"


def test_unknown_codes_do_no_harm() -> None:
    assert Detector(["und", "xx-nonsense", "en"]).detect("the house is on the hill")[0].language == "en"
    assert Detector(["und"]).detect("the house")[0].language == "und"


def test_a_long_text_is_looked_at_in_part() -> None:
    assert Detector(["en", "de"]).detect("the house and the garden " * 100_000)[0].language == "en"


def test_real_sentences(shared_data: Path) -> None:
    detector = Detector(["en", "de", "fr"])
    for language in ("en", "de", "fr"):
        lines = (shared_data / f"multi30k/val.{language}").read_text("utf-8").splitlines()[:300]
        right = sum(detector.detect(line)[0].language == language for line in lines)
        assert right / len(lines) > 0.97
