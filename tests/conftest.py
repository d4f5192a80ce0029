"""Shared by all tests: one thread each (they run side by side), and the corpora beside the repository."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# What tests fetch and convert stays out of the user's cache; processes that tests start inherit this.
_cache = tempfile.TemporaryDirectory(prefix="glassformer-tests-")
os.environ["XDG_CACHE_HOME"] = _cache.name

settings.register_profile("glassformer", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("glassformer")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real corpora for experiments, in a folder beside the repository; a user's machine has none."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder shared/data beside the repository")
    return folder


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that has learnt, in three seconds, to say "one two three." in Chinese: "一二三。"."""
    from glassformer.bundle import Bundle
    from glassformer.config import BundleConfig, ModelConfig
    from glassformer.data.batch import collate
    from glassformer.model.build import build_model
    from glassformer.text.tokenizer import TokenizerPair, train_tokenizer

    chance = random.Random(0)
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    texts = [[chance.randrange(10) for _ in range(chance.randint(1, 7))] for _ in range(3000)]
    english = [" ".join(words[i] for i in text) + "." for text in texts]
    chinese = ["".join("一二三四五六七八九十"[i] for i in text) + "。" for text in texts]
    source, target = train_tokenizer("bpe", english, size=320), train_tokenizer("characters", chinese)
    tokenizers = TokenizerPair(source, target, shared=False)
    pairs = list(zip(source.encode_batch(english), target.encode_batch(chinese), strict=True))
    vocabulary = tokenizers.vocabulary()
    shape = ModelConfig(
        encoder_layers=1,
        decoder_layers=2,
        width=32,
        feed_forward=64,
        heads=2,
        dropout=0.0,
        attention_dropout=0.0,
        max_length=40,
        tied="output",
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(shape, vocabulary)
    steps, peak = 200, 0.01
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    for step in range(steps):
        adam.param_groups[0]["lr"] = peak * min(1, (step + 1) / 20) * (1 - step / steps)
        batch = collate(chance.sample(pairs, 48), vocabulary)
        memory = model.encode(batch.source_BS, batch.source_lengths_B)
        logits_BTV = model.decode(memory, batch.target_in_BT)
        real_BT = torch.arange(logits_BTV.shape[1]) < batch.target_lengths_B[:, None]
        loss = torch.nn.functional.cross_entropy(logits_BTV[real_BT], batch.target_out_BT[real_BT])
        adam.zero_grad()
        loss.backward()
        adam.step()
    config = BundleConfig(source_language="en", target_language="zh", vocabulary=vocabulary, model=shape)
    return Bundle(config, tokenizers, model.eval(), "# Numbers").save(
        tmp_path_factory.mktemp("bundle") / "numbers"
    )
