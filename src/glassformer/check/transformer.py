"""Probes of whole models: who sees what, what padding does, and the layers inside."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.check.layers import Stack, probe_norm, probe_residual, probe_sharing, watch
from glassformer.check.mask_forms import MaskForm, forms
from glassformer.check.models import SOURCE, TARGET, ModelCaller, ids, influence_on, side_of
from glassformer.check.report import Report
from glassformer.check.tools import gap, tensors, trained


def probe_model(caller: ModelCaller, pad: int | None, report: Report) -> None:
    """Sight first, then padding, then the inside."""
    with torch.no_grad():
        if not _probe_sight(caller, report):
            return
        if caller.has_source:
            _probe_source(caller, pad, report)
    source, target = ids(2, SOURCE, caller.vocabulary), ids(2, TARGET, caller.vocabulary, seed=1)
    if probe_sharing(caller.module, lambda: caller(source, target), report):
        _probe_layers(caller, source, target, report)


def _probe_sight(caller: ModelCaller, report: Report) -> bool:
    """Logits at t may depend on target tokens up to t (or before t, if the model shifts by itself)."""
    source, target = ids(2, SOURCE, caller.vocabulary), ids(2, TARGET + 1, caller.vocabulary, seed=1)

    def seen_now() -> Tensor:
        return influence_on(lambda tokens: caller(source, tokens), target, caller.vocabulary)

    seen_TT = seen_now()
    places = torch.arange(len(seen_TT))
    ahead = torch.arange(seen_TT.shape[1])[None] - places[:, None]
    if bool((seen_TT & (ahead > 0)).any()) and _give_target_masks(caller, seen_now, ahead):
        seen_TT = seen_now()
    if not bool((seen_TT & (ahead > 0)).any()):
        report.add("causal_leak", "right")
        return True
    if not bool((seen_TT & (ahead < 0)).any()):
        report.add(
            "mask_inverted",
            "wrong",
            "target tokens see only what comes after them",
            "目标词只能看到它后面的词",
        )
        return False
    if not caller.has_source and bool(seen_TT.all()):
        report.add(
            "causal_leak",
            "note",
            "every token sees every other: an encoder",
            "每个词都能看到所有的词：是编码器",
        )
        return True
    t, s = (seen_TT & (ahead > 0)).nonzero()[0].tolist()
    report.add(
        "causal_leak",
        "wrong",
        f"the prediction at position {t} changes with the target token at position {s}",
        f"位置 {t} 的预测会随位置 {s} 的目标词而变",
    )
    return False


def _give_target_masks(caller: ModelCaller, seen_now: Any, ahead: Tensor) -> bool:
    """The model leaves its causal mask to whoever calls it: find out how to give it one."""
    for name in caller.masks:
        if side_of(name, caller.has_source) != "target":
            continue
        kept = dict(caller.made_masks)
        for form in forms():
            caller.made_masks = {**kept, name: (form, "target")}
            try:
                seen_TT = seen_now()
            except Exception:  # this form is not for this model
                continue
            if not bool((seen_TT & (ahead > 0)).any()) and bool((seen_TT & (ahead < 0)).any()):
                return True
        caller.made_masks = kept
    return False


def _probe_source(caller: ModelCaller, pad: int | None, report: Report) -> None:
    source, target = ids(2, SOURCE, caller.vocabulary), ids(2, TARGET, caller.vocabulary, seed=1)
    order = torch.tensor([3, 1, 0, 2, *range(4, SOURCE)])
    if gap(caller(source, target), caller(source[:, order], target)) < 1e-6:
        report.add(
            "positions_missing",
            "wrong",
            "the source words in another order give exactly the same predictions",
            "把源句的词换个顺序，预测完全不变",
        )
    else:
        report.add("positions_missing", "right")
    _probe_padding(caller, source, target, pad, report)


def _probe_padding(
    caller: ModelCaller, source: Tensor, target: Tensor, pad: int | None, report: Report
) -> None:
    """The same sentence with and without padding behind it."""
    expected = caller(source, target)
    pads = [pad] if pad is not None else [0, 1, 2, 3, caller.vocabulary - 1]
    differences: dict[int, float] = {}
    for candidate in pads:
        padded = torch.cat([source, torch.full((2, 3), candidate)], dim=1)
        for found in _with_source_masks(caller, candidate, padded, target):
            difference = gap(found, expected)
            if difference < 1e-5:
                report.add(
                    "padding_leak", "right", f"padding is token {candidate}", f"填充是 {candidate} 号词"
                )
                _probe_nothing_but_padding(caller, candidate, report)
                return
            differences.setdefault(candidate, difference)
    padded = torch.cat([source, torch.full((2, 3), pads[0])], dim=1)
    caller.made_masks = {n: m for n, m in caller.made_masks.items() if m[1] == "target"}
    other = torch.cat([ids(2, SOURCE, caller.vocabulary, seed=9), padded[:, SOURCE:]], dim=1)
    if gap(caller(padded, target), caller(other, target)) < 1e-6:
        report.add(
            "mask_inverted", "wrong", "of a padded source only the padding is seen", "源句中只有填充被看到"
        )
        return
    report.add(
        "padding_leak",
        "wrong",
        f"three padding tokens behind the source change the logits by {differences.get(pads[0], 0):.2g}",
        f"在源句后面加三个填充，logits 就变了 {differences.get(pads[0], 0):.2g}",
    )


def _with_source_masks(caller: ModelCaller, pad: int, source: Tensor, target: Tensor) -> Iterator[Tensor]:
    """Logits without masks from outside, then with each form in each set of source masks."""
    kept, caller.pad = {n: m for n, m in caller.made_masks.items() if m[1] == "target"}, pad
    names = [n for n in caller.masks if side_of(n, True) == "source"]
    padding = [n for n in names if "pad" in n.lower()]
    groups = [group for group in (padding, names, *([n] for n in names)) if group]
    choices: list[dict[str, tuple[MaskForm, str]]] = [{}]
    # Masks of -inf that are added come last: what they do where everything is masked is the caller's doing.
    ordered = sorted(forms(), key=lambda form: form.keeps is None)
    choices += [dict.fromkeys(group, (form, "source")) for group, form in itertools.product(groups, ordered)]
    for choice in choices:
        caller.made_masks = kept | choice
        with contextlib.suppress(Exception):  # a form that is not for this model
            yield caller(source, target)


def _probe_nothing_but_padding(caller: ModelCaller, pad: int, report: Report) -> None:
    source, target = ids(2, SOURCE, caller.vocabulary), ids(2, TARGET, caller.vocabulary, seed=1)
    source[0] = pad
    logits = caller(source, target)
    if bool(torch.isnan(logits).any()):
        report.add(
            "nan_on_masked_rows",
            "wrong",
            "a source of nothing but padding gives NaN",
            "源句全是填充时得到 NaN",
        )
    else:
        report.add("nan_on_masked_rows", "right")


def _probe_layers(caller: ModelCaller, source: Tensor, target: Tensor, report: Report) -> None:
    """The layers are siblings of one class, each fed what the one before returned."""
    calls = watch(caller.module, lambda: caller(source, target))
    probed = 0
    for stack in _chains(calls.seen):
        local = Report("", "layer")
        try:
            if probe_residual(stack, local):
                probe_norm(stack, local)
        except Exception:  # a layer that can't be run twice on the same input, such as one with a cache
            continue
        probed += 1
        for verdict in local.verdicts:
            if verdict.status == "wrong" or report.status(verdict.code) != "wrong":
                report.add(verdict.code, verdict.status, verdict.evidence.en, verdict.evidence.zh)
    if not probed:
        report.add("missing_residual", "unknown", "no layers were found inside", "没有在内部找到层")


def _chains(seen: dict[nn.Module, tuple[tuple[Any, ...], dict[str, Any], Any]]) -> list[Stack]:
    """The first layer of each chain, ready to be run on what it was given."""
    found = []
    for module, (args, kwargs, output) in seen.items():
        x, y = _first(args, kwargs), next(iter(tensors(output)), None)
        if x is None or y is None or x.shape != y.shape or x.dim() != 3 or len(trained(module)) < 6:
            continue
        followed = any(
            type(other) is type(module)
            and other is not module
            and _first(*seen[other][:2]) is not None
            and torch.equal(_first(*seen[other][:2]), y)  # type: ignore[arg-type]
            for other in seen
            if _first(*seen[other][:2]) is not None and _first(*seen[other][:2]).shape == y.shape  # type: ignore[union-attr]
        )
        if followed:
            others = [t for t in tensors([list(args[1:]), kwargs]) if t is not x]
            memory = [t for t in others if t.is_floating_point() and t.dim() == 3]
            found.append(Stack(module, _runner(module, args, kwargs), x, decoder=bool(memory)))
    return found


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    given = [*args, *kwargs.values()]
    return given[0] if given and isinstance(given[0], Tensor) and given[0].is_floating_point() else None


def _runner(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    original = _first(args, kwargs)

    def run(x: Tensor) -> Tensor:
        """The new x stands wherever the old one stood: as query, key and value alike."""
        given = [x if arg is original else arg for arg in args]
        named = {name: x if value is original else value for name, value in kwargs.items()}
        return next(iter(tensors(module(*given, **named))))

    return run
