"""The head finder knows a pattern when it sees one, and finds the head that aligns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig
from glassformer.data.batch import collate
from glassformer.errors import RequestError
from glassformer.look.ablate import ablate, ablate_each
from glassformer.look.heads import Lexicon, alignment_error_rate, error_rates, find_heads, links_of
from glassformer.look.patterns import Marks, profiles, tally
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.train.objective import TranslationObjective
from glassformer.translate import Translator, load

PIECES = ["▁the", "▁cat", "▁sat", ".", "</s>"]


@pytest.mark.parametrize(
    ("label", "columns", "cross"),
    [
        ("previous", [0, 0, 1, 2, 3], False),
        ("next", [1, 2, 3, 4, 4], False),
        ("same", [0, 1, 2, 3, 4], False),
        ("first", [0, 0, 0, 0, 0], False),
        ("punctuation", [3, 4, 4, 4, 3], False),
        ("diagonal", [0, 1, 2, 3, 4], True),
        ("first", [0, 0, 0, 0, 0], True),
        ("punctuation", [4, 4, 3, 4, 3], True),
    ],
)
def test_pure_patterns_have_their_names(label: str, columns: list[int], cross: bool) -> None:
    weights_HTS = torch.full((1, 5, 5), 0.02)
    weights_HTS[0, torch.arange(5), torch.tensor(columns)] = 0.92
    [profile] = profiles(*tally(weights_HTS, Marks.of(PIECES), cross=cross))
    assert profile.label == label
    assert profile.score == pytest.approx(0.92, abs=0.05)
    assert profile.entropy < 0.3


def test_a_head_that_looks_everywhere_has_no_name() -> None:
    [profile] = profiles(*tally(torch.full((1, 8, 8), 1 / 8), Marks.of(["a"] * 8), cross=False))
    assert profile.label == ""
    assert profile.entropy == pytest.approx(1)


def test_a_sentence_of_one_token_breaks_nothing() -> None:
    for cross in (False, True):
        [profile] = profiles(*tally(torch.ones(1, 1, 1), Marks.of(["</s>"]), cross=cross))
        assert profile.entropy == 0


def test_words_explain_words() -> None:
    lexicon = Lexicon([([2, 3], [5, 6]), ([3], [6]), ([2, 4], [7, 5])])
    assert lexicon.posterior([2, 3], [6, 5]).argmax(-1).tolist() == [1, 0]


def test_error_rate_of_alignments() -> None:
    assert alignment_error_rate([(0, 0)], [(0, 0)]) == 0
    assert alignment_error_rate([(1, 0)], [(0, 0)]) == 1
    assert alignment_error_rate([(0, 0), (1, 1)], [(0, 0)], [(1, 1)]) == 0
    assert alignment_error_rate([], []) == 0
    assert links_of(torch.tensor([[0.1, 0.9], [0.8, 0.2]])) == {(1, 0), (0, 1)}


WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def number_pairs(count: int) -> list[tuple[str, str]]:
    """What the `numbers` bundle has learnt: word for character, so token i comes from token i."""
    chance = random.Random(7)
    texts = [[chance.randrange(10) for _ in range(chance.randint(2, 7))] for _ in range(count)]
    return [
        (" ".join(WORDS[i] for i in text) + ".", "".join("一二三四五六七八九十"[i] for i in text) + "。")
        for text in texts
    ]


def test_the_recommended_head_aligns_a_known_language(numbers: Path) -> None:
    translator, pairs = load(numbers, engine="torch"), number_pairs(60)
    report = find_heads(translator, pairs)
    assert len(report.heads) == 10
    rates = error_rates(translator, pairs, [[(i, i) for i in range(len(pair[1]))] for pair in pairs])
    assert set(rates) == {(layer, head) for layer in range(2) for head in range(2)}
    best = report.aligning
    assert rates[best.layer, best.head] <= min(rates.values()) + 0.03
    assert rates[best.layer, best.head] < 0.15
    [chosen] = [one for one in report.heads if (one.place, one.head) == (best.place, best.head)]
    assert chosen.profile.label == "diagonal"
    assert chosen.agreement == max(one.agreement or 0 for one in report.heads)


def test_nothing_to_watch_is_said(numbers: Path) -> None:
    translator = load(numbers, engine="torch")
    with pytest.raises(RequestError, match="no sentence pair"):
        find_heads(translator, [("", "一")])
    with pytest.raises(RequestError, match="1 lists of links for 2"):
        error_rates(translator, number_pairs(2), [[]])


def test_bleu_with_and_without_heads(numbers: Path) -> None:
    translator, pairs = load(numbers), number_pairs(20)
    best = find_heads(translator, pairs).aligning
    found = ablate(translator, [(best.place, best.head)], pairs)
    assert found.bleu_before.value > 90
    assert found.change < -5
    assert found.before != found.after
    assert ablate(translator, [], pairs).change == 0
    each = ablate_each(translator, pairs, beams=1)
    assert each["pairs"] == 20
    assert len(each["without"]) == 10
    assert min(each["without"].values()) < each["bleu"]
    with pytest.raises(RequestError, match="no head 7"):
        ablate(translator, [("decoder.0.cross", 7)], pairs)
    with pytest.raises(RequestError, match="no sentence pairs"):
        ablate(translator, [], [])


def swapped(chance: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    """A language with another order: the target puts each pair of words the other way round."""
    source = [chance.choice("abcdefghijklmnop") for _ in range(chance.randint(3, 9))]
    order = [i for at in range(0, len(source), 2) for i in reversed(range(at, min(at + 2, len(source))))]
    return source, [source[i].upper() for i in order], [(i, place) for place, i in enumerate(order)]


def train_on(make: Callable[[], tuple[str, str]], texts: Iterable[str], steps: int) -> Translator:
    tokenizer = train_tokenizer("symbols", texts)
    tokenizers = TokenizerPair(tokenizer, tokenizer, shared=True)
    config = ModelConfig(
        encoder_layers=2, decoder_layers=2, width=48, feed_forward=96, heads=2, norm="pre", dropout=0.0
    )
    torch.manual_seed(0)
    model = build_model(config, tokenizers.vocabulary())
    objective, adam = TranslationObjective(model), torch.optim.Adam(model.parameters())
    for step in range(steps):
        adam.param_groups[0]["lr"] = 0.004 * min(1, (step + 1) / 50) * (1 - step / steps)
        pairs = [make() for _ in range(48)]
        batch = collate([(tokenizer.encode(s), tokenizer.encode(t)) for s, t in pairs], model.vocabulary)
        losses = objective(batch)
        adam.zero_grad()
        (losses.loss_sum / losses.tokens).backward()
        adam.step()
    bundle = Bundle(BundleConfig(vocabulary=model.vocabulary, model=config), tokenizers, model.eval())
    return Translator(bundle, engine="torch")


@pytest.mark.full
def test_the_recommended_head_aligns_a_language_with_another_order() -> None:
    chance = random.Random(1)

    def make() -> tuple[str, str]:
        source, target, _ = swapped(chance)
        return " ".join(source), " ".join(target)

    translator = train_on(make, ["a b c d e f g h i j k l m n o p", "A B C D E F G H I J K L M N O P"], 600)
    examples = [swapped(chance) for _ in range(100)]
    pairs = [(" ".join(source), " ".join(target)) for source, target, _ in examples]
    assert sum(translator.translate(source).text == target for source, target in pairs) > 95
    best = find_heads(translator, pairs).aligning
    rates = error_rates(translator, pairs, [links for *_, links in examples])
    assert rates[best.layer, best.head] == min(rates.values())
    assert rates[best.layer, best.head] < 0.15
