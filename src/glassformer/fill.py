"""Texts with blanks in, what may stand there out: what `glass fill` does with a masked language model.

filler = Filler(load_reader("runs/words", ("masked_language_model",)))
filler.fill("the ___ barks")[0][0].name
"""

from __future__ import annotations

import torch

from glassformer.bundle import Bundle
from glassformer.data.batch import collate
from glassformer.errors import RequestError
from glassformer.label import Label
from glassformer.model.families import MaskedLanguageModel, Reader, only_labels
from glassformer.text.token import Token

BLANK = "___"
"""what stands in a text where something is to be guessed: one token"""
MARK = "\ue000"
"""a blank while its text is cut into tokens: one character that no piece of a word holds"""


class Filler:
    """Guesses what is hidden, with one bundle. Safe to use from several threads."""

    def __init__(self, bundle: Bundle[Reader]) -> None:
        if not isinstance(bundle.model, MaskedLanguageModel):
            raise RequestError(
                f"task = '{bundle.config.task}' guesses no hidden words: a masked language model does"
            )
        self.bundle, self.model = bundle, bundle.model.eval()

    @torch.inference_mode()
    def fill(self, text: str, n_best: int = 5) -> list[list[Label]]:
        """For each blank of the text, left to right, its likeliest tokens, best first.

        Every blank is one token: a word or a piece of one, or a character where characters are tokens. The
        blanks of one text are guessed at once, none knowing the others.
        """
        if n_best < 1:
            raise RequestError(f"n_best = {n_best} must be at least 1")
        ids = self.ids(text)
        blanks = [place for place, i in enumerate(ids) if i == self.model.hidden]
        batch = collate([(ids, [])], self.model.vocabulary).to(self.model.output_weight.device)
        states_SD = self.model.states(batch.source_BS, batch.source_lengths_B)[0]
        logits_NV = only_labels(self.model.output(states_SD[blanks]), self.model.vocabulary)
        probabilities_NK, best_NK = logits_NV.softmax(-1).topk(min(n_best, logits_NV.shape[-1] - 3))
        rows = zip(probabilities_NK.tolist(), best_NK.tolist(), strict=True)
        return [list(map(Label, self._names(best), shares)) for shares, best in rows]

    def ids(self, text: str) -> list[int]:
        """The text's tokens, the hidden one for each blank."""
        if BLANK not in text:
            raise RequestError(f"there is no blank to fill: write {BLANK} where something is to be guessed")
        marked = text.replace(BLANK, MARK)
        ids: list[int] = []
        for token in self.bundle.tokenizers.source.tokens(marked):
            if marked[token.start : token.end] == MARK:
                ids.append(self.model.hidden)
            elif marked[token.end : token.end + 1] != MARK or not _belongs_to_the_next(token):
                ids.append(token.id)
        if ids.count(self.model.hidden) != text.count(BLANK):
            raise RequestError(f"a blank is a token of its own: put spaces around {BLANK}")
        if len(ids) >= self.model.max_length:
            raise RequestError(
                f"the text has {len(ids)} tokens; this model reads {self.model.max_length - 1}"
            )
        return ids

    def _names(self, ids: list[int]) -> list[str]:
        """What each token adds to a text; one that goes on with a word says so."""
        tokenizer = self.bundle.tokenizers.source
        pieces = tokenizer.pieces(ids)
        if tokenizer.kind not in ("bpe", "unigram"):
            return pieces
        return [piece.removeprefix("▁") if piece.startswith("▁") else f"…{piece}" for piece in pieces]


def _belongs_to_the_next(token: Token) -> bool:
    """The space before a word, which its first piece would carry, and bytes of a character that goes on."""
    return token.piece == "▁" or token.start == token.end
