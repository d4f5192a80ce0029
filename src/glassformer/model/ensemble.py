"""Several models that answer together: what follows is as likely as they find it on average.

Models that began from other random numbers make other mistakes, and the mean of their probabilities makes
fewer than any one of them. They have to speak in the same tokens; nothing else about them needs to be alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.model.seq2seq import Seq2Seq
from glassformer.model.state import Memory


@dataclass(frozen=True)
class Memories(Memory):
    """What each model understood of the same sources; seen as a single memory, it is the first model's."""

    each: Sequence[Memory] = ()


@dataclass
class States:
    """The decoding state of each model. They move together, for they follow the same beams."""

    each: Sequence[Any]

    def reorder(self, parents_BN: Tensor) -> None:
        for state in self.each:
            state.reorder(parents_BN)

    def keep(self, rows: Tensor) -> None:
        for state in self.each:
            state.keep(rows)


class Ensemble(Seq2Seq):
    """A model made of models. Logits are log-probabilities here: the mean is taken after the softmax."""

    models: nn.ModuleList

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.vocabulary, self.output = models[0].vocabulary, models[0].output
        self.max_length = min(model.max_length for model in models)

    def encode(self, source_BS: Tensor, lengths_B: Tensor) -> Memories:
        each = [model.encode(source_BS, lengths_B) for model in self._each]
        return Memories(each[0].states_BSD, lengths_B, each[0].packing, each)

    def states(self, memory: Memory, target_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """The first model's: states have no mean, for each model means something else by them."""
        return self._each[0].states(memory, target_BT, lengths_B)

    def decode(self, memory: Memory, target_BT: Tensor) -> Tensor:
        pairs = zip(self._each, _each(memory), strict=True)
        return mean([model.decode(one, target_BT).log_softmax(-1) for model, one in pairs])

    def start(self, memory: Memory, beams: int = 1) -> States:
        pairs = zip(self._each, _each(memory), strict=True)
        return States([model.start(one, beams) for model, one in pairs])

    def step(self, last_BN: Tensor, state: States) -> tuple[Tensor, States]:
        pairs = zip(self._each, state.each, strict=True)
        return mean([model.step(last_BN, one)[0] for model, one in pairs]), state

    @property
    def _each(self) -> Sequence[Seq2Seq]:
        return list(self.models)  # type: ignore[arg-type]  # a ModuleList forgets what it was given


def mean(log_probs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities.

    >>> mean([torch.tensor([0.1, 0.9]).log(), torch.tensor([0.5, 0.5]).log()]).exp()
    tensor([0.3000, 0.7000])
    """
    return torch.stack(list(log_probs)).logsumexp(0) - math.log(len(log_probs))


def _each(memory: Memory) -> Sequence[Memory]:
    if not isinstance(memory, Memories):
        raise TypeError("an ensemble decodes what it has encoded itself")
    return memory.each
