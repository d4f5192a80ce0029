"""The beam tree: every continuation that a search looked at, what it kept, closed and let go."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glassformer.search.beam import BeamStep
from glassformer.search.scoring import Hypothesis, SearchOptions, length_factor


class BeamTree:
    """Watches the search of one sentence: pass `tree.watch` to `beam`."""

    def __init__(
        self, eos: int, options: SearchOptions, pieces: Callable[[Sequence[int]], list[str]]
    ) -> None:
        self.eos, self.options, self.pieces = eos, options, pieces
        self.nodes: list[dict[str, Any]] = []
        self._beams: list[int] = []

    def watch(self, step: BeamStep) -> None:
        """One step: its continuations become nodes under the beams they continue."""
        tokens, parents = step.tokens_BC[0].tolist(), step.parents_BC[0].tolist()
        log_probs, sums = step.log_probs_BC[0].tolist(), step.sums_BC[0].tolist()
        closed = [False] * len(tokens) if step.closed_BC is None else step.closed_BC[0].tolist()
        live = step.live_BN[0].tolist()
        factor = length_factor(step.length, self.options.length_penalty, self.options.penalty)
        numbers: dict[int, int] = {}
        for rank, (token, parent, log_prob, total) in enumerate(
            zip(tokens, parents, log_probs, sums, strict=True)
        ):
            if total == -math.inf:
                continue
            numbers[rank] = len(self.nodes)
            self.nodes.append(
                {
                    "parent": self._beams[parent] if self._beams else -1,
                    "step": step.length - 1,
                    "rank": rank,
                    "id": token,
                    "log_prob": log_prob,
                    "sum": total,
                    "score": total / factor,
                    "kept": rank in live and token != self.eos,
                    "closed": closed[rank],
                }
            )
        self._beams = [numbers.get(rank, -1) for rank in live]

    def to_json(self, winner: Hypothesis) -> dict[str, Any]:
        """The nodes, best first within each step; those of the winning hypothesis are marked."""
        names = self.pieces([node["id"] for node in self.nodes])
        path = self._path([*winner.tokens, *([self.eos] * winner.finished)])
        nodes = [
            {**node, "piece": piece, "winner": number in path}
            for number, (node, piece) in enumerate(zip(self.nodes, names, strict=True))
        ]
        return {"beams": self.options.beams, "nodes": nodes}

    def _path(self, said: Sequence[int]) -> set[int]:
        """The nodes that spell a hypothesis: no two paths say the same."""
        at, path = -1, set()
        children: dict[tuple[int, int], int] = {
            (node["parent"], node["id"]): number for number, node in reversed(list(enumerate(self.nodes)))
        }
        for token in said:
            at = children.get((at, token), -2)
            path.add(at)
        return path
