"""What tokens are called in programs that know them by name."""

from __future__ import annotations

from glassformer.text.tokenizer import Tokenizer


def token_names(tokenizer: Tokenizer) -> list[str]:
    """A name for each id, all different: if a piece of text is called like a special token, that one yields.

    Programs look up pieces of text by name, so pieces keep theirs.
    """
    names = tokenizer.pieces(range(tokenizer.size))
    specials = (tokenizer.eos, tokenizer.unk, tokenizer.pad)
    taken = {name for i, name in enumerate(names) if i not in specials}
    for i in specials:
        while names[i] in taken:
            names[i] += "*"
        taken.add(names[i])
    return names
