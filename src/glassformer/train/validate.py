"""What can the model do by now? Loss on held-out pairs, BLEU, and a few translations to look at."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from glassformer.bundle import Bundle
from glassformer.data.batch import Batch, BatchOrder, collate
from glassformer.evaluate import corpus_bleu
from glassformer.recipe import TrainConfig
from glassformer.train.objective import TranslationObjective
from glassformer.train.report import Sample, Validation
from glassformer.translate import Translator


class Validator:
    """Looks at the model of a bundle whenever it is called, each time at the same pairs.

    Greedily by default: a beam takes several times as long, and ranks models just the same.
    """

    def __init__(
        self, bundle: Bundle, pairs: Sequence[tuple[str, str]], config: TrainConfig, beams: int = 1
    ) -> None:
        self.bundle, self.config, self.beams = bundle, config, beams
        self.batches = _batches(bundle, pairs, config.batch_tokens)
        # Evenly spread over the file, for neighbours are often alike.
        count = min(len(pairs), max(config.validate_bleu, config.samples))
        self.chosen = [pairs[place * len(pairs) // count] for place in range(count)]

    def __call__(self) -> Validation:
        hypotheses = self._translate()
        said = list(zip(self.chosen, hypotheses, strict=True))
        samples = [Sample(*pair, hypothesis) for pair, hypothesis in said[: self.config.samples]]
        if not self.config.validate_bleu:
            return Validation(self._loss(), samples=samples)
        references = [target for _, target in self.chosen]
        score = corpus_bleu(hypotheses, references, self.bundle.config.target_language)
        return Validation(self._loss(), score.value, score.signature, samples)

    @torch.no_grad()
    def _loss(self) -> float:
        """Nats a token, without smoothing: the same number whatever the settings of training."""
        objective = TranslationObjective(self.bundle.model).eval()
        device = self.bundle.model.output_weight.device
        found = [objective(batch.to(device)) for batch in self.batches]
        return sum(float(losses.nll_sum) for losses in found) / sum(losses.tokens for losses in found)

    def _translate(self) -> list[str]:
        translator = Translator(self.bundle, engine="torch")
        sources = [source for source, _ in self.chosen]
        return [found.text for found in translator.translate(sources, beams=self.beams)]


def _batches(bundle: Bundle, pairs: Sequence[tuple[str, str]], batch_tokens: int) -> list[Batch]:
    tokenizers, longest = bundle.tokenizers, bundle.model.max_length
    sources = tokenizers.source.encode_batch([source for source, _ in pairs])
    targets = tokenizers.target.encode_batch([target for _, target in pairs])
    ids = [pair for pair in zip(sources, targets, strict=True) if max(map(len, pair)) < longest]
    lengths = [[len(pair[side]) for pair in ids] for side in (0, 1)]
    order = BatchOrder(lengths[0], lengths[1], batch_tokens=batch_tokens, seed=0)
    vocabulary = bundle.config.vocabulary
    return [collate([ids[place] for place in places], vocabulary) for places in order.batches(0)]
