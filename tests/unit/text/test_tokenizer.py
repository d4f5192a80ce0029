"""Tokenizers of every kind: layout, round trips, offsets, literal special tokens, dropout, files."""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.config import TokenizerConfig, TokenizerKind
from glassformer.errors import TokenizerError
from glassformer.text import tokenizer as tokenizers
from glassformer.text.dates import date_pairs
from glassformer.text.pieces import SentencePieceTokenizer
from glassformer.text.tokenizer import (
    Tokenizer,
    TokenizerPair,
    load_tokenizer,
    train_tokenizer,
    train_tokenizers,
)

ENGLISH = ["the quick brown fox jumps over the lazy dog", "she sells sea shells", "a b c , . ! ?"] * 20
SCRIPTS = [
    "Ελληνικά και кириллица",
    "עברית العربية فارسی",
    "हिन्दी தமிழ் ไทย ລາວ",
    "中文，没有空格。日本語も。",
    "𓀀𓂀 𐍈 𝔘𝔫𝔦",
    "👨‍👩‍👧‍👦 🏳️‍🌈 e\u0301 é",
    "zero\u200bwidth soft\u00adhyphen nb\u00a0sp \u2028 \u0085",
]
KINDS: list[TokenizerKind] = ["bpe", "unigram", "characters", "symbols"]


@pytest.fixture(scope="module")
def made() -> dict[str, Tokenizer]:
    texts = [*ENGLISH, *(text for pair in date_pairs(300) for text in pair)]
    return {kind: train_tokenizer(kind, texts, size=500) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_layout(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    assert (tokenizer.eos, tokenizer.unk, tokenizer.pad, tokenizer.kind) == (0, 1, tokenizer.size - 1, kind)
    assert tokenizer.pieces([0, 1, tokenizer.pad]) == ["</s>", "<unk>", "<pad>"]
    ids = tokenizer.encode("the quick fox")
    assert all(1 < i < tokenizer.pad for i in ids)
    assert tokenizer.decode(ids) == "the quick fox"
    assert tokenizer.decode([*ids, 0, tokenizer.pad]) == "the quick fox"
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode("") == []
    assert tokenizer.encode_batch([]) == []


def test_sentencepiece_knows_nothing_of_the_padding(made: dict[str, Tokenizer]) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=made["bpe"].to_bytes())
    assert processor.get_piece_size() == made["bpe"].size - 1
    assert (processor.eos_id(), processor.unk_id(), processor.bos_id(), processor.pad_id()) == (0, 1, -1, -1)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("text", SCRIPTS)
def test_bytes_spell_what_was_never_seen(made: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = made[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknown(text) == []


@pytest.mark.parametrize("kind", ["characters", "symbols"])
def test_lists_count_what_they_do_not_know(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    text = "the 龘 dog"
    assert tokenizer.unknown(text) == ["龘"]
    assert tokenizer.encode(text).count(1) == 1
    assert tokenizer.decode(tokenizer.encode(text)) == "the ⁇ dog"


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("▁ a ▁b")
@example("  two  spaces  ")
@example("</s><pad><unk>")
@example("\0")
def test_the_round_trip_gives_the_normalised_text(made: dict[str, Tokenizer], text: str) -> None:
    for kind in ("bpe", "unigram"):
        tokenizer = made[kind]
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalise(text)


def test_identity_changes_nothing_but_spaces(made: dict[str, Tokenizer]) -> None:
    bpe = made["bpe"]
    for text in [*SCRIPTS, "ｆｕｌｌ，width", "ﬁ ² ½", "tab\there"]:
        assert bpe.normalise(text) == text
    assert bpe.normalise("  a   b ") == "a b"
    assert bpe.encode("   ") == []


def test_normalisation_lives_in_the_model() -> None:
    nfkc = train_tokenizer("bpe", ENGLISH, size=300, normalisation="nfkc")
    assert nfkc.decode(nfkc.encode("ｆｏｘ ﬁ")) == nfkc.normalise("ｆｏｘ ﬁ") == "fox fi"


SPECIAL_LITERALS = ["</s>", "<pad>", "<unk>", "<s>", "a </s> b", "<pad><pad>", "⁇", "<0x41>"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen in training"])
def test_special_tokens_in_text_are_text(made: dict[str, Tokenizer], kind: TokenizerKind, seen: bool) -> None:
    texts = [*ENGLISH, *SPECIAL_LITERALS * 30] if seen else ENGLISH
    tokenizer = train_tokenizer(kind, texts, size=400)
    for text in SPECIAL_LITERALS:
        ids = tokenizer.encode(text)
        assert 0 not in ids
        assert tokenizer.pad not in ids
        if seen or kind in ("bpe", "unigram"):
            assert 1 not in ids
            assert tokenizer.decode(ids) == text
    assert tokenizer.decode([0, tokenizer.pad, 0]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_cover_the_text(made: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = made[kind]
    text = "she sells 👍 4 mars"
    tokens = tokenizer.tokens(text)
    assert [token.id for token in tokens] == tokenizer.encode(text)
    assert all(one.end <= two.start for one, two in itertools.pairwise(tokens))
    joined = "".join(text[token.start : token.end] for token in tokens)
    assert joined == (text.replace(" ", "") if kind == "symbols" else text)
    for token in tokens:
        if not token.piece.startswith("<0x"):
            assert token.piece.replace("▁", "").strip() == text[token.start : token.end].strip()


def test_unsegmented_languages_need_no_setting() -> None:
    texts = ["我们去学校", "他们不去学校", "你去学校吗", "学校很大", "我们的学校"] * 10
    tokenizer = train_tokenizer("bpe", texts, size=300)
    assert "学校" in "|".join(tokenizer.pieces(tokenizer.encode("学校很大")))
    assert tokenizer.decode(tokenizer.encode("我去，你不去。")) == "我去，你不去。"


def test_a_small_vocabulary_for_many_characters_spells_the_rare_ones() -> None:
    texts = [chr(0x4E00 + n) * (1 + 2000 // (n + 1)) for n in range(1500)]
    tokenizer = train_tokenizer("bpe", texts, size=600)
    assert tokenizer.size <= 601
    text = "".join(chr(0x4E00 + n) for n in range(0, 1500, 100))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_same_text_gives_the_same_tokenizer() -> None:
    for kind in KINDS:
        one, two = (train_tokenizer(kind, iter(ENGLISH), size=300) for _ in range(2))
        assert one.to_bytes() == two.to_bytes()
        assert one.fingerprint() == two.fingerprint()
        assert one.fingerprint() != train_tokenizer(kind, [*ENGLISH, "zebra"] * 3, size=300).fingerprint()


def test_long_lines_are_learnt_from(capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = train_tokenizer("bpe", ["hello world " * 1000], size=300)
    assert len(tokenizer.encode("hello world")) == 2
    assert capfd.readouterr() == ("", "")  # and SentencePiece is silent


def test_huge_corpora_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "SAMPLE", 100)
    made = [train_tokenizer("bpe", (f"number {n} word" for n in range(2000)), size=300) for _ in range(2)]
    assert made[0].to_bytes() == made[1].to_bytes()
    sample = tokenizers._Sample()
    for n in range(2000):
        sample.add(str(n))
    assert len(sample.lines) == 100
    assert max(map(int, sample.lines)) > 1500


def test_very_long_sentences_take_no_time(made: dict[str, Tokenizer]) -> None:
    began = time.perf_counter()
    for kind in ("bpe", "unigram"):
        for text in ("w" * 50_000, "the lazy dog " * 35_000):
            assert made[kind].decode(made[kind].encode(text)) == text.strip()
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize(
    ("kind", "texts", "size", "said"),
    [
        ("bpe", [], 300, "there is no text"),
        ("bpe", ["", "  "], 300, "there is no text"),
        ("symbols", [" "], 300, "there is no text"),
        ("bpe", ["abc"], 100, "tokenizer.size = 100 is too small: 256 entries"),
    ],
)
def test_what_can_not_be_learnt(kind: TokenizerKind, texts: list[str], size: int, said: str) -> None:
    with pytest.raises(TokenizerError, match=said):
        train_tokenizer(kind, texts, size=size)


# ---- dropout --------------------------------------------------------------------------------------------


def test_dropout_is_a_function_of_the_seed(made: dict[str, Tokenizer]) -> None:
    bpe = made["bpe"]
    plain = bpe.encode_batch(ENGLISH)
    one = bpe.encode_batch(ENGLISH, dropout=0.2, seed=1)
    assert one == bpe.encode_batch(ENGLISH, dropout=0.2, seed=1)
    assert one != bpe.encode_batch(ENGLISH, dropout=0.2, seed=2)
    assert sum(map(len, one)) > sum(map(len, plain))
    assert bpe.decode_batch(one) == ENGLISH
    assert bpe.encode_batch(ENGLISH) == plain  # and leaves nothing behind


def test_dropout_does_not_depend_on_the_thread(made: dict[str, Tokenizer]) -> None:
    bpe = made["bpe"]

    def split(seed: int) -> list[list[int]]:
        return bpe.encode_batch(ENGLISH, dropout=0.3, seed=seed)

    expected = [split(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(split, range(8))) == expected


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1, 2**32, 2**63])
def test_any_seed_will_do(made: dict[str, Tokenizer], seed: int) -> None:
    one, two = (made["bpe"].encode_batch(ENGLISH, dropout=0.2, seed=seed) for _ in range(2))
    assert one == two


def test_dropout_of_everything_leaves_characters(made: dict[str, Tokenizer]) -> None:
    (ids,) = made["bpe"].encode_batch(["the lazy dog"], dropout=0.999999, seed=1)
    assert len(ids) == len("▁the▁lazy▁dog")


@pytest.mark.parametrize("kind", ["unigram", "characters", "symbols"])
def test_dropout_is_for_merges(made: dict[str, Tokenizer], kind: str) -> None:
    with pytest.raises(TokenizerError, match=f"only kind = 'bpe' has; this tokenizer is {kind}"):
        made[kind].encode_batch(["a"], dropout=0.1)


# ---- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_is_the_same(made: dict[str, Tokenizer], kind: str, tmp_path: Path) -> None:
    tokenizer = made[kind]
    path = tmp_path / tokenizer.file_name
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert (loaded.kind, loaded.size) == (tokenizer.kind, tokenizer.size)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert loaded.encode_batch(ENGLISH) == tokenizer.encode_batch(ENGLISH)


def test_odd_entries_survive_the_file(tmp_path: Path) -> None:
    odd = ["foo\r", '"', "\\", "\u2028", "\x85", "</s>", "<pad>", "\ufeff"]
    characters = train_tokenizer("characters", odd)
    path = tmp_path / "x.vocab.json"
    characters.save(path)
    for text in odd:
        assert load_tokenizer(path).decode(load_tokenizer(path).encode(text)) == text


def pairs() -> list[tuple[str, str]]:
    return list(date_pairs(200))


@pytest.mark.parametrize(
    ("config", "files"),
    [
        (TokenizerConfig(size=300), ["tokenizer.spm"]),
        (TokenizerConfig(size=300, joint=False), ["source.spm", "target.spm"]),
        (TokenizerConfig(kind="characters"), ["tokenizer.vocab.json"]),
        (
            TokenizerConfig(source_kind="bpe", target_kind="symbols", size=300, joint=False),
            ["source.spm", "target.vocab.json"],
        ),
    ],
)
def test_pairs(config: TokenizerConfig, files: list[str], tmp_path: Path) -> None:
    both = train_tokenizers(config, pairs)
    both.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.vocabulary() == both.vocabulary()
    assert loaded.vocabulary().problems() == []
    assert loaded.fingerprint() == both.fingerprint()
    assert loaded.shared == config.joint == (loaded.source is loaded.target)
    assert both.vocabulary().start == both.vocabulary().target_pad == both.target.size - 1


def test_what_is_missing_in_a_directory(tmp_path: Path, made: dict[str, Tokenizer]) -> None:
    with pytest.raises(TokenizerError, match=r"expected tokenizer.spm.*found none of them"):
        TokenizerPair.load(tmp_path)
    made["bpe"].save(tmp_path / "source.spm")
    with pytest.raises(TokenizerError, match=r"found source.spm"):
        TokenizerPair.load(tmp_path)


def test_foreign_and_damaged_models(tmp_path: Path, made: dict[str, Tokenizer]) -> None:
    model = made["bpe"].to_bytes()
    other = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH),
        model_writer=other,
        vocab_size=40,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    for content, said in (
        (b"", "not a SentencePiece model, or a damaged one"),
        (b"some text\n", "not a SentencePiece model, or a damaged one"),
        (model[:-5], "not a SentencePiece model, or a damaged one"),
        (other.getvalue(), r"layout is another one \(eos is 2, not 0; unk is 0, not 1\)"),
    ):
        path = tmp_path / "tokenizer.spm"
        path.write_bytes(content)
        with pytest.raises(TokenizerError, match=said) as caught:
            load_tokenizer(path)
        assert str(path) in str(caught.value)
    with pytest.raises(TokenizerError, match="No such file"):
        load_tokenizer(tmp_path / "none.spm")


def test_the_kind_stands_in_the_model(made: dict[str, Tokenizer]) -> None:
    for kind in ("bpe", "unigram"):
        assert SentencePieceTokenizer(made[kind].to_bytes()).kind == kind


def vocabulary(**changes: object) -> str:
    content = {"format": 1, "kind": "symbols", "specials": ["</s>", "<unk>"], "entries": ["AA", "B", "K"]}
    return json.dumps({**content, **changes}, indent=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (vocabulary(entries=["AA", "B", "AA"]), "line 11: entry 2 is wrong: 'AA' stands already at entry 0"),
        (vocabulary(entries=["AA", "", "B"]), "line 10: entry 1 is wrong: it is blank"),
        (vocabulary(entries=["AA", "B C"]), "line 10: entry 1 is wrong: 'B C' holds white space"),
        (vocabulary(entries=["AA", 7]), "line 10: entry 1 is wrong: 7 is not text"),
        (vocabulary(entries=['\\"[', "x,y", "x,y"]), "line 11: entry 2 is wrong: 'x,y' stands already"),
        (vocabulary(kind="characters"), "line 9: entry 0 is wrong: 'AA' is not a single character"),
        (vocabulary(specials=["<unk>"]), 'specials must be ["</s>", "<unk>"], not ["<unk>"]'),
        (vocabulary(specials=None), 'specials must be ["</s>", "<unk>"], not null'),
        (vocabulary(entries=[]), "entries must be a list with at least one entry"),
        (vocabulary(kind="words"), "kind = 'words': choose characters | symbols | labels"),
        (vocabulary(format=2), 'an object with "format": 1 was expected'),
        ('{"format": 1,\n "kind": ', "line 2: not valid JSON"),
        ("[]", 'an object with "format": 1 was expected'),
    ],
)
def test_vocabularies_are_read_strictly(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.vocab.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_byte_order_mark_before_a_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "a.vocab.json"
    path.write_bytes(b"\xef\xbb\xbf" + vocabulary().encode())
    assert load_tokenizer(path).encode("B AA") == [3, 2]
    path.write_bytes(b"\xff")
    with pytest.raises(TokenizerError, match=r"not UTF-8 \(byte offset 0\)"):
        load_tokenizer(path)


def test_shared_must_be_true(made: dict[str, Tokenizer]) -> None:
    wrong: list[Callable[[], TokenizerPair]] = [
        lambda: TokenizerPair(made["bpe"], made["bpe"], shared=False),
        lambda: TokenizerPair(made["bpe"], made["unigram"], shared=True),
    ]
    for make in wrong:
        with pytest.raises(TokenizerError, match="shared"):
            make()
