"""What every search shares: hypotheses, options, the length penalty, rules, and a fast choice of the best.

Legend: B sentences still searched, N beams, V vocabulary, K candidates, T steps so far. Three words keep
apart what is often mixed: a `log_prob` is of one token, a `sum` adds those of a hypothesis, a `score` is a
sum after the length penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, overload

import torch
from torch import Tensor

from glassformer.config import SearchConfig
from glassformer.errors import RequestError

Penalty = Literal["length", "wu"]
Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""(last_BN, state) → (log_probs_BNV, state): any model, an ensemble, a table of probabilities in a test"""


class State(Protocol):
    """What a search asks of a step's state; it never looks inside."""

    def reorder(self, parents_BN: Tensor) -> None:
        """Beam n of each sentence goes on from what beam parents_BN[b, n] of the same sentence held."""

    def keep(self, rows: Tensor) -> None:
        """Only these sentences stay, in this order."""


@dataclass
class Hypothesis:
    """One way to say it, and how likely the model finds it."""

    tokens: list[int]
    """without the start symbol and without the end of sentence"""
    log_prob: float
    """sum over the tokens, the end of sentence included if it came"""
    score: float
    """the sum after the length penalty: what hypotheses are compared by"""
    token_log_probs: Sequence[float]
    """one for each token, then one for the end of sentence if it came"""
    finished: bool
    """the end of sentence came; False: cut at the maximum length"""


class Later(Sequence[float]):
    """Numbers that are computed when somebody first looks at them; their count is known before."""

    def __init__(self, count: int, compute: Callable[[], Sequence[float]]) -> None:
        self._count, self._compute = count, compute

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> float: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[float]: ...

    def __getitem__(self, place: int | slice) -> float | Sequence[float]:
        return self._compute()[place]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def __deepcopy__(self, memo: object) -> list[float]:
        return list(self)  # a copy, as `dataclasses.asdict` makes it, is plain data


def nothing() -> Hypothesis:
    """What a search returns when not even a first token was allowed."""
    return Hypothesis([], -math.inf, -math.inf, [], False)


@dataclass(frozen=True)
class SearchOptions(SearchConfig):
    """What is asked of an engine: a bundle's search settings, and what only a single request can ask."""

    n_best: int = 1
    """hypotheses returned, the best first; with sampling: how many are drawn"""
    sampling: bool = False
    """draw from the distribution instead of searching for the likeliest"""
    temperature: float = 1.0
    """below 1 sharpens the distribution that is drawn from, above 1 flattens it"""
    top_k: int = 0
    """draw from the k likeliest tokens only; 0 draws from all"""
    top_p: float = 1.0
    """draw from the fewest tokens that hold this share of the probability"""

    def problems(self) -> list[str]:
        found = super().problems()
        if self.n_best < 1:
            found.append(f"n_best = {self.n_best} must be at least 1")
        if self.n_best > self.beams and not self.sampling:
            found.append(f"n_best = {self.n_best} needs as many beams, but beams = {self.beams}")
        if self.temperature <= 0:
            found.append(
                f"temperature = {self.temperature} must be above 0; for the likeliest token turn sampling off"
            )
        if self.top_k < 0:
            found.append(f"top_k = {self.top_k} must not be negative; 0 draws from all tokens")
        if not 0 < self.top_p <= 1:
            found.append(f"top_p = {self.top_p} must be above 0 and at most 1")
        return found


def length_factor(length: Any, alpha: float, penalty: Penalty = "length") -> Any:
    """What a sum is divided by: length^α, or ((5 + length) / 6)^α (Wu et al. 2016, Eq. 14).

    The length counts the end of sentence, as Hugging Face and CTranslate2 do. Takes numbers and arrays.

    >>> length_factor(3, 1.0), length_factor(7, 1.0, "wu")
    (3.0, 2.0)
    """
    return length**alpha if penalty == "length" else ((5 + length) / 6) ** alpha


def best_case(sums: Any, length: int, longest: Any, alpha: float, penalty: Penalty = "length") -> Any:
    """The best score that hypotheses with these sums can still reach between `length` and `longest` tokens.

    Every further token adds at most 0, so only the penalty's factor can help: it is largest at the end for
    α ≥ 0. Sums are at most 0, for they add log-probabilities.
    """
    if alpha < 0:
        return sums / length_factor(length, alpha, penalty)
    return sums / length_factor(longest, alpha, penalty)


class Rule(Protocol):
    """Forbids tokens: the seam for constraints. A search calls its rules in order, before it chooses."""

    @property
    def wants_tokens(self) -> bool:
        """True: `tokens_BNT` holds what each beam has said; False: it may be None (keeping it costs time)."""

    def __call__(self, log_probs_BNV: Tensor, length: int, rows: Tensor, tokens_BNT: Tensor | None) -> Tensor:
        """The log-probabilities with -inf where a token is forbidden; the given tensor stays as it is.

        `length` counts what has been said, `rows` gives each sentence's place in the original batch.
        """


@dataclass(frozen=True)
class MinLength:
    """No end of sentence before `least` tokens."""

    least: int
    eos: int
    wants_tokens: bool = False

    def __call__(self, log_probs_BNV: Tensor, length: int, rows: Tensor, tokens_BNT: Tensor | None) -> Tensor:
        if length >= self.least:
            return log_probs_BNV
        changed_BNV = log_probs_BNV.clone()
        changed_BNV[..., self.eos] = -torch.inf
        return changed_BNV


@dataclass(frozen=True)
class NoRepeat:
    """Never the same `size` tokens twice in one hypothesis.

    Costs a copy of the log-probabilities at each step, and a look at all earlier n-grams.
    """

    size: int
    wants_tokens: bool = True

    def __call__(self, log_probs_BNV: Tensor, length: int, rows: Tensor, tokens_BNT: Tensor | None) -> Tensor:
        if length < self.size or tokens_BNT is None:
            return log_probs_BNV
        ngrams_BNWn = tokens_BNT.unfold(-1, self.size, 1)
        tail_BN1n = tokens_BNT[..., length - self.size + 1 :].unsqueeze(2)
        seen_BNW = (ngrams_BNWn[..., :-1] == tail_BN1n).all(-1)
        row, beam, place = seen_BNW.nonzero(as_tuple=True)
        changed_BNV = log_probs_BNV.clone()
        changed_BNV[row, beam, ngrams_BNWn[row, beam, place, -1]] = -torch.inf
        return changed_BNV


def make_rules(eos: int, min_length: int, no_repeat_ngram: int, own: Sequence[Rule]) -> list[Rule]:
    """The rules that the plain options stand for, then the caller's own."""
    rules: list[Rule] = []
    if min_length > 0:
        rules.append(MinLength(min_length, eos))
    if no_repeat_ngram > 0:
        rules.append(NoRepeat(no_repeat_ngram))
    return [*rules, *own]


class Prefixes:
    """What each sentence has to begin with. Forced tokens keep the log-probability the model gives them."""

    def __init__(
        self, prefixes: Sequence[Sequence[int]] | None, batch: int, eos: int, max_lengths: Sequence[int]
    ) -> None:
        prefixes = [()] * batch if prefixes is None else prefixes
        if len(prefixes) != batch:
            raise RequestError(
                f"{len(prefixes)} prefixes for {batch} sentences; give each sentence one, maybe empty"
            )
        for place, (prefix, longest) in enumerate(zip(prefixes, max_lengths, strict=True)):
            if eos in prefix:
                raise RequestError(
                    f"the prefix of sentence {place} holds the end of sentence ({eos}); leave it out"
                )
            if len(prefix) > longest:
                raise RequestError(
                    f"the prefix of sentence {place} has {len(prefix)} tokens; its maximum is {longest}"
                )
        self.longest = max(map(len, prefixes), default=0)
        padded = [[*prefix, *[-1] * (self.longest - len(prefix))] for prefix in prefixes]
        self._tokens_BP = torch.tensor(padded, dtype=torch.long).reshape(batch, self.longest)

    def at(self, step: int, rows: Tensor) -> Tensor | None:
        """The forced token of each row, -1 where it is free to choose; None if all are free."""
        return self._tokens_BP.to(rows.device)[rows, step] if step < self.longest else None


def check_lengths(max_lengths: Sequence[int], batch: int, min_length: int) -> None:
    """One maximum for each sentence, each with room for at least one token."""
    if len(max_lengths) != batch:
        raise RequestError(
            f"{len(max_lengths)} maximum lengths for {batch} sentences; each sentence needs its own"
        )
    for place, longest in enumerate(max_lengths):
        if longest < 1 or longest < min_length:
            least = max(1, min_length)
            raise RequestError(f"max_length = {longest} of sentence {place} must be at least {least}")


def worth_leaving(alive: int, rows: int) -> bool:
    """Finished sentences leave when they are an eighth of the batch: leaving copies the others' caches."""
    return alive <= rows - max(1, rows // 8)


def best_continuations(
    log_probs_BNV: Tensor, sums_BN: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The `count` best of all N×V ways to go on, best first: sums_BK, tokens_BK, parents_BK, log_probs_BK.

    In two stages, for `topk` over a whole vocabulary costs as much as a layer of the model: the k best lie
    in the k groups of tokens with the largest maxima, and a maximum is one fast pass over memory.
    """
    n, v = log_probs_BNV.shape[1:]
    groups = int((2 * v) ** 0.5)
    if v < 256 or n * groups < count:
        total_BX = (log_probs_BNV + sums_BN.unsqueeze(-1)).flatten(1)
        sums_BK, flat_BK = total_BX.topk(min(count, n * v))
        parents_BK = flat_BK.div(v, rounding_mode="floor")
        log_probs_BK = log_probs_BNV.flatten(1).gather(1, flat_BK)
        return sums_BK, flat_BK - parents_BK * v, parents_BK, log_probs_BK
    rounds = v // groups  # group g holds the tokens g, g + groups, g + 2·groups, …
    maxima_BNG = log_probs_BNV[..., : rounds * groups].unflatten(-1, (rounds, groups)).amax(-2)
    if rest := v - rounds * groups:
        head_BNR = maxima_BNG[..., :rest]
        torch.maximum(head_BNR, log_probs_BNV[..., v - rest :], out=head_BNR)
        rounds += 1
    best_BK = (maxima_BNG + sums_BN.unsqueeze(-1)).flatten(1).topk(count, sorted=False).indices
    beam_BK = best_BK.div(groups, rounding_mode="floor")
    first_BK = best_BK - beam_BK * groups
    token_BKR = first_BK.unsqueeze(-1) + torch.arange(0, rounds * groups, groups, device=first_BK.device)
    outside_BKR = token_BKR >= v
    place_BKR = (token_BKR + (beam_BK * v).unsqueeze(-1)).masked_fill_(outside_BKR, 0)
    found_BKR = log_probs_BNV.flatten(1).gather(1, place_BKR.flatten(1)).view_as(place_BKR)
    found_BKR = found_BKR.masked_fill_(outside_BKR, -torch.inf)
    total_BKR = found_BKR + sums_BN.gather(1, beam_BK).unsqueeze(-1)
    sums_BK, at_BK = total_BKR.flatten(1).topk(count)
    parents_BK = beam_BK.gather(1, at_BK.div(rounds, rounding_mode="floor"))
    return sums_BK, token_BKR.flatten(1).gather(1, at_BK), parents_BK, found_BKR.flatten(1).gather(1, at_BK)


def forced_log_probs(logits_BTV: Tensor, target_out_BT: Tensor, lengths: Sequence[int]) -> list[list[float]]:
    """How likely the model finds each token of a given translation, the end of sentence included."""
    chosen_BT = logits_BTV.gather(-1, target_out_BT.unsqueeze(-1)).squeeze(-1)
    log_probs = (chosen_BT - logits_BTV.logsumexp(-1)).tolist()
    return [row[:length] for row, length in zip(log_probs, lengths, strict=True)]
