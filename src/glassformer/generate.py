"""A beginning in, texts out: what `glass generate` and the server do with a language model.

    generator = Generator(load_reader("runs/wiki", ("language_model",)))
    generator.generate("The river", sampling=True, seed=1)[0].text

The search is the one that translates (`glassformer.search`): the prompt is a prefix that is forced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from glassformer.bundle import Bundle
from glassformer.errors import ConfigError, RequestError
from glassformer.model.families import LanguageModel, Reader
from glassformer.search.beam import BeamSearch
from glassformer.search.greedy import greedy
from glassformer.search.sample import sample
from glassformer.search.scoring import Hypothesis, SearchOptions

Hear = Callable[[str], None]
"""is told each further part of a text as soon as it is settled"""


@dataclass(frozen=True)
class Continuation:
    """One way to go on."""

    text: str
    """the prompt and what follows it"""
    log_prob: float
    """of all its tokens, the prompt's included"""
    score: float
    """the same after the length penalty"""
    tokens: int
    """how many were written, without the prompt's"""
    finished: bool
    """the end of the line came; False: stopped at the maximum"""


class Generator:
    """Continues texts with one language model. Safe to use from several threads."""

    def __init__(self, bundle: Bundle[Reader]) -> None:
        if not isinstance(bundle.model, LanguageModel):
            raise RequestError(f"task = '{bundle.config.task}' continues no texts: a language model does")
        self.bundle, self.model = bundle, bundle.model.eval()

    def generate(
        self, prompt: str, *, max_tokens: int = 60, seed: int = 0, hear: Hear | None = None, **options: Any
    ) -> list[Continuation]:
        """The best continuation first; `n_best` of them. `options` are those of `SearchOptions`.

        `hear` gets the text bit by bit, the prompt included.
        """
        wanted = self._options(options)
        prefix = self.bundle.tokenizers.target.encode(prompt)
        longest = self._longest(len(prefix), max_tokens)
        told = Teller(self.bundle.tokenizers.target.decode, hear) if hear else None
        with torch.inference_mode():
            found = self._search(wanted, prefix, longest, seed, told)
        if told:
            told.tell(found[0].tokens, last=True)
        return [self._continuation(one, len(prefix)) for one in found]

    def _search(
        self, options: SearchOptions, prefix: list[int], longest: int, seed: int, told: Teller | None
    ) -> list[Hypothesis]:
        vocabulary = self.model.vocabulary
        shared: dict[str, Any] = {
            "batch": 1,
            "start": vocabulary.start,
            "eos": vocabulary.eos,
            "max_lengths": [longest],
            "min_length": options.min_length and len(prefix) + options.min_length,
            "length_penalty": options.length_penalty,
            "penalty": options.penalty,
            "no_repeat_ngram": options.no_repeat_ngram,
            "prefixes": [prefix],
            "device": self.model.output_weight.device,
        }
        paths = options.n_best if options.sampling else options.beams
        state = self.model.start(1, paths)
        step = self.model.step if told is None else told.beside(self.model.step)
        if options.sampling:
            draws = {key: getattr(options, key) for key in ("temperature", "top_k", "top_p")}
            return sample(step, state, samples=paths, seeds=[seed], **draws, **shared)[0]
        if options.beams == 1:
            return greedy(step, state, **shared)[0]
        search = BeamSearch(
            self.model.step, state, beams=paths, n_best=options.n_best, stop=options.stop, **shared
        )
        while not search.done:
            search.advance()
            if told:
                told.tell(search.settled())
        return search.results()[0]

    def _options(self, options: dict[str, Any]) -> SearchOptions:
        """What was asked for; what was not is plain greedy search."""
        wanted = SearchOptions(**{"beams": 1, **options})
        if problems := wanted.problems():
            raise ConfigError(problems)
        return wanted

    def _longest(self, prompt: int, most: int) -> int:
        if most < 1:
            raise RequestError(f"max_tokens = {most} must be at least 1")
        room = self.model.max_length - prompt
        if room < 1:
            raise RequestError(
                f"the prompt has {prompt} tokens, and this model reads {self.model.max_length}: shorten it"
            )
        return prompt + min(most, room)

    def _continuation(self, found: Hypothesis, prompt: int) -> Continuation:
        text = self.bundle.tokenizers.target.decode(found.tokens)
        count = max(0, len(found.tokens) - prompt)
        return Continuation(text, found.log_prob, found.score, count, found.finished)


class Teller:
    """Turns a growing list of tokens into parts of a text that never have to be taken back."""

    def __init__(self, decode: Callable[[list[int]], str], hear: Hear) -> None:
        self._decode, self._hear = decode, hear
        self._said = ""
        self._tokens: list[int] = []

    def tell(self, tokens: list[int], last: bool = False) -> None:
        text = self._decode(tokens)
        # Bytes that do not make a whole character yet are shown as U+FFFD: wait for the rest.
        whole = text if last else text.rstrip("\N{REPLACEMENT CHARACTER}")
        if whole.startswith(self._said) and len(whole) > len(self._said):
            self._hear(whole[len(self._said) :])
            self._said = whole

    def beside(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The same step, overheard: what it reads is what was chosen before."""

        def overheard(last_BN: torch.Tensor, state: Any) -> Any:
            if state.position:
                self._tokens.append(int(last_BN[0, 0]))
                self.tell(self._tokens)
            return step(last_BN, state)

        return overheard


def stream(generator: Generator, prompt: str, **options: Any) -> Iterator[str]:
    """Parts of a text as they are settled, for whoever would rather ask than be told."""
    import queue
    import threading

    parts: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            generator.generate(prompt, hear=parts.put, **options)
            parts.put(None)
        except BaseException as error:  # handed to whoever waits
            parts.put(error)

    threading.Thread(target=work, daemon=True).start()
    while (part := parts.get()) is not None:
        if isinstance(part, BaseException):
            raise part
        yield part
