"""SentencePiece with a table of ids: layout, offsets, codes, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.errors import TokenizerError
from glassformer.text.mapped import MappedTokenizer, table_path
from glassformer.text.tokenizer import TokenizerPair, load_tokenizer
from tests.foreign import opus_ids, opus_pieces


def make(side: int = 0, *, eos_first: bool = True) -> MappedTokenizer:
    models = list(opus_pieces())
    ids = opus_ids(models, eos_first=eos_first, codes=True)
    return MappedTokenizer(models[side], ids, eos=ids["</s>"], unk=ids["<unk>"], pad=ids["<pad>"])


@pytest.mark.parametrize("eos_first", [True, False])
def test_ids_are_the_table_s(eos_first: bool) -> None:
    tokenizer = make(eos_first=eos_first)
    ids = tokenizer.encode("He loves the sea.")
    assert ids == [tokenizer.ids[piece] for piece in tokenizer.pieces(ids)]
    assert tokenizer.decode([*ids, tokenizer.eos, tokenizer.pad]) == "He loves the sea."
    assert tokenizer.size == len(tokenizer.ids)
    assert tokenizer.pad == tokenizer.size - 1
    assert tokenizer.encode("") == []
    assert tokenizer.encode_batch([]) == []


def test_a_language_code_is_one_token_at_the_start_only() -> None:
    tokenizer = make()
    ids = tokenizer.encode(">>deu<< He loves")
    assert ids[0] == tokenizer.ids[">>deu<<"]
    assert tokenizer.decode(ids) == ">>deu<< He loves" == tokenizer.normalise(">>deu<<   He loves ")
    assert tokenizer.encode(">>xyz<< He")[0] == tokenizer.unk
    assert tokenizer.ids[">>deu<<"] not in tokenizer.encode("He >>deu<<")


def test_special_tokens_in_text_are_text() -> None:
    tokenizer = make()
    specials = {tokenizer.eos, tokenizer.pad}
    for text in ("</s>", "<pad>", "He </s> loves <pad>"):
        assert not specials & set(tokenizer.encode(text))


def test_a_character_only_the_other_side_knows_has_its_id() -> None:
    source = make(0)
    assert source.ids["ß"] in source.encode("ß")  # the English model has no ß; the common table has
    assert source.unknown("ß") == []
    assert source.unknown("鬼 sees 鬼") == ["鬼", "鬼"]


def test_offsets_count_the_code() -> None:
    tokenizer = make()
    text = ">>deu<< He loves"
    tokens = tokenizer.tokens(text)
    assert [token.id for token in tokens] == tokenizer.encode(text)
    assert (tokens[0].start, tokens[0].end) == (0, 7)
    assert [text[token.start : token.end] for token in tokens][:2] == [">>deu<<", "He"]
    assert tokens[-1].end == len(text)


def test_two_models_and_one_table_are_one_vocabulary(tmp_path: Path) -> None:
    pair = TokenizerPair(make(0), make(1), shared=True)
    assert pair.vocabulary().shared
    pair.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "source.ids.json", "source.spm", "target.ids.json", "target.spm",
    ]  # fmt: skip
    again = TokenizerPair.load(tmp_path)
    assert again.shared
    assert again.fingerprint() == pair.fingerprint()
    assert again.vocabulary() == pair.vocabulary()
    with pytest.raises(TokenizerError):
        TokenizerPair(make(0), make(1), shared=False)


def test_dropout_is_refused() -> None:
    with pytest.raises(TokenizerError, match="dropout"):
        make().encode_batch(["He"], dropout=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": {"</s>": 0, "<unk>": 1, "a": 1, "<pad>": 3}}, "ids are not 0 to 3"),
        ({"ids": {"</s>": 0, "<unk>": True, "<pad>": 2}}, "not a whole number"),
        ({"pad": 10_000}, "outside the vocabulary"),
        ({"pad": 0}, "must differ"),
        ({"eos": "0"}, "eos = '0'"),
        ({"format": 2}, '"format": 1'),
    ],
)
def test_a_wrong_table_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    make().save(tmp_path / "source.spm")
    table = table_path(tmp_path / "source.spm")
    table.write_text(json.dumps(json.loads(table.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(tmp_path / "source.spm")


def test_a_table_that_is_no_json_is_refused(tmp_path: Path) -> None:
    make().save(tmp_path / "source.spm")
    table_path(tmp_path / "source.spm").write_bytes(b"{\xff")
    with pytest.raises(TokenizerError, match=r"source\.ids\.json"):
        load_tokenizer(tmp_path / "source.spm")
