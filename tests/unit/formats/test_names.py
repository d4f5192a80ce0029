from __future__ import annotations

from glassformer.formats.names import token_names
from glassformer.text.tokenizer import train_tokenizer
from tests.foreign import joint_tokenizers


def test_names_are_the_pieces_and_all_different() -> None:
    tokenizer = joint_tokenizers().source
    names = token_names(tokenizer)
    assert len(set(names)) == len(names) == tokenizer.size
    assert (names[0], names[1], names[-1]) == ("</s>", "<unk>", "<pad>")


def test_an_entry_called_like_a_special_token_keeps_its_name() -> None:
    tokenizer = train_tokenizer("symbols", ["A </s> <pad> <pad>* <unk>"])
    names = token_names(tokenizer)
    assert len(set(names)) == len(names)
    assert (names[0], names[1], names[-1]) == ("</s>*", "<unk>*", "<pad>**")
    assert {"</s>", "<pad>", "<pad>*", "<unk>"} <= set(names[2:-1])
