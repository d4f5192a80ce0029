"""`glass look`, `explain`, `heads` and `plot` as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.cli.app import app
from glassformer.errors import RequestError

Capture = pytest.CaptureFixture[str]


def glass(*arguments: str) -> None:
    app([*arguments], result_action="return_value")


def test_look_writes_a_page_and_says_where(numbers: Path, tmp_path: Path, capsys: Capture) -> None:
    out, pairs = tmp_path / "page.html", tmp_path / "pairs.tsv"
    pairs.write_text("one two.\t一二。\nthree.\t三。\n", "utf-8")
    glass("look", "one two.", "--model", str(numbers), "--out", str(out), "--pairs", str(pairs))
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines() == ["一二。", out.resolve().as_uri()]
    page = out.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert '"corpus":{"pairs":2,' in page
    with pytest.raises(RequestError, match="is a directory"):
        glass("look", "one two.", "--model", str(numbers), "--out", str(tmp_path))


def test_explain_walks_in_both_languages(numbers: Path, capsys: Capture) -> None:
    glass("explain", "one two.", "--model", str(numbers), "--step", "2")
    assert "the word chosen is 二" in capsys.readouterr().out
    glass("explain", "one two.", "--model", str(numbers), "--language", "zh", "--all-layers")
    assert "解码器第 2 层" in capsys.readouterr().out
    with pytest.raises(RequestError, match="step 9"):
        glass("explain", "one two.", "--model", str(numbers), "--step", "9")


def test_heads_recommends_one(numbers: Path, tmp_path: Path, capsys: Capture) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("one two.\t一二。\nthree four.\t三四。\nfive one.\t五一。\n", "utf-8")
    glass("heads", "--model", str(numbers), "--pairs", str(pairs), "--ablate")
    said = capsys.readouterr().out
    assert "aligns best" in said
    assert "BLEU without" in said
    glass("heads", "--model", str(numbers), "--pairs", str(pairs), "--json")
    assert len(json.loads(capsys.readouterr().out)["heads"]) == 10
    with pytest.raises(RequestError, match="--pairs FILE"):
        glass("heads", "--model", str(numbers))


@pytest.mark.parametrize("name", ["masks", "attention"])
def test_plot_draws(name: str, numbers: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "figure.svg"
    options = ["--text", "one two.", "--model", str(numbers), "--head", "1"] if name == "attention" else []
    glass("plot", name, "--out", str(out), *options)
    assert capsys.readouterr().out.strip() == str(out)
    assert out.read_text("utf-8").startswith("<?xml")
