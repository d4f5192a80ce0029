"""What a dropout costs: torch's own against ours, alternately, forward and backward.

python -m benchmarks.dropout
"""

from __future__ import annotations

import statistics
import time

import torch
import torch.nn.functional as F

from glassformer.model.parts import Dropout


def seconds(layer: object, x: torch.Tensor) -> float:
    begin = time.perf_counter()
    layer(x).sum().backward()  # type: ignore[operator]
    return time.perf_counter() - begin


def main(rounds: int = 21) -> None:
    torch.set_num_threads(2)
    x = torch.randn(2048, 1024, requires_grad=True)
    layers = {"torch": lambda y: F.dropout(y, 0.1), "glassformer": Dropout(0.1)}
    times: dict[str, list[float]] = {name: [] for name in layers}
    for _ in range(rounds):
        for name, layer in layers.items():
            times[name].append(seconds(layer, x))
    for name, measured in times.items():
        print(f"{name:<12} {statistics.median(measured) / x.numel() * 1e9:5.2f} ns an element")
    ratios = [a / b for a, b in zip(times["torch"], times["glassformer"], strict=True)]
    print(f"ours is {statistics.median(ratios):.1f} times as fast")


if __name__ == "__main__":
    main()
