"""Drawing translations at random: temperature, top-k, top-p, and a seed for each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.search.greedy import walk
from glassformer.search.scoring import Hypothesis, Penalty, Prefixes, Rule, Step, check_lengths, make_rules


def sample(
    step: Step,
    state: Any,
    *,
    batch: int,
    samples: int = 1,
    start: int,
    eos: int,
    max_lengths: Sequence[int],
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_length: int = 0,
    length_penalty: float = 1.0,
    penalty: Penalty = "length",
    no_repeat_ngram: int = 0,
    prefixes: Sequence[Sequence[int]] | None = None,
    rules: Sequence[Rule] = (),
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """`samples` draws for each sentence, the likeliest first; `state` must hold as many beams.

    A sentence's draws depend on its seed alone, not on what else is in the batch. The log-probabilities of
    a hypothesis are the model's own, before temperature, top-k and top-p.
    """
    check_lengths(max_lengths, batch, min_length)
    chances_BNT = _chances(seeds, samples, max(max_lengths, default=0)).to(device)

    def draw(log_probs_BNV: Tensor, length: int, rows: Tensor) -> Tensor:
        return _draw(log_probs_BNV, chances_BNT[rows, :, length], temperature, top_k, top_p)

    return walk(
        step,
        state,
        draw,
        batch=batch,
        paths=samples,
        start=start,
        eos=eos,
        max_lengths=max_lengths,
        length_penalty=length_penalty,
        penalty=penalty,
        prefixes=Prefixes(prefixes, batch, eos, max_lengths),
        rules=make_rules(eos, min_length, no_repeat_ngram, rules),
        device=device,
    )


def _chances(seeds: Sequence[int], samples: int, longest: int) -> Tensor:
    """All random numbers at once, from 0 to 1: one for each sentence, sample and step.

    Drawn step by step, so that a longer maximum only adds numbers and changes none.
    """
    rows = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        rows.append(torch.rand(longest, samples, generator=generator, dtype=torch.float64).T)
    return torch.stack(rows) if rows else torch.empty(0, samples, longest, dtype=torch.float64)


def _draw(log_probs_BNV: Tensor, chance_BN: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """The token at which the running sum of probabilities passes the random number."""
    v = log_probs_BNV.shape[-1]
    order_BNK = None
    if top_k or top_p < 1:
        log_probs_BNV, order_BNK = log_probs_BNV.topk(min(top_k, v) if top_k else v)
    probs_BNK = (log_probs_BNV.double() / temperature).softmax(-1).nan_to_num(0.0)
    if top_p < 1:
        before_BNK = probs_BNK.cumsum(-1) - probs_BNK
        probs_BNK = probs_BNK.masked_fill(before_BNK >= top_p, 0.0)
    total_BNK = probs_BNK.cumsum(-1)
    aim_BN1 = (chance_BN * total_BNK[..., -1]).unsqueeze(-1)
    place_BN1 = torch.searchsorted(total_BNK, aim_BN1, right=True).clamp(max=total_BNK.shape[-1] - 1)
    return (place_BN1 if order_BNK is None else order_BNK.gather(-1, place_BN1)).squeeze(-1)
