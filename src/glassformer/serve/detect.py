"""Which of the loaded languages is this? By script first, then by letters and by common words.

No model of languages is shipped: the letters' statistics are learned when the server starts, from the names
of countries, languages, months and the like that Babel brings for every language (Unicode CLDR), and a few
lines of common words stand below. That tells whole sentences apart well, single words badly: the confidence
says which.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from babel import Locale, UnknownLocaleError

from glassformer.align import words
from glassformer.serve.languages import UNDETERMINED, script

# Words that make up about a third of any text, for languages in the Latin alphabet.
_COMMON = {
    "cs": "a v se na je že s z do o i ale jako za by pro jsem po tak to jsou které nebo od byl si ve co není",
    "da": "og i at det er en til af på med for den som har de ikke et der var jeg om men fra ved vi kan han",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an wir",
    "en": "the of and to in a is that it was for on are as with they at be this have from hello what your my",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha",
    "fi": "ja on ei se että oli hän en ovat mutta kun niin myös minä mitä olen kuin vain jos tämä ole sitä",
    "fr": "de la le et les des en un une du que qui est dans pour pas au sur il elle ce ne se plus par vous",
    "hu": "a az és hogy nem is egy ez van volt meg de már csak mint ha el azt én még ki fel minden lesz vagy",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada mereka kita",
    "it": "di che e la il un a per in una non sono da con del si i le mi come ma gli della lo al nel ho più",
    "nl": "de en van ik het een dat die in te niet zijn is was op aan met als voor had er maar om hij dan",
    "no": "og i jeg det at en den til er som på de med han av ikke der så var meg seg men ett har om vi min",
    "pl": "w i na z się do nie że to jest o jak od za po przez co ale tak był jego są ich już tylko dla przy",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das",
    "ro": "și de a în la nu o să cu pe un că din mai este se pentru care ce dar au sunt fi le ca am fost lui",
    "sv": "och i att det som en på är av för med till den har de inte om ett han men var jag från vi så kan",
    "tr": "ve bir bu da de için ile çok olarak daha gibi olan ne ama o var ben mi sonra kadar değil en her",
    "vi": "và của là có được không cho trong một các người với đã này những tôi đó để khi như về ra từ đến",
}
_COMMON["nb"] = _COMMON["no"]
_WORD_WEIGHT = 60
"""a common word counts as often as this among the letters' statistics"""
_WORDS = re.compile(r"[^\W\d_]+")
_SAMPLE = 2000
"""characters that are looked at"""

# Scripts whose characters' Unicode names begin otherwise than ISO 15924's English names.
_NAMES = {
    "Latn": {"LATIN"},
    "Cyrl": {"CYRILLIC"},
    "Grek": {"GREEK"},
    "Arab": {"ARABIC"},
    "Hebr": {"HEBREW"},
    "Hans": {"CJK"},
    "Hant": {"CJK"},
    "Jpan": {"HIRAGANA", "KATAKANA", "CJK"},
    "Kore": {"HANGUL"},
    "Deva": {"DEVANAGARI"},
    "Beng": {"BENGALI"},
    "Taml": {"TAMIL"},
    "Telu": {"TELUGU"},
    "Thai": {"THAI"},
    "Geor": {"GEORGIAN"},
    "Armn": {"ARMENIAN"},
    "Ethi": {"ETHIOPIC"},
    "Khmr": {"KHMER"},
    "Laoo": {"LAO"},
    "Mymr": {"MYANMAR"},
    "Gujr": {"GUJARATI"},
    "Guru": {"GURMUKHI"},
    "Knda": {"KANNADA"},
    "Mlym": {"MALAYALAM"},
    "Sinh": {"SINHALA"},
}


@dataclass(frozen=True)
class Detection:
    """A language and how sure we are, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Tells the given languages apart."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.languages = sorted(set(languages) - {UNDETERMINED}) or [UNDETERMINED]
        self._statistics = {language: _Statistics(language) for language in self.languages}

    def detect(self, text: str) -> list[Detection]:
        """The languages it may be, the likeliest first; a text without letters: the first one, at 0."""
        text = text[:_SAMPLE]
        scripts = [_script_name(text[start:end]) for start, end in words(text)]
        scripts = [name for name in scripts if name]
        if not scripts or not self.languages:
            return [Detection(language, 0.0) for language in self.languages[:1]]
        shares = {language: _share(scripts, language) for language in self.languages}
        most = max(shares.values())
        if most < 0.2:  # none of ours is written like this
            return [Detection(self.languages[0], 0.0)]
        likely = [language for language in self.languages if shares[language] > most - 0.2]
        grams = list(_grams(text))
        scores = [self._statistics[language].log_prob(grams) for language in likely]
        parts = _softmax(scores) if len(likely) > 1 else [1.0]
        found = [
            Detection(language, round(100 * most * part, 1))
            for language, part in zip(likely, parts, strict=True)
        ]
        found.sort(key=lambda one: -one.confidence)
        return [one for one in found if one.confidence >= 1] or found[:1]


class _Statistics:
    """How often one, two and three letters follow each other in a language."""

    def __init__(self, language: str) -> None:
        counts = Counter(gram for text in _samples(language) for gram in _grams(text))
        for word in _COMMON.get(language.split("-")[0], "").split():
            counts.update(dict.fromkeys(_grams(word), _WORD_WEIGHT))
        self._counts = counts
        self._totals = Counter({1: 0, 2: 0, 3: 0})
        for gram, count in counts.items():
            self._totals[len(gram)] += count

    def log_prob(self, grams: Sequence[str]) -> float:
        """Sum over the n-grams, half a count added to each."""
        return sum(
            math.log((self._counts[gram] + 0.5) / (self._totals[len(gram)] + 0.5 * 30 ** len(gram)))
            for gram in grams
        )


def _grams(text: str) -> Iterator[str]:
    for word in _WORDS.findall(text.casefold()):
        padded = f" {word} "
        for length in (1, 2, 3):
            for start in range(len(padded) - length + 1):
                yield padded[start : start + length]


def _samples(language: str) -> Iterator[str]:
    """Words in a language that Babel knows."""
    try:
        locale = Locale.parse(language, sep="-")
    except (ValueError, UnknownLocaleError):
        return
    for names in (locale.languages, locale.territories, locale.scripts, locale.currencies):
        yield from names.values()
    yield from _texts(locale.months)
    yield from _texts(locale.days)
    yield from _texts(locale.quarters)


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for branch in tree.values():
            yield from _texts(branch)


def _share(scripts: Sequence[str], language: str) -> float:
    """How many of the words are written in a language's script."""
    names = _NAMES.get(script(language), set())
    share = sum(name in names for name in scripts) / len(scripts)
    kana = any(name in ("HIRAGANA", "KATAKANA") for name in scripts)
    if "CJK" in names and kana != ("HIRAGANA" in names):
        return share / 2  # Chinese has no kana, Japanese is hardly ever without
    return share


def _script_name(word: str) -> str:
    """The script of a word's first letter as Unicode's names begin; empty for numbers and signs."""
    letter = next((character for character in word if character.isalpha()), "")
    return unicodedata.name(letter, "").split(" ")[0] if letter else ""


def _softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities; the n-grams overlap, so their evidence counts a third."""
    best = max(scores)
    weights = [math.exp((score - best) / 3) for score in scores]
    return [weight / sum(weights) for weight in weights]
