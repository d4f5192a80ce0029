"""Beam search over any step callable, with all bookkeeping in tensors.

At each step the 2·beams best continuations of a sentence are looked at. Live beams go on with the best ones
that do not end; ends close hypotheses. Nothing is copied along the way: each step leaves a record (tokens,
parents, log-probabilities), and hypotheses are read off the records, backwards, when all is done.

`stop="beam_finished"`: an end closes a hypothesis if it ranks among the first `beams` continuations; a
sentence is done when `beams` hypotheses are closed. Hugging Face's `early_stopping=True` and CTranslate2's
default patience do the same. `stop="exact"`: every end of a live beam closes a hypothesis, and a sentence is
done only when no live beam can reach the scores already closed. At the maximum length, which counts the end
of sentence, the first `beams` continuations close, whether they end or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import RequestError
from glassformer.search.scoring import (
    Hypothesis,
    Penalty,
    Prefixes,
    Rule,
    Step,
    best_case,
    best_continuations,
    check_lengths,
    length_factor,
    make_rules,
    nothing,
    worth_leaving,
)


@dataclass
class BeamStep:
    """What one step looked at (C continuations for each of B sentences), what it closed, what it kept."""

    length: int
    """tokens of a hypothesis after this step"""
    rows: Tensor
    """(B) place of each sentence in the original batch"""
    tokens_BC: Tensor
    """best first"""
    parents_BC: Tensor
    """the beam, of the step before, that each one continues"""
    log_probs_BC: Tensor
    """of the token alone"""
    sums_BC: Tensor
    """of the whole hypothesis; -inf: not a real continuation"""
    closed_BC: Tensor | None
    """True where a hypothesis ends here; None: nowhere"""
    live_BN: Tensor
    """which of the continuations each beam goes on with"""


Watch = Callable[[BeamStep], None]


def beam(
    step: Step,
    state: Any,
    *,
    batch: int,
    beams: int,
    n_best: int = 1,
    start: int,
    eos: int,
    max_lengths: Sequence[int],
    min_length: int = 0,
    length_penalty: float = 1.0,
    penalty: Penalty = "length",
    stop: Literal["beam_finished", "exact"] = "beam_finished",
    no_repeat_ngram: int = 0,
    prefixes: Sequence[Sequence[int]] | None = None,
    rules: Sequence[Rule] = (),
    watch: Watch | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first. See `BeamSearch` for one step at a time."""
    search = BeamSearch(
        step,
        state,
        batch=batch,
        beams=beams,
        n_best=n_best,
        start=start,
        eos=eos,
        max_lengths=max_lengths,
        min_length=min_length,
        length_penalty=length_penalty,
        penalty=penalty,
        stop=stop,
        no_repeat_ngram=no_repeat_ngram,
        prefixes=prefixes,
        rules=rules,
        device=device,
    )
    while not search.done:
        record = search.advance()
        if watch is not None:
            watch(record)
    return search.results()


class BeamSearch:
    """A beam search that is advanced step by step: `while not done: advance()`, then `results()`."""

    def __init__(
        self,
        step: Step,
        state: Any,
        *,
        batch: int,
        beams: int,
        n_best: int = 1,
        start: int,
        eos: int,
        max_lengths: Sequence[int],
        min_length: int = 0,
        length_penalty: float = 1.0,
        penalty: Penalty = "length",
        stop: Literal["beam_finished", "exact"] = "beam_finished",
        no_repeat_ngram: int = 0,
        prefixes: Sequence[Sequence[int]] | None = None,
        rules: Sequence[Rule] = (),
        device: torch.device | str = "cpu",
    ) -> None:
        check_lengths(max_lengths, batch, min_length)
        if not 1 <= n_best <= beams:
            raise RequestError(f"n_best = {n_best} must be from 1 to beams = {beams}")
        self.batch, self.beams, self.n_best, self.eos = batch, beams, n_best, eos
        self.records: list[BeamStep] = []
        self.done = batch == 0
        self._step, self._state = step, state
        self._alpha, self._penalty, self._exact = length_penalty, penalty, stop == "exact"
        self._prefixes = Prefixes(prefixes, batch, eos, max_lengths)
        self._rules = make_rules(eos, min_length, no_repeat_ngram, rules)
        self._keeps_tokens = any(rule.wants_tokens for rule in self._rules)
        # Without a penalty scores only fall: a sentence may stop early and give what it would have given.
        self._bounded = self._exact or length_penalty == 0
        self._rows = torch.arange(batch, device=device)
        self._longest_B = torch.tensor(list(max_lengths), device=device)
        self._next_limit = min(max_lengths, default=0)
        self._last_BN = torch.full((batch, beams), start, device=device)
        self._said_BNT = self._last_BN[..., None][..., :0]
        self._sums_BN: Tensor | None = (
            None  # made at the first step, in the precision of the log-probabilities
        )
        self._closed_B = torch.zeros(batch, dtype=torch.long, device=device)
        self._best_BF = torch.full((batch, n_best), -torch.inf, device=device)
        self._done_B = torch.zeros(batch, dtype=torch.bool, device=device)

    def advance(self) -> BeamStep:
        """One step of the model and of the search."""
        length = len(self.records)
        log_probs_BNV, self._state = self._step(self._last_BN, self._state)
        if self._sums_BN is None:
            # At first all beams say the same: only the first one counts.
            self._sums_BN = torch.full_like(
                log_probs_BNV[..., 0], -torch.inf, dtype=_wide(log_probs_BNV.dtype)
            )
            self._sums_BN[:, 0] = 0
        allowed_BNV = log_probs_BNV
        for rule in self._rules:
            allowed_BNV = rule(
                allowed_BNV, length, self._rows, self._said_BNT if self._keeps_tokens else None
            )
        found = best_continuations(allowed_BNV, self._sums_BN, 2 * self.beams)
        if self._exact:
            found = _with_every_end(found, self._sums_BN, allowed_BNV[..., self.eos], self.eos)
        if (forced_B := self._prefixes.at(length, self._rows)) is not None:
            found = _forced(found, forced_B, log_probs_BNV[:, 0], self._sums_BN[:, 0])
        record, sums_BN = self._judge(length + 1, *found)
        self.records.append(record)
        if record.closed_BC is not None:
            self._count(record, record.closed_BC, sums_BN)
        if not self.done:
            self._go_on(record, sums_BN)
        return record

    def _judge(
        self, length: int, sums_BC: Tensor, tokens_BC: Tensor, parents_BC: Tensor, log_probs_BC: Tensor
    ) -> tuple[BeamStep, Tensor]:
        """Which continuations close a hypothesis; which ones the beams go on with, and their sums_BN."""
        ends_BC = tokens_BC == self.eos
        first_ends = self._exact or bool(ends_BC[:, : self.beams].any())
        live_BN = torch.arange(self.beams, device=sums_BC.device).expand(len(sums_BC), -1)
        sums_BN = sums_BC[:, : self.beams]
        if first_ends:
            sums_BN, live_BN = sums_BC.masked_fill(ends_BC, -torch.inf).topk(self.beams)
        closed_BC = None
        if first_ends or length >= self._next_limit:
            at_limit_B1 = (self._longest_B <= length).unsqueeze(1)
            if self._exact:
                closed_BC = ends_BC | torch.zeros_like(ends_BC).scatter_(
                    1, live_BN, at_limit_B1.expand_as(live_BN)
                )
            else:
                closed_BC = ends_BC | at_limit_B1
                closed_BC[:, self.beams :] = False
            closed_BC &= (sums_BC > -torch.inf) & ~self._done_B.unsqueeze(1)
        record = BeamStep(
            length, self._rows, tokens_BC, parents_BC, log_probs_BC, sums_BC, closed_BC, live_BN
        )
        return record, sums_BN

    def _count(self, record: BeamStep, closed_BC: Tensor, sums_BN: Tensor) -> None:
        """Which sentences are done after this step."""
        self._done_B |= self._longest_B <= record.length
        if not self._exact:
            self._closed_B += closed_BC.sum(1)
            self._done_B |= self._closed_B >= self.beams
        if self._bounded:
            scores_BC = record.sums_BC / length_factor(record.length, self._alpha, self._penalty)
            scores_BC = scores_BC.masked_fill(~closed_BC, -torch.inf)
            self._best_BF = (
                torch.cat([self._best_BF.to(scores_BC.dtype), scores_BC], 1).topk(self.n_best).values
            )
            hope_B = best_case(
                sums_BN.amax(1), record.length + 1, self._longest_B, self._alpha, self._penalty
            )
            self._done_B |= self._best_BF[:, -1] >= hope_B
        self.done = bool(self._done_B.all())

    def _go_on(self, record: BeamStep, sums_BN: Tensor) -> None:
        """Move the beams to where they go on; sentences that are done leave when enough of them are."""
        tokens_BN = record.tokens_BC.gather(1, record.live_BN)
        parents_BN = record.parents_BC.gather(1, record.live_BN)
        if record.closed_BC is not None:
            alive = (~self._done_B).nonzero().squeeze(1)
            if worth_leaving(len(alive), len(self._rows)):
                self._leave(alive)
                sums_BN, tokens_BN, parents_BN = sums_BN[alive], tokens_BN[alive], parents_BN[alive]
            elif record.length >= self._next_limit:
                self._next_limit = int(self._longest_B[alive].min())
        self._sums_BN, self._last_BN = sums_BN, tokens_BN
        if self._keeps_tokens:
            earlier_BNT = self._said_BNT.gather(1, parents_BN.unsqueeze(-1).expand(-1, -1, record.length - 1))
            self._said_BNT = torch.cat([earlier_BNT, self._last_BN.unsqueeze(-1)], -1)
        if self.beams > 1:
            self._state.reorder(parents_BN)

    def _leave(self, rows: Tensor) -> None:
        """Only these rows stay."""
        self._state.keep(rows)
        self._rows, self._longest_B, self._said_BNT = (
            self._rows[rows],
            self._longest_B[rows],
            self._said_BNT[rows],
        )
        self._closed_B, self._best_BF, self._done_B = (
            self._closed_B[rows],
            self._best_BF[rows],
            self._done_B[rows],
        )
        self._next_limit = int(self._longest_B.min())

    def results(self) -> list[list[Hypothesis]]:
        """The best closed hypotheses of each sentence, best first."""
        history = _History(self.records, self.batch, self.beams)
        scores_BTC = history.sums_BTC / length_factor(history.lengths_T1, self._alpha, self._penalty)
        scores_BX = np.where(history.closed_BTC, scores_BTC, -np.inf).reshape(
            self.batch, history.lengths_T1.size * history.width
        )
        best_BF = np.argsort(-scores_BX, axis=1, kind="stable")[:, : self.n_best]
        results: list[list[Hypothesis]] = []
        for row, picks in enumerate(best_BF):
            picks = [pick for pick in picks.tolist() if scores_BX[row, pick] > -np.inf]
            # Nothing closed: every continuation was forbidden. The longest unfinished one is what there is.
            picks = picks or history.last_resort(row, self.eos)
            results.append([self._hypothesis(history, row, pick) for pick in picks] or [nothing()])
        return results

    def settled(self, place: int = 0) -> list[int]:
        """The tokens that every outcome still possible for one sentence begins with."""
        history = _History(self.records, self.batch, self.beams)
        scores_TC = history.sums_BTC[place] / length_factor(history.lengths_T1, self._alpha, self._penalty)
        scores_TC = np.where(history.closed_BTC[place], scores_TC, -np.inf)
        ways = []
        if scores_TC.size and scores_TC.max() > -np.inf:
            ways.append(self._hypothesis(history, place, int(scores_TC.argmax())).tokens)
        if not self.done:
            ways += [self._hypothesis(history, place, pick).tokens for pick in history.live(place, self.eos)]
        shortest = min(map(len, ways), default=0)
        same = [len({way[at] for way in ways}) == 1 for at in range(shortest)]
        return ways[0][: same.index(False) if False in same else shortest] if ways else []

    def _hypothesis(self, history: _History, row: int, pick: int) -> Hypothesis:
        """Read one hypothesis backwards off the records."""
        tokens, log_probs = history.read(row, pick)
        finished = tokens[-1] == self.eos
        total = float(history.sums_BTC[row].flat[pick])
        score = total / length_factor(len(tokens), self._alpha, self._penalty)
        return Hypothesis(tokens[:-1] if finished else tokens, total, score, log_probs, finished)


class _History:
    """All records as arrays over the original batch; a `pick` is a place in [step, continuation]."""

    def __init__(self, records: Sequence[BeamStep], batch: int, beams: int) -> None:
        steps, width = len(records), records[0].tokens_BC.shape[1] if records else 0
        shape = (batch, steps, width)
        self.width = width
        self.lengths_T1 = np.arange(1, steps + 1)[:, None]
        self.tokens_BTC = np.zeros(shape, dtype=np.int64)
        self.parents_BTC = np.zeros(shape, dtype=np.int64)
        self.log_probs_BTC = np.full(shape, -np.inf)
        self.sums_BTC = np.full(shape, -np.inf)
        self.closed_BTC = np.zeros(shape, dtype=bool)
        self.live_BTN = np.zeros((batch, steps, beams), dtype=np.int64)
        for at, record in enumerate(records):
            rows = record.rows.cpu().numpy()
            self.tokens_BTC[rows, at] = record.tokens_BC.cpu().numpy()
            self.parents_BTC[rows, at] = record.parents_BC.cpu().numpy()
            self.log_probs_BTC[rows, at] = record.log_probs_BC.cpu().numpy()
            self.sums_BTC[rows, at] = record.sums_BC.cpu().numpy()
            self.live_BTN[rows, at] = record.live_BN.cpu().numpy()
            if record.closed_BC is not None:
                self.closed_BTC[rows, at] = record.closed_BC.cpu().numpy()

    def read(self, row: int, pick: int) -> tuple[list[int], list[float]]:
        """Tokens and their log-probabilities from the start up to this pick."""
        at, place = divmod(pick, self.width)
        tokens, log_probs = [], []
        while True:
            tokens.append(int(self.tokens_BTC[row, at, place]))
            log_probs.append(float(self.log_probs_BTC[row, at, place]))
            if at == 0:
                return tokens[::-1], log_probs[::-1]
            place = self.live_BTN[row, at - 1, self.parents_BTC[row, at, place]]
            at -= 1

    def live(self, row: int, eos: int) -> list[int]:
        """Picks of the beams that go on after the last step."""
        last = self.lengths_T1.size - 1
        if last < 0:
            return []
        real = (self.sums_BTC[row, last] > -np.inf) & (self.tokens_BTC[row, last] != eos)
        return [last * self.width + place for place in self.live_BTN[row, last].tolist() if real[place]]

    def last_resort(self, row: int, eos: int) -> list[int]:
        """The best continuation of the last step that had one, if any."""
        sums_TC = np.where(self.tokens_BTC[row] == eos, -np.inf, self.sums_BTC[row])
        steps = np.flatnonzero((sums_TC > -np.inf).any(1))
        return [int(steps[-1] * self.width + sums_TC[steps[-1]].argmax())] if len(steps) else []


_Found = tuple[Tensor, Tensor, Tensor, Tensor]


def _with_every_end(found: _Found, sums_BN: Tensor, end_log_probs_BN: Tensor, eos: int) -> _Found:
    """The continuations, and after them the end of every beam, be it ever so unlikely."""
    sums_BK, tokens_BK, parents_BK, log_probs_BK = found
    ends_BN = torch.full_like(sums_BN, eos, dtype=torch.long)
    beams_BN = torch.arange(sums_BN.shape[1], device=sums_BN.device).expand_as(ends_BN)
    sums_BK = sums_BK.masked_fill(tokens_BK == eos, -torch.inf)  # they come again below
    return (
        torch.cat([sums_BK, sums_BN + end_log_probs_BN], 1),
        torch.cat([tokens_BK, ends_BN], 1),
        torch.cat([parents_BK, beams_BN], 1),
        torch.cat([log_probs_BK, end_log_probs_BN], 1),
    )


def _forced(found: _Found, forced_B: Tensor, log_probs_BV: Tensor, sums_B: Tensor) -> _Found:
    """Sentences with a forced token have a single continuation: that token on the first beam."""
    sums_BC, tokens_BC, parents_BC, log_probs_BC = found
    is_forced_B1 = (forced_B >= 0).unsqueeze(1)
    token_B1 = forced_B.clamp(min=0).unsqueeze(1)
    log_prob_B1 = log_probs_BV.gather(1, token_B1)
    only_BC = torch.full_like(sums_BC, -torch.inf)
    only_BC[:, :1] = sums_B.unsqueeze(1) + log_prob_B1
    return (
        torch.where(is_forced_B1, only_BC, sums_BC),
        torch.where(is_forced_B1, token_B1, tokens_BC),
        torch.where(is_forced_B1, torch.zeros_like(parents_BC), parents_BC),
        torch.where(is_forced_B1, log_prob_B1, log_probs_BC),
    )


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Sums of half-precision log-probabilities are kept in float32."""
    return dtype if dtype == torch.float64 else torch.float32
