"""A Transformer that knows six words: merci → thanks, je suis étudiant → i am a student.

Small enough to print every probability, and to train in a second. Everything else is as in a large one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.data.batch import Batch, collate
from glassformer.model.build import build_transformer
from glassformer.model.transformer import Transformer
from glassformer.recipe import TrainConfig
from glassformer.train.objective import TranslationObjective
from glassformer.train.optim import build_optimizer, set_rate

SOURCE = ["je", "suis", "étudiant", "merci", "<unk>", "end", "<pad>"]
TARGET = ["a", "am", "i", "thanks", "student", "end", "<pad>"]
VOCABULARY = VocabularyConfig(7, 7, shared=False, eos=5, unk=4, source_pad=6, target_pad=6, start=6)
PAIRS = [("merci", "thanks"), ("je suis étudiant", "i am a student")]


def six_words_batch() -> Batch:
    """Both pairs as one batch, the shorter one padded."""
    ids = [
        ([SOURCE.index(word) for word in source.split()], [TARGET.index(word) for word in target.split()])
        for source, target in PAIRS
    ]
    return collate(ids, VOCABULARY)


def six_words_model(seed: int = 0) -> Transformer:
    """One layer of width 16 with two heads on each side; weights fresh from the dice."""
    torch.manual_seed(seed)
    shape = ModelConfig(
        1, 1, width=16, feed_forward=32, heads=2, tied="output", dropout=0, attention_dropout=0
    )
    return build_transformer(shape, VOCABULARY)


def learn(model: Transformer, batch: Batch, updates: int = 30, rate: float = 0.01) -> list[float]:
    """Teach it the batch, again and again; returns the loss a token before each update."""
    objective = TranslationObjective(model.train())
    optimizer = build_optimizer(model, TrainConfig(beta1=0.9, beta2=0.98, epsilon=1e-9))
    set_rate(optimizer, rate)
    losses = []
    for _ in range(updates):
        found = objective(batch)
        loss = found.loss_sum / found.tokens
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return losses


@torch.inference_mode()
def predictions(model: Transformer, batch: Batch) -> list[Tensor]:
    """For each sentence probs_TV: what is said after each token of the right answer, over the six words."""
    memory = model.encode(batch.source_BS, batch.source_lengths_B)
    probs_BTV = model.decode(memory, batch.target_in_BT).softmax(-1)[..., :6]
    return [probs_TV[:length] for probs_TV, length in zip(probs_BTV, batch.target_lengths_B, strict=True)]
