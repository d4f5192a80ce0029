"""Training: ours and the peers on the same batches, with the same mathematics and dropout on.

    python -m benchmarks training [--preset tiny] [--rounds 5] [--steps 10]

Each contestant makes whole updates: forward, label-smoothed loss, backward, clipping, Adam. All start from
weights of the same distribution; a peer whose loss is not within 2% of ours at the end is not quoted.
"""

from __future__ import annotations

import math
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.contest import TUNED, Entry, contest, median, ratio
from glassformer import settings
from glassformer.config import PRESETS, ModelConfig
from glassformer.data.batch import Batch, BatchOrder, collate
from glassformer.model.build import build_model
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
DROPOUT, SMOOTHING, RATE = 0.1, 0.1, 5e-4


@dataclass
class Task:
    """The batches that all contestants see, and the shape of their models."""

    preset: str
    batch_tokens: int = 2048
    vocabulary_size: int = 10_000

    def __post_init__(self) -> None:
        torch.set_num_threads(2)
        sides = [list(read_lines(CORPUS / f"train.{side}")) for side in ("en", "de")]
        shared = train_tokenizer("bpe", [*sides[0], *sides[1]], size=self.vocabulary_size)
        self.tokenizers = TokenizerPair(shared, shared, shared=True)
        self.vocabulary = self.tokenizers.vocabulary()
        self.ids = [shared.encode_batch(side[:8000]) for side in sides]
        lengths = [np.array([len(ids) + 1 for ids in side]) for side in self.ids]
        self.order = BatchOrder(*lengths, batch_tokens=self.batch_tokens, seed=1).batches(0)

    @property
    def shape(self) -> dict[str, int]:
        return PRESETS[self.preset]

    def batch(self, number: int) -> Batch:
        rows = self.order[number % len(self.order)]
        return collate([(self.ids[0][i], self.ids[1][i]) for i in rows], self.vocabulary)


class Training:
    """Times `steps` updates a round; each contestant says what an update is."""

    model: nn.Module

    def __init__(self, preset: str, steps: int) -> None:
        self.task, self.steps = Task(preset), steps
        torch.manual_seed(1)
        self.model = self.build()
        self.model.train()
        self.optimizer = self.make_optimizer()
        self.done = 0

    def build(self) -> nn.Module:
        raise NotImplementedError

    def loss(self, batch: Batch) -> Tensor:
        """The mean label-smoothed loss of the batch's target tokens."""
        raise NotImplementedError

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), RATE, betas=(0.9, 0.98), eps=1e-9)

    def run(self, number: int) -> dict[str, float]:
        batches = [self.task.batch(self.done + i) for i in range(self.steps)]
        begin = time.perf_counter()
        losses = [self.update(batch) for batch in batches]
        seconds = time.perf_counter() - begin
        self.done += self.steps
        return {
            "tokens/s": sum(batch.tokens for batch in batches) / seconds,
            "loss": sum(losses) / len(losses),
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    def update(self, batch: Batch) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


class Ours(Training):
    """The objective, the optimizer and the allocator's settings of `glass train`."""

    def build(self) -> nn.Module:
        from glassformer.train.allocator import keep_memory
        from glassformer.train.objective import TranslationObjective

        keep_memory()
        shape = {**self.task.shape, "dropout": DROPOUT, "attention_dropout": DROPOUT}
        config = settings.from_mapping(ModelConfig, shape)
        return TranslationObjective(build_model(config, self.task.vocabulary), smoothing=SMOOTHING)

    def make_optimizer(self) -> torch.optim.Optimizer:
        from glassformer.train.optim import build_optimizer, set_rate

        optimizer = build_optimizer(self.model, beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.0)
        set_rate(optimizer, RATE)
        return optimizer

    def loss(self, batch: Batch) -> Tensor:
        losses = self.model(batch)
        return losses.loss_sum / losses.tokens


class TorchTransformer(Training):
    """torch.nn.Transformer in a good plain script: embeddings, positions, tied output, cross-entropy."""

    def build(self) -> nn.Module:
        return PlainTorch(self.task)

    def loss(self, batch: Batch) -> Tensor:
        return smoothed(self.model(batch), batch)


class PlainTorch(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        shape, size = task.shape, task.vocabulary.source_size
        width = shape["width"]
        self.embedding = nn.Embedding(size, width, padding_idx=task.vocabulary.source_pad)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.table: Tensor
        self.register_buffer("table", plain_sinusoids(512, width))
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            width, shape["heads"], shape["encoder_layers"], shape["decoder_layers"], shape["feed_forward"],
            DROPOUT, batch_first=True,
        )  # fmt: skip
        self.factor = math.sqrt(width)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.factor + self.table[: ids.shape[1]])

    def forward(self, batch: Batch) -> Tensor:
        padding = torch.arange(batch.source_BS.shape[1]) >= batch.source_lengths_B[:, None]
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target_in_BT.shape[1])
        states = self.transformer(
            self.embed(batch.source_BS), self.embed(batch.target_in_BT), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return F.linear(states, self.embedding.weight)


class HuggingFace(Training):
    """Hugging Face's Marian with scaled_dot_product_attention, as its documentation trains it."""

    def build(self) -> nn.Module:
        from transformers import MarianConfig, MarianMTModel

        shape, vocabulary = self.task.shape, self.task.vocabulary
        config = MarianConfig(
            vocab_size=vocabulary.source_size,
            d_model=shape["width"],
            encoder_layers=shape["encoder_layers"],
            decoder_layers=shape["decoder_layers"],
            encoder_attention_heads=shape["heads"],
            decoder_attention_heads=shape["heads"],
            encoder_ffn_dim=shape["feed_forward"],
            decoder_ffn_dim=shape["feed_forward"],
            activation_function="relu",
            dropout=DROPOUT,
            attention_dropout=DROPOUT,
            scale_embedding=True,
            pad_token_id=vocabulary.source_pad,
            eos_token_id=vocabulary.eos,
            decoder_start_token_id=vocabulary.start,
            init_std=0.02,
        )
        model: Any = MarianMTModel._from_config(config, attn_implementation="sdpa")
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                if "shared" in name or "embed" in name:
                    nn.init.normal_(parameter, std=shape["width"] ** -0.5)
                else:
                    nn.init.xavier_uniform_(parameter)
        return model

    def loss(self, batch: Batch) -> Tensor:
        real = torch.arange(batch.source_BS.shape[1]) < batch.source_lengths_B[:, None]
        out = self.model(
            input_ids=batch.source_BS, attention_mask=real.long(), decoder_input_ids=batch.target_in_BT
        )
        return smoothed(out.logits, batch)


def smoothed(logits: Tensor, batch: Batch) -> Tensor:
    padding = torch.arange(batch.target_out_BT.shape[1]) >= batch.target_lengths_B[:, None]
    targets = batch.target_out_BT.masked_fill(padding, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=SMOOTHING)


def plain_sinusoids(length: int, width: int) -> Tensor:
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


PEERS = {"torch.nn.Transformer": "TorchTransformer", "Hugging Face Marian": "HuggingFace"}


def run(preset: str = "tiny", rounds: int = 5, steps: int = 10) -> dict[str, Any]:
    """Everyone as installed and with the allocator tuned; ours tunes it by itself, so once."""
    arguments = {"preset": preset, "steps": steps}
    here = "benchmarks.training"
    entries = [Entry("glassformer", f"{here}:Ours", arguments)]
    for name, kind in PEERS.items():
        entries.append(Entry(name, f"{here}:{kind}", arguments))
        entries.append(Entry(f"{name}, tuned", f"{here}:{kind}", arguments, TUNED))
    results = contest(entries, rounds, print)
    rows = []
    for name, measured in results.items():
        fair = abs(median(measured[-1:], "loss") / median(results["glassformer"][-1:], "loss") - 1) < 0.02
        rows.append(
            {
                "contestant": name,
                "tokens/s": median(measured, "tokens/s"),
                "ours is × as fast": str(ratio(results["glassformer"], measured, "tokens/s")),
                "last loss": measured[-1]["loss"],
                "quoted": fair,
                "peak MB": median(measured, "peak MB"),
            }
        )
    return {"preset": preset, "rounds": rounds, "steps": steps, "rows": rows, "all": results}
