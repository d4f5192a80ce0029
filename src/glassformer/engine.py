"""Engines: source ids in, hypotheses out. `torch` is ours and can do everything; others may be faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from glassformer.align import aligning, cross_attention
from glassformer.model.record import record, watching
from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.silence import silenced
from glassformer.model.state import Memory
from glassformer.search.beam import BeamSearch, beam
from glassformer.search.greedy import greedy
from glassformer.search.sample import sample
from glassformer.search.scoring import Hypothesis, SearchOptions, forced_log_probs
from glassformer.workers import Workers

Ids = Sequence[int]
T = TypeVar("T")


def watched() -> bool:
    """Does this thread look inside: is there a recorder, or are heads switched off?"""
    return watching() or silenced()


class Engine(Protocol):
    """What translates ids. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """What `--engine` calls it."""

    def refuses(self, options: SearchOptions) -> str:
        """Why this can't be done here, in a few words; empty if it can."""

    def translate_ids(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        max_lengths: Sequence[int],
        prefixes: Sequence[Ids] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first, in the order of the sources.

        Sources and prefixes have no end of sentence. `max_lengths` are tokens of an output, its end
        included; `options.max_length` has gone into them. Sampling needs a seed for each source.
        """


class TorchEngine:
    """Our own model and search. Batches are cut by length; `workers` of them run at a time."""

    name = "torch"

    def __init__(
        self, model: Seq2Seq, *, workers: int = 1, batch_sentences: int = 64, batch_tokens: int = 4096
    ) -> None:
        self.model, self.workers = model, Workers(workers)
        self.batch_sentences, self.batch_tokens = batch_sentences, batch_tokens

    @property
    def device(self) -> torch.device:
        return self.model.output_weight.device

    def refuses(self, options: SearchOptions) -> str:
        return ""

    def translate_ids(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        max_lengths: Sequence[int],
        prefixes: Sequence[Ids] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        def work(places: Sequence[int]) -> list[list[Hypothesis]]:
            return self._search(
                [sources[place] for place in places],
                options,
                [max_lengths[place] for place in places],
                None if prefixes is None else [prefixes[place] for place in places],
                None if seeds is None else [seeds[place] for place in places],
            )

        return self._in_batches([len(source) for source in sources], work)

    def _search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        max_lengths: Sequence[int],
        prefixes: Sequence[Ids] | None,
        seeds: Sequence[int] | None,
    ) -> list[list[Hypothesis]]:
        """One batch."""
        paths = options.n_best if options.sampling else options.beams
        state = self.model.start(self._encode(sources), paths)
        shared = self._shared(options, max_lengths, prefixes)
        if options.sampling:
            return sample(
                self.model.step,
                state,
                samples=paths,
                seeds=seeds or [0] * len(sources),
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                **shared,
            )
        if options.beams == 1 and options.stop == "beam_finished":
            return greedy(self.model.step, state, **shared)
        return beam(self.model.step, state, beams=paths, n_best=options.n_best, stop=options.stop, **shared)

    def _shared(
        self, options: SearchOptions, max_lengths: Sequence[int], prefixes: Sequence[Ids] | None
    ) -> dict[str, Any]:
        """What greedy, beam and sample all take."""
        return {
            "batch": len(max_lengths),
            "start": self.model.vocabulary.start,
            "eos": self.model.vocabulary.eos,
            "max_lengths": max_lengths,
            "min_length": options.min_length,
            "length_penalty": options.length_penalty,
            "penalty": options.penalty,
            "no_repeat_ngram": options.no_repeat_ngram,
            "prefixes": prefixes,
            "device": self.device,
        }

    def stream_ids(
        self, source: Ids, options: SearchOptions, *, max_length: int, prefix: Ids = ()
    ) -> Iterator[list[int]]:
        """What is settled so far, step after step: each list begins with the one before it."""
        with torch.inference_mode():
            state = self.model.start(self._encode([source]), options.beams)
        search = BeamSearch(
            self.model.step,
            state,
            beams=options.beams,
            stop=options.stop,
            **self._shared(options, [max_length], [prefix]),
        )
        while not search.done:
            with torch.inference_mode():  # not around the `yield`: it would leak into the caller
                search.advance()
            yield search.settled()
        yield search.results()[0][0].tokens

    def score_ids(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """The log-probability of each token of given translations, their end included."""

        def work(places: Sequence[int]) -> list[list[float]]:
            memory, chosen = self._encode([sources[place] for place in places]), [targets[p] for p in places]
            logits_BTV = self.model.decode(memory, self._targets(chosen, start=True))
            lengths = [len(target) + 1 for target in chosen]
            return forced_log_probs(logits_BTV, self._targets(chosen, start=False), lengths)

        return self._in_batches([len(s) + len(t) for s, t in zip(sources, targets, strict=True)], work)

    def attention(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """weights_TS for alignment: a row for each target token and one for the end; a column likewise."""

        def work(places: Sequence[int]) -> list[Tensor]:
            memory, chosen = self._encode([sources[place] for place in places]), [targets[p] for p in places]
            with record() as recorder:
                self.model.states(memory, self._targets(chosen, start=True))
            weights_LBTS = cross_attention(recorder.attention).float().cpu()
            lengths = memory.lengths_B.tolist()
            return [
                aligning(weights_LBTS[:, row, : len(target) + 1, : lengths[row]])
                for row, target in enumerate(chosen)
            ]

        return self._in_batches([len(s) + len(t) for s, t in zip(sources, targets, strict=True)], work)

    def _in_batches(self, lengths: Sequence[int], work: Callable[[Sequence[int]], list[T]]) -> list[T]:
        """Run `work` on batches of about equally long sentences; results in the order of the lengths."""

        def careful(places: Sequence[int]) -> list[T]:
            with torch.inference_mode():
                return work(places)

        batches = list(self._batches(lengths))
        # What is recorded or switched off here is unknown to other threads.
        found = [careful(places) for places in batches] if watched() else self.workers.map(careful, batches)
        by_place = {
            place: result
            for places, results in zip(batches, found, strict=True)
            for place, result in zip(places, results, strict=True)
        }
        return [by_place[place] for place in range(len(lengths))]

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """The longest first: memory runs out at once or never, and workers end at about the same time."""
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            longest = lengths[batch[0]] if batch else 0
            if batch and (
                len(batch) == self.batch_sentences or (len(batch) + 1) * (longest + 1) > self.batch_tokens
            ):
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _encode(self, sources: Sequence[Ids]) -> Memory:
        vocabulary = self.model.vocabulary
        lengths_B = torch.tensor([len(source) + 1 for source in sources], device=self.device)
        rows = [[*source, vocabulary.eos] for source in sources]
        return self.model.encode(self._pad(rows, vocabulary.source_pad), lengths_B)

    def _targets(self, targets: Sequence[Ids], *, start: bool) -> Tensor:
        """What the decoder reads (start, then the target), or should say (the target, then its end)."""
        vocabulary = self.model.vocabulary
        rows = [[vocabulary.start, *target] if start else [*target, vocabulary.eos] for target in targets]
        return self._pad(rows, vocabulary.target_pad)

    def _pad(self, rows: Sequence[Ids], pad: int) -> Tensor:
        longest = max(map(len, rows))
        return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=self.device)
