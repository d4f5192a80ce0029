"""The made-up language does what its description says."""

from __future__ import annotations

from glassformer.compare.language import ADJECTIVES, GENDERS, MOODS, NOUNS, VERBS, gender, sentence_pairs
from glassformer.compare.language import _words as words


def test_every_word_is_what_the_grammar_makes_of_it() -> None:
    nouns, adjectives, verbs = words()
    assert (len(nouns), len(adjectives), len(verbs)) == (NOUNS, ADJECTIVES, VERBS)
    assert len({*nouns, *adjectives, *verbs, *MOODS}) == NOUNS + ADJECTIVES + VERBS + len(MOODS)
    for source, target in sentence_pairs(300, range(4, 30), seed=3):
        mood, subject, verb, *rest = source.split()
        said = target.split()
        assert said[0] == subject.upper()
        assert said[-1] == f"{verb.upper()}-{mood}-{gender(subject)}"
        phrase: list[str] = []
        expected: list[str] = []
        for word in rest:
            phrase.append(word)
            if word in nouns:
                expected += [word.upper(), *(f"{one.upper()}-{gender(word)}" for one in phrase[:-1])]
                phrase = []
        assert not phrase, "a sentence ends with a noun"
        assert said[1:-1] == expected


def test_lengths_are_as_asked_and_nothing_comes_twice() -> None:
    pairs = list(sentence_pairs(2000, range(4, 13), seed=1))
    assert len({source for source, _ in pairs}) == 2000
    assert {len(source.split()) for source, _ in pairs} == set(range(4, 13))
    assert all(len(target.split()) == len(source.split()) - 1 for source, target in pairs)
    assert pairs == list(sentence_pairs(2000, range(4, 13), seed=1))
    assert pairs != list(sentence_pairs(2000, range(4, 13), seed=2))


def test_genders_are_shared_out() -> None:
    counts = [sum(gender(noun) == one for noun in words()[0]) for one in GENDERS]
    assert max(counts) - min(counts) <= 1
