"""`glass train` as a user runs it: a process of its own, killed, starved of disk, and started in twos."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from glassformer.bundle import Bundle
from glassformer.cli.train import train
from glassformer.train.report import read_metrics

GLASS = [sys.executable, "-m", "glassformer"]
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

RECIPE = """
[model]
encoder_layers = 1
decoder_layers = 1
width = 16
feed_forward = 24
heads = 2
dropout = {dropout}
attention_dropout = {dropout}

[tokenizer]
size = 290

[[data.corpora]]
source = "a.en"
target = "a.xx"

[train]
batch_tokens = 200
max_steps = 40
log_every = 4
warmup = 5
validate_every = 10
validate_bleu = 2
samples = 1
threads = 1

[search]
max_length = 8
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two text files and two recipes, and the working directory at that."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    words = [["".join(draw.choices("abcdef", k=draw.randint(2, 6))) for _ in range(4)] for _ in range(300)]
    (tmp_path / "a.en").write_text("".join(" ".join(line) + "\n" for line in words))
    (tmp_path / "a.xx").write_text("".join(" ".join(w[::-1] for w in line) + "\n" for line in words))
    (tmp_path / "dry.toml").write_text(RECIPE.format(dropout=0.0))
    (tmp_path / "wet.toml").write_text(RECIPE.format(dropout=0.2))
    return tmp_path


def glass(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*GLASS, "train", *arguments]
    return subprocess.run(command, cwd=here, env=QUIET, capture_output=True, text=True, check=False)


def metrics(directory: Path) -> list[dict[str, Any]]:
    entries = read_metrics(directory / "metrics.jsonl")
    return [{k: v for k, v in e.items() if k not in ("seconds", "tokens_per_second")} for e in entries]


def losses(directory: Path) -> list[float]:
    return [entry["loss"] for entry in metrics(directory)]


def test_two_files_and_a_directory_are_enough(here: Path) -> None:
    short = ["train.max_steps=4", "train.validate_every=2", "train.validate_bleu=2", "train.threads=1"]
    small = ["model.width=16", "model.feed_forward=16", "model.heads=2", "search.max_length=8"]
    done = glass(here, "--source", "a.en", "--target", "a.xx", "--to", "run", *short, *small)
    assert done.returncode == 0, done.stderr
    for part in (
        "pairs read",
        "parameters",
        "validation after update 4",
        "BLEU",
        "the model is in run/model",
    ):
        assert part in done.stdout
    bundle = Bundle.load(here / "run")
    assert (bundle.config.source_language, bundle.config.target_language) == ("en", "xx")
    assert "max_epochs = 80" in (here / "run" / "recipe.toml").read_text()
    assert (here / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--to", "run"], "nothing to train on"),
        (["dry.toml"], "say where the run should be kept: --to DIR"),
        (["--source", "a.en", "--to", "run"], "one of the two files is missing"),
        (["missing.toml", "--to", "run"], "there is no such file"),
        (["dry.toml", "--to", "run", "--resume"], "holds no checkpoint to resume from"),
        (["dry.toml", "--to", "run", "train.learnign_rate=1"], "did you mean learning_rate?"),
        (["dry.toml", "--to", "run", "train.max_steps=0"], "would never end"),
    ],
)
def test_mistakes_are_named_without_a_traceback(here: Path, arguments: list[str], says: str) -> None:
    done = glass(here, *arguments)
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (here / "run").exists()


def test_a_full_disk_loses_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ulimit -f` lets no file grow to the size of a checkpoint's largest."""
    train(Path("dry.toml"), "train.max_steps=10", to=Path("run"))
    state = here / "run" / "checkpoints" / "step-00000010" / "state.safetensors"
    limit = state.stat().st_size // 1024 - 1
    resume = " ".join([*GLASS, "train dry.toml --to run train.max_steps=20 --allow-changes"])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f {limit}; exec {resume}"],
        cwd=here,
        env=QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "the one of step 10 is intact" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (here / "run" / "checkpoints").iterdir()] == ["step-00000010"]
    train(Path("dry.toml"), "train.max_steps=20", to=Path("run"))
    assert "going on from run/checkpoints/step-00000010" in capsys.readouterr().out


def test_two_processes_give_the_losses_of_one(here: Path) -> None:
    """And a checkpoint of two goes on with one."""
    train(Path("dry.toml"), to=Path("one"))
    two = glass(here, "dry.toml", "--to", "mixed", "train.max_steps=20", "--processes", "2")
    assert two.returncode == 0, two.stderr
    assert losses(here / "mixed") == pytest.approx(
        losses(here / "one")[: len(losses(here / "mixed"))], rel=1e-5
    )
    train(Path("dry.toml"), to=Path("mixed"), allow_changes=True)
    assert losses(here / "mixed") == pytest.approx(losses(here / "one"), rel=1e-5)


@pytest.mark.full
def test_a_checkpoint_of_one_goes_on_with_two(here: Path) -> None:
    train(Path("dry.toml"), to=Path("one"))
    train(Path("dry.toml"), "train.max_steps=20", to=Path("mixed"))
    two = glass(here, "dry.toml", "--to", "mixed", "--allow-changes", "--processes", "2")
    assert two.returncode == 0, two.stderr
    assert "going on from mixed/checkpoints/step-00000020" in two.stdout
    assert losses(here / "mixed") == pytest.approx(losses(here / "one"), rel=1e-5)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.full)])
def test_ctrl_c_saves_and_says_so(here: Path, processes: int) -> None:
    run = [*GLASS, "train", "dry.toml", "--to", "run", "--processes", str(processes)]
    process = subprocess.Popen(
        [*run, "train.max_steps=100000", "train.validate_every=100000"],
        cwd=here,
        env=QUIET,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: len(read_metrics(here / "run" / "metrics.jsonl")) > 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.count("the same command goes on from here") == 1
    assert err.strip().splitlines()[-1] == "glass: stopped by you"
    assert "Traceback" not in err
    assert len(list((here / "run" / "checkpoints").glob("step-*"))) == 1


@pytest.mark.full
def test_a_mistake_is_said_once_whatever_the_number_of_processes(here: Path) -> None:
    for processes in ("1", "2"):
        done = glass(here, "missing.toml", "--to", "run", "--processes", processes)
        assert done.returncode == 2
        assert done.stderr == "glass: missing.toml: there is no such file\n"


@pytest.mark.full
def test_dry_run_and_seeds(here: Path) -> None:
    done = glass(here, "dry.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    for part in ("parameters", "encoder", "memory", "MFLOP", "target tokens/s", "the run"):
        assert part in done.stdout
    done = glass(here, "dry.toml", "--to", "runs", "--seeds", "2", "train.max_steps=10")
    assert done.returncode == 0, done.stderr
    assert "mean and standard deviation" in done.stdout
    assert f"--model {Path('runs/seed-1')} --ensemble {Path('runs/seed-2')} " in done.stdout
    summary = json.loads((here / "runs" / "seeds.json").read_text())
    assert set(summary["perplexity"]["runs"]) == {"seed-1", "seed-2"}
    assert losses(here / "runs" / "seed-1") != losses(here / "runs" / "seed-2")


WET = ["train.bpe_dropout=0.1", "train.ema=20", "train.accumulate=2", "train.max_steps=1500"]


@pytest.mark.full
def test_killed_twenty_times_it_ends_the_same(here: Path) -> None:
    """Dropout, BPE-dropout, EMA and accumulation on; SIGKILL at random moments."""
    arguments = ["wet.toml", *WET]
    straight = glass(here, *arguments, "--to", "straight")
    assert straight.returncode == 0, straight.stderr
    command = [*GLASS, "train", *arguments, "--to", "killed"]
    draw, kills = random.Random(7), 0
    while kills < 20:
        process = subprocess.Popen(
            command, cwd=here, env=QUIET, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        # Every fourth time strike at any moment from the start on; else a moment after some progress, for a
        # process that is killed while it is still importing torch proves little.
        before = len(read_metrics(here / "killed" / "metrics.jsonl"))
        strike = time.monotonic() + draw.uniform(0.5, 4.0) if kills % 4 == 0 else None
        while process.poll() is None and (strike is None or time.monotonic() < strike):
            if strike is None and len(read_metrics(here / "killed" / "metrics.jsonl")) > before:
                strike = time.monotonic() + draw.uniform(0.0, 0.6)
            time.sleep(draw.uniform(0.0, 0.02))
        if process.poll() is None:
            process.kill()
            kills += 1
        else:
            pytest.fail(f"ended after {kills} kills: {process.stderr and process.stderr.read()}")
        process.communicate()
    last = glass(here, *arguments, "--to", "killed")
    assert last.returncode == 0, last.stderr
    assert metrics(here / "killed") == metrics(here / "straight")
    weights = [(here / run / "model" / "model.safetensors").read_bytes() for run in ("straight", "killed")]
    assert weights[0] == weights[1]


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_lost_worker_comes_back_through_torchrun(here: Path, victim: int) -> None:
    process = subprocess.Popen(
        [*GLASS, "train", "dry.toml", "--to", "run", "train.max_steps=300", "--processes", "2"],
        cwd=here,
        env=QUIET,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: (here / "run" / "checkpoints" / "step-00000020").exists())
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(workers[victim], signal.SIGKILL)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    assert "going on from run/checkpoints/step-" in out
    one = glass(here, "dry.toml", "--to", "one", "train.max_steps=300")
    assert one.returncode == 0
    assert losses(here / "run") == pytest.approx(losses(here / "one"), rel=1e-4)


def children(parent: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=True)
    return [int(line) for line in found.stdout.split()]


def wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
