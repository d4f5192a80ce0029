"""`glass heads`: what each attention head does, and which one aligns best."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from glassformer.look.heads import HeadsReport


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Heads:
    """Which model, which text."""

    model: str = ""
    """a bundle, or the name of one that the package brings (default: English to Spanish)"""
    source: str = ""
    """file of source lines"""
    target: str = ""
    """file of their translations"""
    pairs: str = ""
    """or one .tsv or .jsonl file that holds both sides"""
    limit: int = 200
    """sentence pairs, at most"""
    ablate: Annotated[bool, Parameter(negative=())] = False
    """also switch every head off once, and say how BLEU changes (takes a while)"""
    json: Annotated[bool, Parameter(negative=())] = False
    """print JSON for scripts"""


def heads(what: Heads = Heads()) -> None:  # noqa: B008 - frozen
    """Label every head by what it does over sentence pairs, and recommend one for alignment."""
    from itertools import islice

    from glassformer.errors import RequestError
    from glassformer.look.ablate import ablate_each
    from glassformer.look.heads import find_heads
    from glassformer.recipe import CorpusConfig
    from glassformer.text.pairs import read_pairs
    from glassformer.translate import choose_shipped, load

    if bool(what.pairs) == bool(what.source and what.target):
        raise RequestError("give --source FILE and --target FILE, or --pairs FILE: heads are watched at work")
    corpus = CorpusConfig(source=what.source, target=what.target, pairs=what.pairs)
    pairs = list(islice(read_pairs(corpus), what.limit))
    translator = load(what.model or choose_shipped(), engine="torch")
    report = find_heads(translator, pairs)
    worth = ablate_each(translator, pairs) if what.ablate else None
    if what.json:
        print(json.dumps({**report.to_json(), **({"ablation": worth} if worth else {})}, ensure_ascii=False))
    else:
        _show(report, worth)


def _show(report: HeadsReport, worth: dict[str, Any] | None) -> None:
    """A table on a terminal and in a pipe alike."""
    columns = ["head", "label", "score", "spread", "agreement", *(["BLEU without"] if worth else [])]
    rows = [columns]
    for one in report.heads:
        row = [
            f"{one.place} {one.head + 1}",
            one.profile.label or "–",
            f"{one.profile.score:.2f}" if one.profile.label else "",
            f"{one.profile.entropy:.2f}",
            "" if one.agreement is None else f"{one.agreement:.2f}",
        ]
        if worth:
            without = worth["without"][f"{one.place}:{one.head}"]
            row.append(f"{without:.1f} ({without - worth['bleu']:+.1f})")
        rows.append(row)
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    best = report.aligning
    print(
        f"\nover {report.sentences} sentence pairs, layer {best.layer + 1}, head {best.head + 1} of the "
        f"decoder's attention over the source aligns best (agreement {best.agreement:.2f})"
    )
