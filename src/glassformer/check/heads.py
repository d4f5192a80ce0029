"""Probes of attention's sizes: how wide are the projections, how many heads, what scales the scores?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.check.calling import Caller
from glassformer.check.report import Report
from glassformer.check.tools import (
    is_gain,
    no_biases,
    numbers,
    randomise,
    rank,
    trained,
    weights_and_biases,
)


def probe_sizes(caller: Caller, width: int, heads: int | None, report: Report) -> None:
    """Widths, heads and scale, in this order: the later ones need the earlier ones."""
    if weights_and_biases(caller.module, width)[0]:
        patterns = _patterns(caller, width)
        _judge_heads(patterns, heads, caller.self_only, report)
        if report.status("heads_not_split") != "wrong":  # heads that are all the same look narrow as well
            _probe_width(caller, width, report)
        counted = patterns if heads is None else heads
    else:
        counted = 1  # a bare attention: the caller splits the heads
    _probe_scale(caller, width, max(counted, 1), report)


def _probe_width(caller: Caller, width: int, report: Report) -> None:
    """How many directions of the inputs reach the output?"""
    separate = caller.cross and "value" in caller.roles.values()
    seen = {
        role: _directions(caller, width, role)
        for role in (("query", "key", "value") if separate else ("query",))
    }
    narrow = {role: found < 0.9 * possible for role, (found, possible) in seen.items()}
    # Heads that share keys and values (multi-query attention) are narrow in both, and no mistake.
    shared = separate and narrow["key"] and narrow["value"] and not narrow["query"]
    wrong = [role for role in ("query", "value") if narrow.get(role) and not shared]
    if not wrong:
        report.add("projection_width", "right")
        return
    found, possible = seen[wrong[0]]
    chinese = {"query": "查询", "value": "值"}[wrong[0]]
    report.add(
        "projection_width",
        "wrong",
        f"only {found} of {possible} directions of the {wrong[0]} reach the output",
        f"{possible} 个方向中只有 {found} 个能从{chinese}到达输出",
    )


def _directions(caller: Caller, width: int, role: str) -> tuple[int, int]:
    """How many directions of an input the output's derivatives see, and how many could have been seen."""
    found: list[Tensor] = []
    length = min(width // 3 + 8, 40)  # a head tells as many directions of a query apart as there are keys
    for seed in range(4):
        inputs = {
            name: numbers(1, length, width, seed=20 + 10 * seed + n).to(caller.dtype)
            for n, name in enumerate(("query", "key", "value"))
        }
        inputs[role].requires_grad_()
        if caller.self_only:  # the last token, which sees the others even if the module is causal
            found.append(_gradients(caller(inputs["query"])[0, -1], inputs[role])[:, 0, -1])
        else:
            output = caller(inputs["query"], inputs["key"], inputs["value"])[0, 0]
            found.append(_gradients(output, inputs[role])[:, 0, 0])
    # Differences: what the module adds to its input (a residual) is the same each time, and sees everything.
    rows = torch.cat([one - found[0] for one in found[1:]])
    return rank(rows, 1e-6), min(rows.shape)


def _gradients(output_D: Tensor, of: Tensor) -> Tensor:
    """Gradients of some mixtures of the output's numbers: all of them that matter, at a bounded cost."""
    mixtures = torch.linalg.qr(numbers(len(output_D), min(len(output_D), 32), seed=99))[0].T.to(output_D)
    found = [torch.autograd.grad(output_D @ mixture, of, retain_graph=True)[0] for mixture in mixtures]
    return torch.stack(found)


def _patterns(caller: Caller, width: int) -> int:
    """How many different attention patterns there are at once: the number of heads."""
    threshold = 1e-6 if caller.dtype == torch.float64 else 1e-3
    if caller.self_only:
        return rank(_one_token_growing(caller, width), threshold)
    if "value" not in caller.roles.values():
        return rank(_lines_of_two_keys(caller, width), threshold)
    # d output / d value_s is Σ_h weight_hs · W_h: over many keys s, these matrices span one dimension a head.
    keys = 40
    query, key = 2 * numbers(1, keys, width, seed=31), 2 * numbers(1, keys, width, seed=32)
    value = numbers(1, keys, width, seed=33).to(caller.dtype).requires_grad_()
    found = _gradients(caller(query, key, value)[0, 0], value)[:, 0]
    return rank(found.transpose(0, 1).flatten(1), threshold)


@torch.no_grad()
def _one_token_growing(caller: Caller, width: int) -> Tensor:
    """Behind a token of zeros, each head weighs a growing token by a sigmoid of its own."""
    token, rows = numbers(1, 1, width, seed=30), []
    with no_biases(caller.module, width):
        for size in torch.linspace(0.2, 4.0, 40).tolist():
            x = torch.cat([torch.zeros_like(token), size * token], dim=1)
            rows.append(caller(x)[0, -1] / size)
    return torch.stack(rows)


@torch.no_grad()
def _lines_of_two_keys(caller: Caller, width: int) -> Tensor:
    """Over two keys, each head moves the output along a line of its own when the query changes."""
    query, memory = 2 * numbers(1, 64, width, seed=31), 2 * numbers(1, 2, width, seed=32)
    rows = caller(query, memory)[0]
    return rows - rows.mean(0)


def _judge_heads(patterns: int, heads: int | None, self_only: bool, report: Report) -> None:
    if heads is None:
        report.add(
            "heads_not_split", "note", f"it behaves like {patterns} heads", f"表现得像 {patterns} 个头"
        )
    elif heads > 1 and patterns == 1:
        report.add(
            "heads_not_split",
            "wrong",
            f"{heads} heads were asked for, but all of the width follows a single attention pattern",
            f"要求 {heads} 个头，但整个宽度只有一种注意力分布",
        )
    elif not self_only and patterns > heads:
        report.add(
            "heads_order",
            "wrong",
            f"{heads} heads were asked for, but there are {patterns} attention patterns",
            f"要求 {heads} 个头，却有 {patterns} 种注意力分布",
        )
    else:
        report.add("heads_not_split", "right", f"{heads} heads", f"{heads} 个头")


@dataclass
class _Measured:
    """Root mean square of the scores over what unscaled scores would have: the factor that was applied."""

    factor: float
    bilinear: bool


def _probe_scale(caller: Caller, width: int, heads: int, report: Report) -> None:
    head_width = width // heads
    measured = _measure(caller, width, head_width)
    right = 1 / math.sqrt(head_width)
    if not measured.bilinear:
        report.add(
            "scale", "unknown", "the scores are not a product of query and key", "分数不是查询与键的乘积"
        )
        return
    if abs(math.log(measured.factor / right)) < 0.18:
        report.add(
            "scale",
            "right",
            f"a factor of {right:.3f}, d_k = {head_width}",
            f"系数 {right:.3f}，d_k = {head_width}",
        )
        return
    known = {
        "1": (1.0, "no scaling at all", "完全没有缩放"),
        "1/√d_model": (1 / math.sqrt(width), "the root of d_model", "用了 d_model 的平方根"),
        "1/d_k": (1 / head_width, "d_k without the root", "用了 d_k，没有开方"),
        "1/d_model": (1 / width, "d_model without the root", "用了 d_model，没有开方"),
        "√d_k": (math.sqrt(head_width), "multiplied instead of divided", "乘了，而不是除"),
        "1/√heads": (1 / math.sqrt(heads), "the number of heads", "用了头的个数"),
    }
    name, (value, en, zh) = min(known.items(), key=lambda item: abs(math.log(measured.factor / item[1][0])))
    bent = any(map(is_gain, trained(caller.module)))  # a norm behind it makes the measure rough
    near = abs(math.log(measured.factor / value)) < 0.18 and not bent
    report.add(
        "scale",
        "wrong",
        f"scores are multiplied by about {measured.factor:.3g}"
        + (f" = {name} ({en})" if near else "")
        + f"; expected {right:.3g} = 1/√{head_width}",
        f"分数乘了约 {measured.factor:.3g}"
        + (f" = {name}（{zh}）" if near else "")
        + f"；应为 {right:.3g} = 1/√{head_width}",
    )


@torch.no_grad()
def _measure(caller: Caller, width: int, head_width: int) -> _Measured:
    """Give all matrices entries of one spread, so that scores have a known one, and read it off the output.

    Any layout will do: with spread 1/√D, each number of a query q has the variance |q|²/D, whichever head it
    belongs to; a score is a sum of d_k products of such numbers, times the factor that we look for.
    """
    size, sums = 0.5, [0.0, 0.0]
    for _ in range(6):
        sums = [_mean_square_score(caller, width, factor * size, size) / head_width for factor in (1.0, 2.0)]
        if sums[0] * head_width < 0.01:
            break
        size /= 2
    unit = (size * size) ** 2
    one, two = math.sqrt(max(sums[0], 1e-30) / unit), math.sqrt(max(sums[1], 1e-30) / (4 * unit))
    return _Measured(one, abs(math.log(one / two)) < 0.2)


def _mean_square_score(caller: Caller, width: int, query_size: float, key_size: float) -> float:
    """E[score²] between a query and a key of the given sizes (root mean square of their numbers).

    With a second key of zeros, a weight is σ(score) ≈ ½ + score/4: the output departs from the plain mean by
    a quarter of the score times the value.
    """
    departed, whole = 0.0, 0.0
    rows = 96
    for seed in range(8):
        randomise(caller.module, width, seed=seed, biases=0.0)
        query = _of_size(numbers(rows, 1, width, seed=40 + seed), query_size)
        key = _of_size(numbers(rows, 1, width, seed=60 + seed), key_size)
        value = numbers(rows, 1, width, seed=80 + seed)
        nothing, twice = torch.zeros_like(key), query.expand(-1, 2, -1)  # some want as many queries as keys
        with no_biases(caller.module, width):
            if caller.self_only:
                token = _of_size(query, math.sqrt(query_size * key_size))
                alone = caller(token)[:, 0]
                output = caller(torch.cat([nothing, token], dim=1))[:, 1]
            elif "value" not in caller.roles.values():
                alone = caller(query, key)[:, 0]
                output = caller(twice, torch.cat([nothing, key], dim=1))[:, 0]
            else:
                values = torch.cat([nothing, value], dim=1)
                moved = values + 0.01 * torch.cat([nothing, numbers(rows, 1, width, seed=100 + seed)], dim=1)
                flat = caller(twice, torch.cat([nothing, nothing], dim=1), values)[:, 0]
                more = caller(twice, torch.cat([nothing, nothing], dim=1), moved)[:, 0]
                output = caller(twice, torch.cat([nothing, key], dim=1), values)[:, 0]
                # A norm behind the attention bends its output; both departures are bent alike.
                departed += ((output - flat) ** 2).sum().item()
                whole += ((more - flat) ** 2).sum().item() / (0.5 * 0.01) ** 2
                continue
        departed += ((output - alone / 2) ** 2).sum().item()
        whole += (alone**2).sum().item()
    return 16 * departed / max(whole, 1e-30)


def _of_size(x: Tensor, size: float) -> Tensor:
    """Vectors whose numbers have this root mean square, exactly."""
    return x * (size / x.pow(2).mean(-1, keepdim=True).sqrt())
