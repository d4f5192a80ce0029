"""BPE-dropout: SentencePiece's own splits without it, and the same draws in every process with it."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.merges import Merges
from glassformer.text.pieces import SentencePieceTokenizer
from glassformer.text.tokenizer import load_tokenizer, train_tokenizer

TEXTS = [
    "the cat sat on the mat and the hat of the cat",
    "ein Kater saß auf der Matte und die Katze daneben",
    "我们今天去公园玩，明天去学校。",
    "the hat, the mat, the cat: all sat.",
]


@cache
def learn() -> SentencePieceTokenizer:
    found = train_tokenizer("bpe", TEXTS * 4, size=340)
    assert isinstance(found, SentencePieceTokenizer)
    return found


@pytest.fixture
def tokenizer() -> SentencePieceTokenizer:
    return learn()


@given(st.one_of(st.text(max_size=40), st.text(alphabet="the cat▁𐍈é\u0301<>/s", max_size=40)))
def test_without_dropout_it_splits_as_sentencepiece_does(text: str) -> None:
    found = learn()
    assert Merges(found._processor).encode_batch([text, *TEXTS], 0.0, 1) == found.encode_batch([text, *TEXTS])


def test_with_dropout_the_text_is_the_same_in_smaller_pieces(tokenizer: SentencePieceTokenizer) -> None:
    plain = tokenizer.encode_batch(TEXTS)
    for dropout in (0.1, 0.5, 0.9):
        split = tokenizer.encode_batch(TEXTS * 5, dropout, seed=3)
        assert sum(map(len, split)) > 5 * sum(map(len, plain))
        assert tokenizer.decode_batch(split) == tokenizer.decode_batch(plain * 5)


def test_the_lengths_are_those_of_sentencepiece_on_average(tokenizer: SentencePieceTokenizer) -> None:
    many = TEXTS * 300
    theirs = tokenizer._processor.encode(many, out_type=int, enable_sampling=True, nbest_size=-1, alpha=0.2)
    ours = tokenizer.encode_batch(many, 0.2, seed=1)
    assert sum(map(len, ours)) == pytest.approx(sum(map(len, theirs)), rel=0.02)


def test_the_seed_decides_and_nothing_else(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    """Not the order of calls, and not the process: memory lies elsewhere in each."""
    here = tokenizer.encode_batch(TEXTS, 0.3, seed=5)
    assert tokenizer.encode_batch(TEXTS, 0.3, seed=6) != here
    assert tokenizer.encode_batch(TEXTS, 0.3, seed=5) == here
    tokenizer.save(tmp_path / "tokenizer.spm")
    program = (
        "import sys; from glassformer.text.tokenizer import load_tokenizer;"
        f"print(load_tokenizer(sys.argv[1]).encode_batch({TEXTS!r}, 0.3, seed=5))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "tokenizer.spm")]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here)
    assert load_tokenizer(tmp_path / "tokenizer.spm").encode_batch(TEXTS, 0.3, seed=5) == here
