"""Probes of masks: is what is masked as good as absent?

For each argument that takes a mask, many ways to write one are tried. A module is right if one of them
works: then, what is masked could just as well not be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glassformer.check.attention import Sight, influence, source_length
from glassformer.check.build import plain
from glassformer.check.calling import BATCH, TARGET, Caller
from glassformer.check.mask_forms import MaskForm, forms
from glassformer.check.report import Report
from glassformer.check.tools import no_biases, numbers, same, trained


@dataclass
class Situation:
    """Inputs, how many keys of each sentence may be attended, and what comes out if the rest is absent."""

    query: Tensor
    key: Tensor
    value: Tensor
    lengths: list[int]
    expected: list[Tensor]

    @property
    def may_attend_BTS(self) -> Tensor:
        keep_BS = torch.arange(self.key.shape[1]) < torch.tensor(self.lengths)[:, None]
        return keep_BS[:, None].expand(-1, self.query.shape[1], -1).contiguous()

    def fits(self, output: Tensor | None) -> bool:
        """Real queries get what they would get without the masked keys."""
        return output is not None and all(
            same(row[: len(right)], right) for row, right in zip(output, self.expected, strict=True)
        )


@dataclass
class Findings:
    """What happened to one mask argument, over all forms."""

    good: list[MaskForm] = field(default_factory=list)
    bad: dict[str, MaskForm] = field(default_factory=dict)
    error: str = ""


@torch.no_grad()
def probe_masks(
    caller: Caller, width: int, heads: int, sight: Sight, promise: str, report: Report, bare: bool = True
) -> None:
    """Look at every mask argument. `promise` is what the user says True means: keep, block, or nothing.

    `bare` attention shows what is wrong with a mask; inside a layer one only sees that something is.
    """
    if not caller.masks:
        return
    found = {name: try_padding(caller, width, heads, name, bare) for name in caller.masks}
    good = {name: findings.good for name, findings in found.items() if findings.good}
    for name, works in good.items():
        _judge_good(name, works, promise, report)
        _probe_nan(caller, width, heads, name, works[0], report)
    bad = {name: findings for name, findings in found.items() if not findings.good}
    if good:
        for name, findings in bad.items():
            if findings.bad:
                _judge_bad({name: findings}, report)
    elif not _one_mask_for_all(caller, width, heads, next(iter(bad.values())), report):
        _judge_bad(bad, report)
    if sight == "all":
        _probe_causal(caller, width, heads, found, report)


def situation(caller: Caller, width: int, lengths: list[int]) -> Situation:
    """Sentences of these lengths, padded to the longest possible."""
    batch = len(lengths)
    length = source_length(caller, width)
    lengths = [min(n, length) for n in lengths]
    if caller.self_only:
        x = numbers(batch, length, width, seed=41)
        expected = [caller(x[b : b + 1, :n])[0] for b, n in enumerate(lengths)]
        return Situation(x, x, x, lengths, expected)
    query = numbers(batch, TARGET, width, seed=42)
    key, value = numbers(batch, length, width, seed=43), numbers(batch, length, width, seed=44)
    expected = []
    for b, n in enumerate(lengths):
        one, queries = slice(b, b + 1), TARGET if length != TARGET else n  # some want as many queries as keys
        expected.append(caller(query[one, :queries], key[one, :n], value[one, :n])[0])
    return Situation(query, key, value, lengths, expected)


def masked(caller: Caller, now: Situation, name: str, mask: Tensor) -> tuple[Tensor | None, str]:
    """The output under a mask; or None, and why not."""
    try:
        if caller.self_only:
            output = caller(now.query, **{name: mask})
        else:
            output = caller(now.query, now.key, now.value, **{name: mask})
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".split("\n")[0]
    return (output, "") if output.shape[-1] == now.query.shape[-1] else (None, "the output changes its shape")


def _made(now: Situation, heads: int) -> Iterator[tuple[MaskForm, Tensor]]:
    for form in forms():
        mask = form.make(now.may_attend_BTS, heads)
        if mask is not None:
            yield form, mask


def try_padding(caller: Caller, width: int, heads: int, name: str, bare: bool = True) -> Findings:
    """Hide the end of some sentences, in every form."""
    length = source_length(caller, width)
    now = situation(caller, width, [length - 2, length - 1, length][:BATCH])
    open_output = caller(now.query) if caller.self_only else caller(now.query, now.key, now.value)
    findings = Findings()
    for form, mask in _made(now, heads):
        output, error = masked(caller, now, name, mask)
        findings.error = findings.error or error
        if output is None:
            continue
        if now.fits(output):
            findings.good.append(form)
        else:
            code = _diagnose(caller, width, heads, now, name, form, output, open_output)
            findings.bad.setdefault(code if bare or code == "mask_ignored" else "padding_leak", form)
    return findings


def _diagnose(
    caller: Caller,
    width: int,
    heads: int,
    now: Situation,
    name: str,
    form: MaskForm,
    output: Tensor,
    open_output: Tensor,
) -> str:
    """Which mistake a mask that runs but does not work looks like."""
    real = [slice(0, len(right)) for right in now.expected]
    if all(same(output[b, rows], open_output[b, rows]) for b, rows in enumerate(real)):
        return "mask_ignored"
    # Weights that were overwritten, with 0 or with a large number, were weights already.
    huge = output.abs().max() > 1e3 * max(1.0, open_output.abs().max().item())
    if huge or _loses_weight(caller, width, heads, now, name, form):
        return "mask_after_softmax"
    if _sees_only_the_masked(caller, now, name, form, heads, output):
        return "mask_inverted"
    common = situation(caller, width, [now.lengths[0]] * BATCH)
    again = form.make(common.may_attend_BTS, heads)
    if again is not None and common.fits(masked(caller, common, name, again)[0]):
        return "mask_not_broadcast"
    return "mask_weak"


def _sees_only_the_masked(
    caller: Caller, now: Situation, name: str, form: MaskForm, heads: int, output: Tensor
) -> bool:
    """Other keys and values where nothing is masked: is the output still the same?"""
    shown = now.may_attend_BTS[:, 0, :, None]
    key = torch.where(shown, numbers(*now.key.shape, seed=47), now.key)
    value = torch.where(shown, numbers(*now.value.shape, seed=48), now.value)
    changed = Situation(now.query, key, value, now.lengths, now.expected)
    if caller.self_only:
        changed.query = changed.key
    mask = form.make(now.may_attend_BTS, heads)
    assert mask is not None
    again = masked(caller, changed, name, mask)[0]
    # The last sentence has nothing masked, and so nothing to see.
    return again is not None and same(again[:-1], output[:-1])


def _loses_weight(caller: Caller, width: int, heads: int, now: Situation, name: str, form: MaskForm) -> bool:
    """Copies of one token, some of them masked: does the output shrink to the share that is left?"""
    token, value = numbers(1, 1, width, seed=45), numbers(1, 1, width, seed=46)
    shape = now.key.shape
    copies = Situation(now.query, token.expand(shape), value.expand(shape), now.lengths, [])
    if caller.self_only:
        copies.query = copies.key
    mask = form.make(copies.may_attend_BTS, heads)
    assert mask is not None
    with no_biases(caller.module, width):
        output = masked(caller, copies, name, mask)[0]
        whole = caller(copies.query) if caller.self_only else caller(copies.query, copies.key, copies.value)
    if output is None:
        return False
    left = torch.tensor(now.lengths)[:, None, None].to(whole) / shape[1]
    return same(output, whole * left)


def _judge_good(name: str, good: list[MaskForm], promise: str, report: Report) -> None:
    keeps = {form.keeps for form in good if form.keeps is not None}
    # The one name whose meaning is fixed wherever it is used; the user's word counts for the others.
    wanted = {"keep": True, "block": False}.get(promise, False if plain(name) == "keypaddingmask" else None)
    if wanted is not None and keeps and wanted not in keeps:
        means = ("True = blocked", "True = may attend")
        report.add(
            "mask_inverted",
            "wrong",
            f"{name}: {means[wanted]} is what it should mean, but it means {means[not wanted]}",
            f"{name}：应该是 {means[wanted]}，实际却是 {means[not wanted]}",
        )
        return
    report.add("mask_ignored", "right", f"{name}: {good[0]}", f"{name}：{good[0]}")
    report.add("mask_after_softmax", "right")
    if any("B" in form.shape or form.shape == "lengths" for form in good):
        report.add("mask_not_broadcast", "right")


def _one_mask_for_all(caller: Caller, width: int, heads: int, findings: Findings, report: Report) -> bool:
    """No mask of its own for each sentence works: does one for all, or a batch of one?"""
    if findings.bad:
        return False
    length = source_length(caller, width)
    for lengths in ([length - 2] * BATCH, [length - 2]):
        now = situation(caller, width, lengths)
        for name in caller.masks:
            for form, mask in _made(now, heads):
                if now.fits(masked(caller, now, name, mask)[0]):
                    report.add(
                        "mask_not_broadcast",
                        "wrong",
                        f"{name}: {BATCH} sentences can't have a mask each, in any shape ({findings.error}); "
                        f"{form} works for {'one mask for all' if len(lengths) > 1 else 'a batch of one'}",
                        f"{name}：{BATCH} 个句子各有掩码时，任何形状都不行（{findings.error}）；"
                        f"只有{'所有句子共用一个掩码' if len(lengths) > 1 else '批大小为 1 '}时 {form} 可行",
                    )
                    return True
    return False


def _judge_bad(found: dict[str, Findings], report: Report) -> None:
    """The most telling of the wrong behaviours, over all arguments and forms."""
    sayings: dict[str, tuple[str, str]] = {
        "mask_after_softmax": (
            "copies of one token, some of them masked, give another output than one: the weights that are "
            "left do not sum to 1",
            "同一个词的多份拷贝，遮住一部分后输出就变了：剩下的权重之和不是 1",
        ),
        "mask_not_broadcast": (
            "it works if all sentences have the same mask, but not if each has its own",
            "所有句子用同一个掩码时正确，各用各的就错了",
        ),
        "mask_inverted": (
            "what is masked is all that is seen",
            "看到的恰恰只有被遮住的内容",
        ),
        "padding_leak": (
            "what is masked still changes the output at other places",
            "被遮住的内容仍然改变其他位置的输出",
        ),
        "mask_weak": (
            "the mask changes the output, but the output still depends on what is masked",
            "掩码改变了输出，但输出仍然依赖被遮住的内容",
        ),
        "mask_ignored": ("the output is the same with and without the mask", "有没有掩码，输出都一样"),
    }
    for code, (en, zh) in sayings.items():
        for name, findings in found.items():
            if code in findings.bad:
                report.add(code, "wrong", f"{name}: {en}", f"{name}：{zh}")
                return
    name, findings = next(iter(found.items()))
    report.add(
        "mask_ignored",
        "unknown",
        f"no mask that we know could be given as {name}: {findings.error}",
        f"我们知道的掩码形式都不能传给 {name}：{findings.error}",
    )


def _probe_nan(caller: Caller, width: int, heads: int, name: str, form: MaskForm, report: Report) -> None:
    """One sentence with everything masked: no NaN, neither in the output nor in a gradient."""
    length = source_length(caller, width)
    now = situation(caller, width, [length, length - 1, length])
    may_attend = now.may_attend_BTS
    common = "B" not in form.shape and form.shape != "lengths"
    may_attend[slice(None) if common else 0] = False
    mask = form.make(may_attend, heads)
    if mask is None:
        return
    finite, where = _finite(caller, now, name, mask)
    if finite:
        report.add("nan_on_masked_rows", "right")
        return
    # A mask that is added is made by the caller, who may well have made it finite.
    added = form.keeps is None and _finite(caller, now, name, mask.clamp(min=torch.finfo(mask.dtype).min))[0]
    report.add(
        "nan_on_masked_rows",
        "note" if added else "wrong",
        f"{name}: a sentence whose keys are all masked gives NaN in {where}",
        f"{name}：一个句子的键全部被遮住时，{'输出' if where == 'the output' else '梯度'}里出现 NaN",
    )


def _finite(caller: Caller, now: Situation, name: str, mask: Tensor) -> tuple[bool, str]:
    """Are output and gradients finite? If not, which of them."""
    query = now.query.clone().requires_grad_()
    learned = [query, *trained(caller.module)]
    with torch.enable_grad():
        inputs = (query,) if caller.self_only else (query, now.key, now.value)
        output = caller(*inputs, **{name: mask})
        gradients = torch.autograd.grad(output.pow(2).sum(), learned, allow_unused=True)
    if not bool(torch.isfinite(output).all()):
        return False, "the output"
    return all(g is None or bool(torch.isfinite(g).all()) for g in gradients), "a gradient"


def _probe_causal(caller: Caller, width: int, heads: int, found: dict[str, Findings], report: Report) -> None:
    """A mask that differs from query to query: nobody may see what comes after."""
    length = TARGET
    may_attend = torch.ones(length, length, dtype=torch.bool).tril().expand(BATCH, -1, -1).contiguous()
    worst = ""
    for name, findings in found.items():
        if findings.bad and not findings.good:
            continue  # said already
        for form in forms():
            mask = form.make(may_attend, heads)
            fits = not findings.good or form.keeps in {good.keeps for good in findings.good}
            pattern = None if mask is None or not fits else _pattern(caller, width, length, {name: mask})
            if pattern is None:
                continue
            if bool((pattern == may_attend[0]).all()):
                report.add("causal_leak", "right", f"{name}: {form}", f"{name}：{form}")
                return
            seen = (pattern & ~may_attend[0]).nonzero().tolist()
            if seen and not worst:
                worst = f"{name}: position {seen[0][0]} sees position {seen[0][1]}"
    if worst:
        report.add("causal_leak", "wrong", f"under a causal mask, {worst}", f"在因果掩码下：{worst}")


def _pattern(caller: Caller, width: int, length: int, masks: dict[str, Tensor]) -> Tensor | None:
    try:
        return influence(caller, width, length, **masks)
    except Exception:  # this form is not for this module
        return None
