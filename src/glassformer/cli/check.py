"""`glass check`: find the classic mistakes in somebody's own attention, positions, masks, layers or model."""

from __future__ import annotations

import json as json_format
import os
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.errors import RequestError

Kind = Literal["", "attention", "positions", "mask", "layer", "transformer", "loss"]


def check(
    *targets: str,
    kind: Kind = "",
    mask: Literal["", "keep", "block"] = "",
    heads: int | None = None,
    pad: int | None = None,
    argument: Annotated[list[str] | None, Parameter(negative=())] = None,
    language: Literal["", "en", "zh"] = "",
    json: Annotated[bool, Parameter(negative=())] = False,
    timeout: float = 120.0,
) -> None:
    """Check your own code: `glass check my_file.py:MyAttention`. Ends with 1 if a mistake is found.

    Parameters
    ----------
    targets
        a file and the class or function in it; several may be given
    kind
        what it is meant to be, if it is not recognised
    mask
        what True means in its masks: keep or block
    heads
        how many heads it has, if its constructor does not say
    pad
        the padding token
    argument
        an argument for its constructor, such as d_model=64; several may be given
    language
        en or zh; left out, the language of your terminal
    json
        print JSON for scripts
    timeout
        seconds before its process is stopped
    """
    from glassformer.check.runner import check_file

    if not targets:
        raise RequestError("say what to check: glass check my_file.py:MyAttention")
    options = {
        "kind": kind,
        "mask": mask,
        "heads": heads,
        "pad": pad,
        "arguments": _arguments(argument or []),
    }
    reports = [check_file(target, timeout=timeout, **options) for target in targets]
    if json:
        print(json_format.dumps([report.to_json() for report in reports], ensure_ascii=False, indent=2))
    else:
        print("\n\n".join(report.text(_language(language)) for report in reports))
    if not all(report.ok for report in reports):
        sys.stdout.flush()
        sys.exit(1)


def _arguments(pairs: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise RequestError(f"--argument {pair}: write it as name=value")
        try:
            found[name] = json_format.loads(value)
        except json_format.JSONDecodeError:
            found[name] = value
    return found


def _language(asked: str) -> Literal["en", "zh"]:
    terminal = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "zh" if (asked or terminal).startswith("zh") else "en"
