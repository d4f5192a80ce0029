"""Probes of attention's structure: does each query average the values of its own sentence, head by head?

Nothing is assumed about names, layouts or initial values. Each probe states a fact that holds for every
correct attention, and what it means if it does not hold:

- a sentence does not see the other sentences of its batch;
- every query sees every key (or, if the module is causal by itself, every earlier one);
- copies of one token are one token: weights that sum to 1 over the keys can't tell them apart;
- a query has no influence on the output of another query;
- a query of zeros scores all keys alike, so it gets the plain mean.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from glassformer.check.calling import BATCH, SOURCE, TARGET, Caller
from glassformer.check.report import Report
from glassformer.check.tools import gap, no_biases, numbers, same, tolerance

Sight = Literal["all", "causal"]


@torch.no_grad()
def probe_structure(caller: Caller, width: int, report: Report) -> Sight | None:
    """How far a query sees, or None if a mistake was found that makes all further probes senseless."""
    output = caller(numbers(BATCH, TARGET, width))
    if output.shape[-1] != width:
        report.add(
            "projection_width",
            "wrong",
            f"the output has width {output.shape[-1]}, the input {width}",
            f"输出的宽度是 {output.shape[-1]}，输入是 {width}",
        )
        return None
    if _sentences_mix(caller, width, report):
        return None
    sight = _probe_sight(caller, width, report)
    if sight is None or _copies_differ(caller, width, report, sight):
        return None
    if caller.cross:
        sound = not _queries_mix(caller, width, report) and not _order_of_keys_counts(caller, width, report)
    else:
        sound = _zero_query_is_mean(caller, width, report, sight)
    if not sound:
        return None
    report.add("softmax_axis", "right")
    report.add("heads_order", "right")
    return sight


def source_length(caller: Caller, width: int) -> int:
    """Keys may be more than queries, unless the module can't have that."""
    if caller.self_only:
        return TARGET
    try:
        caller(numbers(BATCH, TARGET, width), numbers(BATCH, SOURCE, width, seed=1))
        return SOURCE
    except Exception:
        return TARGET


def _inputs(caller: Caller, width: int) -> tuple[Tensor, Tensor, Tensor]:
    if caller.self_only:
        x = numbers(BATCH, TARGET, width, seed=1)
        return x, x, x
    length = source_length(caller, width)
    query = numbers(BATCH, TARGET, width, seed=1)
    key = numbers(BATCH, length, width, seed=2)
    return query, key, numbers(BATCH, length, width, seed=3)


def _sentences_mix(caller: Caller, width: int, report: Report) -> bool:
    query, key, value = _inputs(caller, width)
    before = caller(query, key, value)[0]
    others = [x.clone() for x in (query, key, value)]
    for x in others:
        x[1:] = numbers(*x[1:].shape, seed=4)
    after = caller(others[0], *([] if caller.self_only else others[1:]))[0]
    if same(before, after):
        return False
    report.add(
        "softmax_axis",
        "wrong",
        f"other sentences in the batch change the output of the first one (by {gap(before, after):.2g})",
        f"同一批里的其他句子改变了第一句的输出（变化 {gap(before, after):.2g}）",
    )
    return True


def influence(caller: Caller, width: int, length: int = TARGET, **masks: Tensor) -> Tensor:
    """influence_TS[t, s]: does the output at t change with the value (or the token) at s?"""
    query = numbers(BATCH, length, width, seed=1)
    key = query if caller.self_only else numbers(BATCH, length, width, seed=2)
    value = query if caller.self_only else numbers(BATCH, length, width, seed=3)

    def run(key: Tensor, value: Tensor) -> Tensor:
        return caller(key, **masks) if caller.self_only else caller(query, key, value, **masks)

    before = run(key, value)
    rows = []
    for place in range(length):
        changed_key, changed_value = key.clone(), value.clone()
        changed_value[:, place] += 1.0
        if caller.self_only or "value" not in caller.roles.values():
            changed_key[:, place] += 1.0
        moved = (run(changed_key, changed_value) - before).abs().amax((0, 2))
        rows.append(moved > 10 * tolerance(before))
    return torch.stack(rows, dim=1)


def _probe_sight(caller: Caller, width: int, report: Report) -> Sight | None:
    length = 6
    seen_TS = influence(caller, width, length)
    places = torch.arange(length)
    ahead_TS = places[None] - places[:, None]  # how far key s lies ahead of query t
    if bool(seen_TS.all()):
        return "all"
    if bool((seen_TS == (ahead_TS <= 0)).all()):
        report.add("causal_leak", "right", "it is causal by itself", "模块自带因果掩码")
        return "causal"
    if bool((seen_TS == (ahead_TS == 0)).all()):
        report.add(
            "heads_order",
            "wrong",
            "no token sees any other token: the heads of one token attend to each other",
            "没有一个词能看到别的词：是同一个词的各个头在互相注意",
        )
    elif bool((seen_TS == (ahead_TS >= 0)).all()):
        report.add(
            "mask_inverted",
            "wrong",
            "each position sees itself and what comes after it, but nothing before it",
            "每个位置看到自己和后面的内容，却看不到前面的",
        )
    elif leak := _constant_leak(seen_TS, ahead_TS):
        report.add(
            "causal_leak",
            "wrong",
            f"position 1 sees position {1 + leak}: the mask is {leak} step(s) too wide",
            f"位置 1 看到了位置 {1 + leak}：掩码放宽了 {leak} 步",
        )
    else:
        hidden = (~seen_TS).nonzero()[0].tolist()
        report.add(
            "heads_order",
            "wrong",
            f"position {hidden[0]} can't see position {hidden[1]} although nothing is masked",
            f"没有掩码，位置 {hidden[0]} 却看不到位置 {hidden[1]}",
        )
    return None


def _constant_leak(seen_TS: Tensor, ahead_TS: Tensor) -> int:
    """How many steps too far every position sees, if that is all that is wrong."""
    for steps in range(1, len(seen_TS) - 1):
        if bool((seen_TS == (ahead_TS <= steps)).all()):
            return steps
    return 0


def _copies_differ(caller: Caller, width: int, report: Report, sight: Sight) -> bool:
    copies = 4
    query = numbers(BATCH, copies, width, seed=6)
    token, value = numbers(BATCH, 1, width, seed=7), numbers(BATCH, 1, width, seed=8)
    with no_biases(caller.module, width):
        if caller.self_only:
            single = caller(token).expand(-1, copies, -1)
            many = caller(token.expand(-1, copies, -1))
        elif source_length(caller, width) == TARGET:  # as many queries as keys, or it does not run
            single = torch.cat([caller(query[:, t : t + 1], token, value) for t in range(copies)], dim=1)
            many = caller(query, *(x.expand(-1, copies, -1) for x in (token, value)))
        else:
            single = caller(query, token, value)
            many = caller(query, *(x.expand(-1, copies, -1) for x in (token, value)))
    if same(single, many):
        return False
    counts = torch.arange(1, copies + 1) if sight == "causal" else torch.full((copies,), copies)
    if same(single * counts[None, :, None].to(single), many):
        report.add(
            "softmax_axis",
            "wrong",
            f"{copies} copies of one token give {copies} times the output of one: "
            "the weights over the keys do not sum to 1",
            f"同一个词重复 {copies} 次，输出就变成 {copies} 倍：对键的权重之和不是 1",
        )
    else:
        report.add(
            "heads_order",
            "wrong",
            f"{copies} copies of one token give another output than one (difference {gap(single, many):.2g})",
            f"同一个词重复 {copies} 次，输出却与一次不同（差 {gap(single, many):.2g}）",
        )
    return True


def _queries_mix(caller: Caller, width: int, report: Report) -> bool:
    query, key, value = _inputs(caller, width)
    before = caller(query, key, value)
    changed = query.clone()
    changed[:, 1] = numbers(BATCH, width, seed=9)
    moved = (caller(changed, key, value) - before)[:, [0, 2, 3, 4]].abs().amax().item()
    if moved < 10 * tolerance(before):
        return False
    order = torch.tensor([3, 0, 4, 1, 2])
    permuted = same(caller(query[:, order], key, value), before[:, order])
    report.add(
        "softmax_axis" if permuted else "heads_order",
        "wrong",
        f"changing the query at position 1 changes the outputs of other positions (by {moved:.2g})",
        f"改变位置 1 的查询，其他位置的输出也变了（{moved:.2g}）",
    )
    return True


def _order_of_keys_counts(caller: Caller, width: int, report: Report) -> bool:
    query, key, value = _inputs(caller, width)
    order = torch.randperm(key.shape[1], generator=torch.Generator().manual_seed(3))
    before, after = caller(query, key, value), caller(query, key[:, order], value[:, order])
    if same(before, after):
        return False
    report.add(
        "heads_order",
        "wrong",
        f"keys and values in another order give another output (difference {gap(before, after):.2g})",
        f"把键和值一起换个顺序，输出就变了（差 {gap(before, after):.2g}）",
    )
    return True


def _zero_query_is_mean(caller: Caller, width: int, report: Report, sight: Sight) -> bool:
    """Self-attention: a token of zeros among others. Its query scores every key 0."""
    length = 5
    token = numbers(1, 1, width, seed=10) * 2
    with no_biases(caller.module, width):
        alone = caller(token)[0, 0]
        outputs = []
        for place in range(length - 1):
            x = torch.zeros(1, length, width).to(token)
            x[0, place] = token[0, 0]
            outputs.append(caller(x)[0])
    seen = torch.arange(1, length + 1) if sight == "causal" else torch.full((length,), length)
    places = [(s, t) for s in range(length - 1) for t in range(length) if t > s]
    if all(same(outputs[s][t], alone / seen[t]) for s, t in places):
        return True
    # Over the wrong axis, all rows of zeros are alike. Where they differ, distance counts inside the module
    # (ALiBi, T5's biases), which is no mistake.
    if not all(same(outputs[s][t], outputs[s][s + 1]) for s, t in places):
        report.add(
            "positions_missing", "note", "distance counts inside the attention", "注意力内部含有相对位置"
        )
        return True
    expected, found = alone.norm().item() / length, outputs[0][1].norm().item()
    report.add(
        "softmax_axis",
        "wrong",
        f"a token of zeros scores all {length} tokens alike: it should give each a weight of "
        f"{1 / length:.2f}, but gives {found / max(expected * length, 1e-30):.2f}",
        f"全零的词对 {length} 个词的分数相同，应各给 {1 / length:.2f} 的权重，却给了 "
        f"{found / max(expected * length, 1e-30):.2f}",
    )
    return False
