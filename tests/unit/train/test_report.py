"""What is said and written down."""

from __future__ import annotations

import doctest
import io
import json
import math
import sys
import types
from pathlib import Path

import pytest
from rich.console import Console

from glassformer.errors import TrainingError
from glassformer.train import report as module
from glassformer.train.checkpoint import Progress
from glassformer.train.curves import plot_curves
from glassformer.train.report import ConsoleReport, Metrics, Sample, Validation, read_metrics


def console(terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=120, soft_wrap=True), out


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(module).failed == 0


def test_metrics_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.begin(0)
    for step in (1, 2, 3):
        metrics.append({"kind": "train", "step": step, "loss": step / 3})
    with metrics.path.open("ab") as file:
        file.write(b'{"kind": "train", "step": 4, "lo')
    metrics.begin(2)
    assert [entry["step"] for entry in read_metrics(metrics.path)] == [1, 2]
    assert read_metrics(metrics.path)[1]["loss"] == 2 / 3
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_lines_that_are_no_metrics_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b'[1]\n"x"\n{"kind": 1}\n\xff\xfe\n{"kind": "train", "step": 3}\n')
    assert read_metrics(tmp_path / "m") == [{"kind": "train", "step": 3}]
    assert read_metrics(tmp_path / "nothing") == []


def test_what_json_has_no_word_for_becomes_null(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "m")
    metrics.append({"kind": "valid", "step": 1, "loss": math.nan, "perplexity": math.inf})
    line = json.loads((tmp_path / "m").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert line == {"kind": "valid", "step": 1, "loss": None, "perplexity": None}


def test_metrics_that_can_not_be_written_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="could not be written"):
        Metrics(tmp_path / "nowhere" / "m").append({"kind": "train", "step": 1})


def test_plain_lines_come_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    screen, out = console(terminal=False)
    report = ConsoleReport(tmp_path, screen)
    report.resumed(Progress(), None)
    for step in range(1, 41):
        now[0] += 1
        report.record({"kind": "train", "step": step, "loss": 4.0, "tokens_per_second": 1234.5})
        report.updated(Progress(step=step, epoch=1), step / 100)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == " 40%  update 40  epoch 2  loss 4.000  1,234 tokens/s  1 min 0 s left"
    report.close()


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    screen, out = console(terminal=True)
    report = ConsoleReport(tmp_path, screen)
    report.resumed(Progress(step=4), tmp_path / "step-00000004")
    report.updated(Progress(step=5), 0.5)
    report.updated(Progress(step=6), 0.6)
    assert report.bar is not None
    report.bar.progress.refresh()
    report.close()
    assert "going on from" in out.getvalue()
    assert "update 6" in out.getvalue()
    assert "60%" in out.getvalue()


def test_a_validation_is_shown_and_recorded(tmp_path: Path) -> None:
    screen, out = console(terminal=False)
    report = ConsoleReport(tmp_path, screen)
    sample = Sample("the [bold]cat[/bold]", "die Katze", "der Hund")
    report.validated(Progress(step=500, best_step=500), Validation(1.0, 12.34, "sig", [sample]))
    text = out.getvalue()
    assert "validation after update 500: loss 1.000 (perplexity 2.7), BLEU 12.3, the best so far" in text
    for part in ("source     the [bold]cat[/bold]", "reference  die Katze", "model      der Hund"):
        assert part in text, "and brackets are text, not markup"
    (entry,) = read_metrics(tmp_path / "metrics.jsonl")
    assert entry["bleu"] == 12.34
    assert entry["best"] is True


def test_tensorboard_is_fed_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, directory: str, purge_step: int) -> None:
            assert directory == str(tmp_path / "tensorboard")
            assert purge_step == 8

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            written.append(("closed", 0.0, 0))

    fake = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)  # type: ignore[arg-type]
    report = ConsoleReport(tmp_path, console(terminal=False)[0])
    report.resumed(Progress(step=7), None)
    report.record({"kind": "train", "step": 8, "loss": 2.5, "seconds": 3.0})
    report.close()
    assert written == [("train/loss", 2.5, 8), ("closed", 0.0, 0)]


def test_a_loss_beyond_counting_has_an_infinite_perplexity() -> None:
    assert Validation(1e6).perplexity == math.inf


def test_curves_are_drawn_from_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    metrics = Metrics(tmp_path / "metrics.jsonl")
    assert plot_curves(metrics.path, tmp_path / "curves.png") is None
    for step in range(1, 5):
        metrics.append({"kind": "train", "step": step, "nll": 4.0 / step, "rate": 0.1})
    metrics.append({"kind": "valid", "step": 4, "loss": 2.0, "bleu": None})
    assert plot_curves(metrics.path, tmp_path / "curves.png") == tmp_path / "curves.png"
    assert (tmp_path / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
