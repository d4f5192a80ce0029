"""A probe for everything: is evaluation deterministic?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.check.report import Report
from glassformer.check.tools import gap


@torch.no_grad()
def probe_dropout(run: Callable[[], Tensor], report: Report) -> bool:
    """Twice the same input in evaluation mode: True if the outputs are the same bits."""
    torch.manual_seed(1)
    first = run()
    second = run()
    if torch.equal(first, second) or not bool(torch.isfinite(first).all()):
        report.add("dropout_in_eval", "right")
        return True
    report.add(
        "dropout_in_eval",
        "wrong",
        f"after .eval(), the same input twice gives two outputs (difference {gap(first, second):.2g})",
        f"调用 .eval() 之后，同样的输入两次得到不同的输出（差 {gap(first, second):.2g}）",
    )
    return False
