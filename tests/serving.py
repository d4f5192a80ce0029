"""A small model for the tests of the server: it learns a toy language of its own, in a few seconds."""

from __future__ import annotations

import atexit
import itertools
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig, SearchConfig
from glassformer.data.batch import collate
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.train.objective import TranslationObjective

_WHO = {
    "The cat": "猫",
    "A dog": "一只狗",
    "My friend": "我的朋友",
    "The child": "孩子",
    "She": "她",
    "I": "我",
}
_DOES = {"likes": "喜欢", "sees": "看见", "buys": "买", "wants": "想要"}
_WHAT = {"tea": "茶", "bread": "面包", "a book": "一本书", "the sea": "大海", "the red house": "红房子"}
_WHEN = {"": "", " today": "今天", " tomorrow": "明天"}
_END = {".": "。", "!": "！"}

PAIRS = [
    (f"{who} {does} {what}{when}{end}", f"{_WHEN[when]}{_WHO[who]}{_DOES[does]}{_WHAT[what]}{_END[end]}")
    for who, does, what, when, end in itertools.product(_WHO, _DOES, _WHAT, _WHEN, _END)
]
SENTENCES = [source for source, _ in random.Random(7).sample(PAIRS, 64)]


def make_bundle(
    path: Path, source: str = "en", target: str = "zh", *, steps: int = 70, turned: bool = False
) -> Path:
    """Train for `steps` updates and save; `turned` learns the other direction."""
    pairs = [(zh, en) for en, zh in PAIRS] if turned else PAIRS
    both = train_tokenizer("bpe", [text for pair in pairs for text in pair], size=420)
    tokenizers = TokenizerPair(both, both, shared=True)
    network = ModelConfig(
        encoder_layers=1, decoder_layers=2, width=64, feed_forward=128, heads=4, dropout=0.0, max_length=128
    )
    config = BundleConfig(
        source_language=source,
        target_language=target,
        vocabulary=tokenizers.vocabulary(),
        model=network,
        search=SearchConfig(beams=2),
    )
    torch.manual_seed(0)
    model = build_model(config.model, config.vocabulary)
    objective = TranslationObjective(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    order = random.Random(0)
    encoded = [(both.encode(left), both.encode(right)) for left, right in pairs]
    for _ in range(steps):
        loss, count = objective(collate(order.sample(encoded, 48), config.vocabulary))[:2]
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    return Bundle(config, tokenizers, model.eval(), "# a test\n").save(path)


@cache
def toy_bundle(turned: bool = False) -> Path:
    """The toy model's directory, `toy-en-zh` or `toy-zh-en`: made once in each process of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="glassformer-toy-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    languages = ("zh", "en") if turned else ("en", "zh")
    return make_bundle(folder / f"toy-{languages[0]}-{languages[1]}", *languages, turned=turned)
