"""The metrics of `glassformer.evaluate`: a sentence becomes a row of counts, the sum of rows a score.

BLEU, chrF and TER are sacreBLEU's; exact match and the error rates by edit distance are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import BLEU, CHRF, TER

from glassformer.errors import RequestError

Rows = npt.NDArray[np.float64]
References = Sequence[Sequence[str]]

METRICS = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "chrf++": "chrF2++",
    "ter": "TER",
    "exact": "exact match",
    "token_error": "token error rate",
    "phone_error": "phone error rate",
    "word_error": "word error rate",
    "character_error": "character error rate",
    "line_error": "lines wrong",
}
"""Name and label. token_error, phone_error and word_error are edits per symbol between white space; with
pronunciations, one word a line, what papers call the word error rate is line_error."""

_SAME_LANGUAGE = {"zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}
_SAME_LANGUAGE |= {"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bur": "my"}
_NO_SPACES = ("th", "lo", "km", "my")


class Metric(Protocol):
    """What evaluation asks of a metric."""

    @property
    def higher_is_better(self) -> bool: ...
    def rows(self, hypotheses: Sequence[str], references: References) -> Rows:
        """One row of counts a sentence."""
        ...

    def value(self, sums: Rows) -> float:
        """The corpus score, from the rows' sum."""
        ...

    def sentence_value(self, row: Rows) -> float:
        """The score of one sentence, from its row."""
        ...

    def signature(self) -> str:
        """Everything one must know to get the same number again."""
        ...


def build_metric(
    name: str, target_language: str = "", tokenize: str = "", lowercase: bool = False
) -> tuple[Metric, str]:
    """The metric called `name`, and a note if something about it should be known."""
    if name == "bleu":
        tokenizer, note = (tokenize, "") if tokenize else bleu_tokenizer(target_language)
        return Sacre(_bleu(tokenizer, lowercase), _bleu(tokenizer, lowercase, effective_order=True)), note
    if name in ("chrf", "chrf++"):
        chrf = CHRF(word_order=2 if name == "chrf++" else 0, lowercase=lowercase)
        return Sacre(chrf, chrf), ""
    if name == "ter":
        # Without this a Chinese sentence is one word, right or wrong as a whole.
        characters = _language(target_language) in ("zh", "ja") and tokenize != "none"
        ter = TER(normalized=characters, asian_support=characters)
        return Sacre(ter, ter, higher_is_better=False), ""
    if name in ("exact", "line_error"):
        return Exact(wrong=name == "line_error", lowercase=lowercase), ""
    if name == "character_error":
        return ErrorRate(str.strip, "character", lowercase), ""
    return ErrorRate(str.split, "white-space", lowercase), ""


def bleu_tokenizer(target_language: str) -> tuple[str, str]:
    """(sacreBLEU's name of a tokenizer, a note if it is not the best one) for a language code."""
    language = _language(target_language)
    if language == "zh":
        return "zh", ""
    if language in ("ja", "ko"):
        name = f"{language}-mecab"
        if _constructs(name):
            return name, ""
        return "char", f"BLEU counts characters; for {name}: pip install 'sacrebleu[{language}]'"
    if language in _NO_SPACES:
        return "char", f"BLEU counts characters: '{target_language}' puts no spaces between words"
    return "13a", ""


def edit_distance(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Levenshtein: fewest insertions, deletions and substitutions that turn one into the other.

    A whole column of the table at once, as the bits of one integer (Myers 1999, in Hyyrö's form):
    `up` and `down` hold where the column rises and falls by one from cell to cell.
    """
    if not first or not second:
        return len(first) + len(second)
    places: dict[Any, int] = {}
    for place, symbol in enumerate(first):
        places[symbol] = places.get(symbol, 0) | 1 << place
    every, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    up, down, distance = every, 0, len(first)
    for symbol in second:
        same = places.get(symbol, 0)
        diagonal = (((same & up) + up) ^ up) | same
        right_up = down | ~(diagonal | up)
        right_down = up & diagonal
        distance += bool(right_up & last) - bool(right_down & last)
        right_up = right_up << 1 | 1
        up = (right_down << 1 | ~(same | down | right_up)) & every
        down = right_up & (same | down) & every
    return distance


@dataclass
class Sacre:
    """A metric of sacreBLEU. The two methods with an underscore are what its own bootstrap is built on."""

    metric: Any
    sentence_metric: Any
    higher_is_better: bool = True

    def rows(self, hypotheses: Sequence[str], references: References) -> Rows:
        most = max(len(alternatives) for alternatives in references)
        streams = [[r[place] if place < len(r) else None for r in references] for place in range(most)]
        return np.array(self.metric._extract_corpus_statistics(list(hypotheses), streams), dtype=np.float64)

    def value(self, sums: Rows) -> float:
        return float(self.metric._compute_score_from_stats(list(sums)).score)

    def sentence_value(self, row: Rows) -> float:
        return float(self.sentence_metric._compute_score_from_stats(list(row)).score)

    def signature(self) -> str:
        return str(self.metric.get_signature())


@dataclass
class Exact:
    """Share of lines equal to one of their references (white space at the ends aside), or of all others."""

    wrong: bool
    lowercase: bool

    @property
    def higher_is_better(self) -> bool:
        return not self.wrong

    def rows(self, hypotheses: Sequence[str], references: References) -> Rows:
        right = [self._plain(h) in map(self._plain, r) for h, r in zip(hypotheses, references, strict=True)]
        return np.array([[hit != self.wrong, 1] for hit in right], dtype=np.float64)

    def _plain(self, text: str) -> str:
        return text.strip().lower() if self.lowercase else text.strip()

    def value(self, sums: Rows) -> float:
        return float(100 * sums[0] / sums[1])

    def sentence_value(self, row: Rows) -> float:
        return self.value(row)

    def signature(self) -> str:
        return f"case:{'lc' if self.lowercase else 'mixed'}"


@dataclass
class ErrorRate:
    """Edits for each symbol of the nearest reference (the first, of several that are equally near)."""

    split: Callable[[str], Sequence[str]]
    unit: str
    lowercase: bool
    higher_is_better: bool = False

    def rows(self, hypotheses: Sequence[str], references: References) -> Rows:
        pairs = zip(hypotheses, references, strict=True)
        return np.array([self._row(said, right) for said, right in pairs], dtype=np.float64)

    def _row(self, hypothesis: str, references: Sequence[str]) -> tuple[int, int]:
        said = self._symbols(hypothesis)
        found = [(edit_distance(said, right), len(right)) for right in map(self._symbols, references)]
        return min(found, key=lambda pair: pair[0])

    def _symbols(self, text: str) -> Sequence[str]:
        return self.split(text.lower() if self.lowercase else text)

    def value(self, sums: Rows) -> float:
        return float(100 * sums[0] / max(sums[1], 1))

    def sentence_value(self, row: Rows) -> float:
        return self.value(row)

    def signature(self) -> str:
        return f"unit:{self.unit}|case:{'lc' if self.lowercase else 'mixed'}"


def _bleu(tokenizer: str, lowercase: bool, effective_order: bool = False) -> Any:
    """Sentences want the effective order: a line of three words has no four-gram, and would score 0."""
    known = sorted(BLEU.TOKENIZERS)
    if tokenizer not in known:
        raise RequestError(f"tokenize = '{tokenizer}': sacreBLEU has {', '.join(known)}")
    try:
        return BLEU(tokenize=tokenizer, lowercase=lowercase, effective_order=effective_order, force=True)
    except Exception as error:
        # A missing MeCab, or no network: spm and flores200 are downloaded at their first use.
        reason = " ".join(str(error).split())
        raise RequestError(f"tokenize = '{tokenizer}': sacreBLEU can't prepare it here: {reason}") from error


def _constructs(tokenizer: str) -> bool:
    try:
        BLEU(tokenize=tokenizer)
    except (RuntimeError, ImportError):
        return False
    return True


def _language(code: str) -> str:
    """zh of zh-Hans, zh_CN and cmn."""
    first = code.lower().replace("_", "-").split("-")[0]
    return _SAME_LANGUAGE.get(first, first)
