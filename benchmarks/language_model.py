"""A language model on WikiText-2: ours against `torch.nn.TransformerEncoder` with a causal mask.

    python -m benchmarks.language_model --minutes 30 --rounds 15

Both have the same size, tokens, batches in the same order, optimiser, schedule over time, threads and memory
settings, and as many minutes of training each, in slices that take turns, so that what else the machine does
hits both alike. What differs is what each brings: ours has rotary positions (which weigh nothing) in place of
added sinusoids, the chunked loss, cheaper dropout and none on attention weights; theirs is the module as it
stands, with its one dropout. Validation does not count as time.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.contest import TUNED, Entry, Measured, contest, cores
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.data.batch import Batch
from glassformer.data.store import prepare_store
from glassformer.model.build import build_reader, count_parameters
from glassformer.model.positions import sinusoids
from glassformer.recipe import CorpusConfig, DataConfig, TrainConfig
from glassformer.text.corpus import Corpus
from glassformer.text.sources import fetch
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.train.family_feed import BlockFeed, blocks_batch
from glassformer.train.objective import LanguageObjective
from glassformer.train.optim import build_optimizer, build_schedule, set_rate

WIDTH, LAYERS, HEADS, INNER = 256, 4, 4, 1024
DROPOUT, BLOCK, BATCH_TOKENS, VOCABULARY = 0.1, 128, 2048, 8000
RATE, WARMUP, DECAY, CLIP = 0.002, 200, 0.1, 1.0
OURS, THEIRS = "glassformer", "torch.nn.TransformerEncoder"


class Text:
    """WikiText-2 in tokens: the same for both, made once under `folder`."""

    def __init__(self, folder: Path, seed: int) -> None:
        corpus = fetch("wikitext-2")
        filters: dict[str, Any] = {"drop_duplicates": False, "max_characters": 0, "max_tokens": 0}
        train = Corpus(
            DataConfig(corpora=(CorpusConfig(text=str(corpus / "train.txt")),), hold_out=0, **filters)
        )
        place = folder / "tokenizer.spm"
        if not place.exists():
            train_tokenizer("bpe", (line for line, _ in train.pairs()), size=VOCABULARY).save(place)
        tokenizers = TokenizerPair.load(folder)
        self.vocabulary = replace(tokenizers.vocabulary(), start=tokenizers.target.eos)
        store = prepare_store(folder / "train", train, tokenizers)
        self.feed = BlockFeed(store, self.vocabulary, block=BLOCK, batch_tokens=BATCH_TOKENS, seed=seed)
        lines = [line for line in (corpus / "valid.txt").read_text("utf-8").split("\n") if line.strip()]
        eos = self.vocabulary.eos
        ids = torch.tensor([i for row in tokenizers.source.encode_batch(lines) for i in (*row, eos)])
        blocks = [block.numpy() for block in ids.split(BLOCK)]
        self.valid = [blocks_batch(blocks[at : at + 16], self.vocabulary) for at in range(0, len(blocks), 16)]
        self.words = sum(len(line.split()) + 1 for line in lines)

    def batches(self, number: int) -> Batch:
        """Batch number n of the run, epoch after epoch."""
        count = self.feed.count(0)
        return self.feed.batch(number // count, number % count)


class Plain(nn.Module):
    """torch.nn.TransformerEncoder as most people would use it: sinusoids added, output tied, causal mask."""

    positions_TD: Tensor

    def __init__(self, vocabulary: VocabularyConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary.source_size, WIDTH)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, DROPOUT, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        for parameter in self.encoder.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("positions_TD", sinusoids(BLOCK, WIDTH).float())
        self.pad = vocabulary.target_pad

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        ids_BT = batch.target_in_BT
        x_BTD = self.embedding(ids_BT) * math.sqrt(WIDTH) + self.positions_TD[: ids_BT.shape[1]]
        mask_TT = nn.Transformer.generate_square_subsequent_mask(ids_BT.shape[1])
        states_BTD = self.encoder(self.dropout(x_BTD), mask=mask_TT, is_causal=True)
        logits_BTV = F.linear(states_BTD, self.embedding.weight)
        real_BT = torch.arange(ids_BT.shape[1]) < batch.target_lengths_B[:, None]
        loss = F.cross_entropy(logits_BTV[real_BT], batch.target_out_BT[real_BT], reduction="sum")
        return loss, int(real_BT.sum())


class Glass(nn.Module):
    """Our language model of the same size."""

    def __init__(self, vocabulary: VocabularyConfig) -> None:
        super().__init__()
        shape = ModelConfig(
            decoder_layers=LAYERS,
            width=WIDTH,
            heads=HEADS,
            feed_forward=INNER,
            norm="pre",
            activation="gelu",
            positions="rotary",
            dropout=DROPOUT,
            attention_dropout=0.0,
        )
        self.objective = LanguageObjective(build_reader("language_model", shape, vocabulary))

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        losses = self.objective(batch)
        return losses.loss_sum, losses.tokens


class Runner:
    """One contestant: trains for a slice of the budget whenever it is its turn."""

    def __init__(self, which: str, folder: str, minutes: float, rounds: int, threads: int, seed: int) -> None:
        torch.set_num_threads(threads)
        self.text = Text(Path(folder), seed)
        torch.manual_seed(seed)
        self.model = {OURS: Glass, THEIRS: Plain}[which](self.text.vocabulary)
        self.budget, self.slice, self.rounds = 60 * minutes, 60 * minutes / rounds, rounds
        self.optimizer = build_optimizer(self.model, TrainConfig(weight_decay=DECAY))
        self.schedule = build_schedule("cosine", peak=RATE, warmup=WARMUP, final=0.05, width=WIDTH)
        self.spent, self.step = 0.0, 0

    def run(self, number: int) -> Measured:
        self.model.train()
        started = time.perf_counter()
        while (passed := time.perf_counter() - started) < self.slice:
            self.update(min(1.0, (self.spent + passed) / self.budget))
        self.spent += time.perf_counter() - started
        return {
            "updates": self.step,
            "tokens": self.step * BATCH_TOKENS,
            "parameters": count_parameters(self.model),
            "minutes": round(self.spent / 60, 2),
            **self.validate(),
        }

    def update(self, over: float) -> None:
        loss, tokens = self.model(self.text.batches(self.step))
        (loss / tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.step += 1
        set_rate(self.optimizer, self.schedule(self.step, over))
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def validate(self) -> Measured:
        self.model.eval()
        found = [self.model(batch) for batch in self.text.valid]
        nats, tokens = sum(float(loss) for loss, _ in found), sum(count for _, count in found)
        return {
            "perplexity per token": round(math.exp(nats / tokens), 2),
            "perplexity per word": round(math.exp(min(700.0, nats / self.text.words)), 2),
        }


def run(minutes: float, rounds: int, threads: int, seed: int, folder: Path) -> dict[str, Measured]:
    """What each contestant reached at the end of its minutes."""
    Text(folder, seed)  # once, before anybody's clock runs
    arguments = {
        "folder": str(folder),
        "minutes": minutes,
        "rounds": rounds,
        "threads": threads,
        "seed": seed,
    }
    entries = [
        Entry(name, "benchmarks.language_model:Runner", {"which": name, **arguments}, TUNED)
        for name in (OURS, THEIRS)
    ]
    return {name: measured[-1] for name, measured in contest(entries, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of training, for each contestant")
    parser.add_argument("--rounds", type=int, default=15, help="slices that the minutes are cut into")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, help="where the tokens are kept; left out, they are thrown away"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(options.minutes, options.rounds, options.threads, options.seed, folder)
    print(f"\nWikiText-2, {options.minutes:g} minutes each on {options.threads} threads, validation:")
    for name, measured in found.items():
        print(
            f"  {name:<28} perplexity {measured['perplexity per token']:8.2f} per token, "
            f"{measured['perplexity per word']:9.2f} per word   "
            f"({measured['parameters']:,} parameters, {measured['tokens']:,} tokens read)"
        )


if __name__ == "__main__":
    main()
