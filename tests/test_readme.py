"""The examples in the READMEs run, and the two languages show the same code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
READMES = ["README.md", "README.zh.md"]
BLOCK = re.compile(r"```python( no-run)?\n(.*?)```", re.DOTALL)


def blocks(name: str) -> list[tuple[bool, str]]:
    """Each Python block, and whether it can be run as it stands."""
    text = (ROOT / name).read_text(encoding="utf8")
    return [(not no_run, code) for no_run, code in BLOCK.findall(text)]


@pytest.mark.parametrize("name", READMES)
def test_examples_run(name: str) -> None:
    runnable = [code for runs, code in blocks(name) if runs]
    assert runnable
    for code in runnable:
        exec(compile(code, name, "exec"), {})


def test_both_languages_show_the_same_code() -> None:
    bare = [[re.sub(r"\s*#.*", "", code) for _, code in blocks(name)] for name in READMES]
    assert bare[0] == bare[1]
