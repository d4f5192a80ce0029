"""Memory stays flat as the corpus grows: two million generated lines against a tenth of them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import json, sys, time
from pathlib import Path
from glassformer.config import TokenizerConfig
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.data.batch import BatchOrder, collate
from glassformer.data.store import prepare_store
from glassformer.text.corpus import Corpus
from glassformer.text.tokenizer import train_tokenizers

folder, found, began = Path(sys.argv[1]), {}, time.perf_counter()

def note(stage):
    global began
    # getrusage would begin with what the parent held when it started this process.
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    found[stage] = (round(peak), round(time.perf_counter() - began, 1))
    began = time.perf_counter()

note("start")
files = CorpusConfig(source=str(folder / "a.en"), target=str(folder / "a.de"))
corpus = Corpus(DataConfig(corpora=(files,)))
corpus.scan()
note("scan")
tokenizers = train_tokenizers(TokenizerConfig(size=4000), corpus.pairs)
note("tokenizer")
store = prepare_store(folder / "store", corpus, tokenizers)
note("store")
order = BatchOrder(store.source_lengths, store.target_lengths, batch_tokens=2048, seed=1)
batches = order.batches(0)
note("order")
for step in range(0, len(batches), 10):
    collate(store.pairs(batches[step]), tokenizers.vocabulary())
note("batches")
print(json.dumps({"pairs": len(store), **found}))
"""


def write_lines(folder: Path, count: int) -> None:
    """Lines that are all different, of words as frequent as words are."""
    folder.mkdir()
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    pool = draw.choices(words, weights, k=200_000)
    for name in ("a.en", "a.de"):
        with open(folder / name, "w", encoding="utf-8") as stream:
            for number in range(count):
                start = draw.randrange(len(pool) - 20)
                stream.write(" ".join(pool[start : start + 4 + number % 15]) + f" {number}\n")


def measure(folder: Path, count: int) -> dict[str, tuple[int, float]]:
    write_lines(folder, count)
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(folder)], capture_output=True, check=True, text=True
    )
    print(count, done.stdout)  # noqa: T201 - the measurement, shown with pytest -s
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.full
def test_two_million_lines(tmp_path: Path) -> None:
    small, large = measure(tmp_path / "small", 200_000), measure(tmp_path / "large", 2_000_000)
    assert large["scan"][0] - small["scan"][0] < 80  # MiB: eight bytes a pair, and sorting them
    # The tokenizer's sample is full at half a million lines; the small corpus has 400,000.
    assert large["store"][0] - small["store"][0] < 150
    assert large["batches"][0] < 1200
