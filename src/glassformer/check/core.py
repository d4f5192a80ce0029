"""`check`: adapt the target, run the probes of its kind, report. `assert_attention` for tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal

from glassformer.check.adapt import adapt
from glassformer.check.adapters import Attention, Layer, Model
from glassformer.check.attention import probe_structure
from glassformer.check.build import Sizes
from glassformer.check.evaluation import probe_dropout
from glassformer.check.heads import probe_sizes
from glassformer.check.layers import Stack, probe_decoder_masks, probe_stack
from glassformer.check.losses import probe_loss, probe_own_loss
from glassformer.check.mask_functions import probe_mask
from glassformer.check.masking import probe_masks
from glassformer.check.models import ids
from glassformer.check.positions import probe_positions
from glassformer.check.report import Report
from glassformer.check.subjects import Subject
from glassformer.check.tools import CannotCallError, no_dropout, numbers, restored
from glassformer.check.transformer import probe_model

Kind = Literal["", "attention", "positions", "mask", "layer", "transformer", "loss"]
Promise = Literal["", "keep", "block"]


def check(
    target: Any,
    *,
    kind: Kind = "",
    mask: Promise = "",
    heads: int | None = None,
    pad: int | None = None,
    arguments: dict[str, Any] | None = None,
) -> Report:
    """Probe a class, an instance, a function or an adapter, and report what is right and what is not.

    `kind` says what it is meant to be, if it is not recognised; `mask` whether True in its masks keeps or
    blocks; `heads` how many heads an instance has; `pad` the padding token; `arguments` what its constructor
    gets.
    """
    report = Report(getattr(target, "__name__", type(target).__name__), kind or "unknown")
    adapted = target.module if isinstance(target, (Attention, Layer, Model)) else None
    with warnings.catch_warnings(), restored(adapted):
        warnings.simplefilter("ignore")
        try:
            subject = adapt(target, kind, Sizes(), arguments or {})
        except CannotCallError as error:
            _cannot_call(error, report)
            return report
        report.kind, report.name = subject.kind, subject.name
        subject.heads = subject.heads if heads is None else heads
        subject.extra["pad"] = subject.extra.get("pad") if pad is None else pad
        _guarded(lambda: _PROBES[subject.kind](subject, report, mask), "cannot_call", report)
    return report


def assert_attention(target: Any, **options: Any) -> None:
    """Fail, with the report as the message, unless the target is attention without a known mistake."""
    __tracebackhide__ = True
    report = check(target, **{"kind": "attention", **options})
    if not report.ok:
        raise AssertionError(report.text())


def _cannot_call(error: CannotCallError, report: Report) -> None:
    """What torch says about the shapes of an attention often names the mistake."""
    said = str(error)
    known = {
        "view size is not compatible": "heads_order",  # a transpose that no contiguous() follows
        "is invalid for input of size": "projection_width",
        "shapes cannot be multiplied": "projection_width",
    }
    codes = [code for part, code in known.items() if part in said and error.during == "attention"]
    if codes:
        report.kind = "attention"
    report.add(codes[0] if codes else "cannot_call", "wrong", said, said)


def _attention(subject: Subject, report: Report, mask: Promise) -> None:
    caller, width = subject.caller, subject.width
    assert caller is not None
    report.called = f"{subject.made_by} {caller.describe()}".strip()
    steady = probe_dropout(lambda: caller(numbers(3, 5, width)), report)
    with nullcontext() if steady else no_dropout():
        sight = probe_structure(caller, width, report)
        if sight is None:
            return
        _guarded(lambda: probe_sizes(caller, width, subject.heads, report), "scale", report)
        heads = subject.heads or 4
        _guarded(lambda: probe_masks(caller, width, heads, sight, mask, report), "mask_ignored", report)


def _positions(subject: Subject, report: Report, mask: Promise) -> None:
    found = subject.extra["positions"]
    report.called = f"{subject.made_by} {found.layout}".strip()
    if found.module is not None:
        probe_dropout(lambda: found.call(found.module, found.sample), report)
    probe_positions(found, report)


def _mask(subject: Subject, report: Report, mask: Promise) -> None:
    report.called = subject.made_by
    probe_mask(subject.extra["mask"], report)


def _layer(subject: Subject, report: Report, mask: Promise) -> None:
    caller, width = subject.caller, subject.width
    assert caller is not None
    assert caller.module is not None
    report.called = f"{subject.made_by} {caller.describe()}".strip()
    if not _grows(subject, report):
        return
    memory = numbers(3, 7, width, seed=1)
    steady = probe_dropout(lambda: caller(numbers(3, 5, width), memory), report)
    with nullcontext() if steady else no_dropout():
        stack = Stack(
            caller.module,
            lambda x: caller(x, memory),
            numbers(3, 5, width),
            decoder=caller.cross,
            layers=subject.extra["layers"],
        )
        _guarded(lambda: probe_stack(stack, report), "missing_residual", report)
        if caller.cross:
            _guarded(lambda: probe_decoder_masks(caller, width, report), "causal_leak", report)
        else:
            _guarded(
                lambda: probe_masks(caller, width, 4, "all", mask, report, bare=False), "mask_ignored", report
            )


def _grows(subject: Subject, report: Report) -> bool:
    """More layers must mean more parameters; if they do not, nothing else can be trusted."""
    if subject.extra.get("grows", True):
        return True
    report.add(
        "shared_layers",
        "wrong",
        "one more layer adds no parameter: the layers are one object, or are not registered",
        "多加一层，参数却没有增加：各层是同一个对象，或没有登记到模块里",
    )
    return False


def _transformer(subject: Subject, report: Report, mask: Promise) -> None:
    caller = subject.extra["model"]
    report.called = f"{subject.made_by} {caller.describe()}".strip()
    if not _grows(subject, report):
        return
    source, target = ids(2, 7, caller.vocabulary), ids(2, 5, caller.vocabulary, seed=1)
    steady = probe_dropout(lambda: caller(source, target), report)
    with nullcontext() if steady else no_dropout():
        probe_model(caller, subject.extra["pad"], report)


def _loss(subject: Subject, report: Report, mask: Promise) -> None:
    report.called = subject.made_by
    if "own" in subject.extra:
        probe_own_loss(subject.target, subject.extra["own"], subject.extra["pad"], report)
    else:
        probe_loss(subject.extra["loss"], subject.extra["pad"], report)


def _guarded(probe: Callable[[], None], code: str, report: Report) -> None:
    """A probe that fails on a foreign module leaves a question open; the others go on."""
    try:
        probe()
    except Exception as error:
        report.add(code, "unknown", f"{type(error).__name__}: {error}", f"{type(error).__name__}: {error}")


_PROBES: dict[str, Callable[[Subject, Report, Promise], None]] = {
    "attention": _attention,
    "positions": _positions,
    "mask": _mask,
    "layer": _layer,
    "transformer": _transformer,
    "loss": _loss,
}
