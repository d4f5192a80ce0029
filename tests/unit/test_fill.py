"""Where the blanks of a text are, whatever its tokens are; test_families.py has a model that fills them."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.bundle import Bundle, BundleConfig
from glassformer.cli.fill import fill
from glassformer.config import ModelConfig, TokenizerKind
from glassformer.errors import RequestError
from glassformer.fill import Filler
from glassformer.model.build import build_reader
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer

LINES = ["the big dog barks", "the old cow moos", "a dog. yes, 狗"] * 40
TASK = "masked_language_model"


def filler_of(kind: TokenizerKind) -> Filler:
    tokenizer = train_tokenizer(kind, LINES, size=300)
    tokenizers = TokenizerPair(tokenizer, tokenizer, shared=True)
    shape = ModelConfig(encoder_layers=1, decoder_layers=1, width=8, feed_forward=8, heads=1, max_length=32)
    config = BundleConfig(task=TASK, model=shape, vocabulary=tokenizers.vocabulary())
    return Filler(Bundle(config, tokenizers, build_reader(TASK, shape, config.vocabulary)))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "symbols"])
def test_a_blank_stands_for_a_word(kind: TokenizerKind) -> None:
    filler = filler_of(kind)
    encode, hidden = filler.bundle.tokenizers.source.encode, filler.model.hidden
    assert filler.ids("the ___ barks") == [*encode("the"), hidden, *encode("barks")]
    assert filler.ids("___ dog  ___") == [hidden, *encode("dog"), hidden]
    assert filler.ids("___") == [hidden]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_touches_a_blank_keeps_its_tokens(kind: TokenizerKind) -> None:
    filler = filler_of(kind)
    encode, hidden = filler.bundle.tokenizers.source.encode, filler.model.hidden
    stop = encode("a dog.")[-1]
    assert filler.ids("a ___.") == [*encode("a"), hidden, stop]
    assert filler.ids("a dog___") == [*encode("a dog"), hidden]
    assert filler.ids("a 🐕 ___") == [*encode("a 🐕"), hidden]


def test_a_blank_stands_for_a_character() -> None:
    filler = filler_of("characters")
    d, _, g = filler.bundle.tokenizers.source.encode("dog")
    assert filler.ids("d___g") == [d, filler.model.hidden, g]
    [guesses] = filler.fill("d___g", n_best=1000)
    assert [guess.name for guess in guesses] != []
    assert sum(guess.probability for guess in guesses) == pytest.approx(1.0)
    assert not {"</s>", "<unk>", "<pad>"} & {guess.name for guess in guesses}


def test_symbols_need_space() -> None:
    with pytest.raises(RequestError, match="put spaces around ___"):
        filler_of("symbols").fill("the___dog")


def test_pieces_that_go_on_with_a_word_say_so() -> None:
    filler = filler_of("bpe")
    [guesses] = filler.fill("a ___", n_best=1000)
    names = {guess.name for guess in guesses}
    assert "dog" in names
    assert any(name.startswith("…") for name in names)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filler_of("characters").bundle.save(tmp_path / "model")
    fill("d___g", "c___w", model=str(tmp_path / "model"), n_best=2)
    lines = capsys.readouterr().out.splitlines()
    assert [len(line.split("\t")) for line in lines] == [2, 2]
