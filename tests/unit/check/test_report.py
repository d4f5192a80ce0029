"""Reports in two languages and as JSON; the catalogue of mistakes is complete."""

from __future__ import annotations

import json

import pytest

from glassformer.check.mistakes import MISTAKES
from glassformer.check.report import KINDS, Report


def example() -> Report:
    report = Report("Mine", "attention", "forward(x=…)")
    report.add("softmax_axis", "right")
    report.add("scale", "wrong", "scores are multiplied by 1", "分数乘了 1")
    report.add("mask_ignored", "unknown", "no mask", "没有掩码")
    report.add("softmax_axis", "right")
    return report


def test_mistakes_come_first_with_evidence_and_fix() -> None:
    lines = example().text().split("\n")
    assert lines[0] == "Mine (attention)"
    assert lines[2] == "  ✗ scores not scaled by 1/√d_k"
    assert lines[3] == "      seen: scores are multiplied by 1"
    assert lines[4].startswith("      fix: scores = q @ k")
    assert lines[5] == "  ? the mask has an effect (no mask)"
    assert lines[6] == "  ✓ weights over the keys sum to 1"
    assert lines[7:] == ["1 mistake found."]
    chinese = example().text("zh")
    assert "✗ 分数没有除以 √d_k" in chinese
    assert "证据: 分数乘了 1" in chinese
    assert chinese.endswith("发现 1 处错误。")


def test_it_is_ok_only_if_something_was_right_and_nothing_wrong() -> None:
    assert not Report("Mine", "attention").ok
    assert Report("Mine", "attention").text().endswith("not everything could be checked")
    report = Report("Mine", "attention")
    report.add("scale", "right")
    assert report.ok
    assert report.text().endswith("No mistake found.")
    report.add("heads_order", "wrong")
    report.add("scale", "wrong")
    assert not report.ok
    assert report.text().endswith("2 mistakes found.")
    assert (report.status("scale"), report.status("causal_leak")) == ("wrong", "")


def test_json_goes_there_and_back() -> None:
    report = example()
    again = Report.from_json(json.loads(json.dumps(report.to_json())))
    assert again == report


@pytest.mark.parametrize("code", MISTAKES)
def test_everything_is_said_in_both_languages(code: str) -> None:
    for words in vars(MISTAKES[code]).values():
        assert words.en.isascii() or any(sign in words.en for sign in "√…≠−")
        assert any("\u4e00" <= letter <= "\u9fff" for letter in words.zh)


def test_kinds_have_names() -> None:
    assert set(KINDS) == {"attention", "positions", "mask", "layer", "transformer", "loss", "unknown"}
