"""The user's file runs in a process of its own: what it does there can't hurt, and is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glassformer.check.runner import check_file
from glassformer.errors import RequestError

MUTANTS = Path(__file__).parent / "mutants"


def glass(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glassformer", "check", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LANG": "C.UTF-8", "LC_ALL": "", **environment},
    )


def write(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return f"{path}:Mine"


def test_the_command_says_what_is_wrong_and_ends_with_1() -> None:
    done = glass(f"{MUTANTS / 'masks.py'}:MultipliesWeights")
    assert done.returncode == 1
    assert "✗ mask applied after the softmax" in done.stdout
    assert "fix: " in done.stdout
    assert done.stderr == ""


def test_the_command_says_it_in_chinese_and_ends_with_0() -> None:
    done = glass(f"{MUTANTS / 'right_attention.py'}:AnnotatedStyle", LANG="zh_CN.UTF-8")
    assert done.returncode == 0
    assert "没有发现错误" in done.stdout


def test_json_for_several_targets() -> None:
    done = glass(
        f"{MUTANTS / 'right_rest.py'}:subsequent_mask", f"{MUTANTS / 'scale.py'}:NoScaling", "--json"
    )
    found = json.loads(done.stdout)
    assert [one["ok"] for one in found] == [True, False]
    assert found[1]["mistakes"] == ["scale"]
    assert done.returncode == 1


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    done = glass(str(tmp_path / "none.py") + ":X")
    assert done.returncode == 2
    assert "there is no such file" in done.stderr
    done = glass(f"{MUTANTS / 'scale.py'}:NoScalin")
    assert done.returncode == 2
    assert "Did you mean NoScaling? The file defines: scale.py:NoScaling, " in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(RequestError, match=r"Say what to check\. The file defines: scale\.py:NoScaling"):
        check_file(str(MUTANTS / "scale.py"))
    assert glass().returncode == 2


def test_arguments_reach_the_constructor(tmp_path: Path) -> None:
    target = write(
        tmp_path,
        "from torch import nn\n"
        "class Mine(nn.MultiheadAttention):\n"
        "    def __init__(self, flavour, embed_dim, num_heads):\n"
        "        assert flavour == 'mild'\n"
        "        super().__init__(embed_dim, num_heads)\n",
    )
    assert glass(target, "--argument", "flavour=mild").returncode == 0
    assert "write it as name=value" in glass(target, "--argument", "flavour").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "line 1: SyntaxError"),
        ("import torch\nraise ValueError('no')", "mine.py, line 2: ValueError: no"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os; os.abort()", "its process ended with code -6"),
        ("import os; os._exit(7)", "its process ended with code 7"),
        ("while True: print('x' * 10000)", "File too large"),
        ("import torch.nonsense", "ModuleNotFoundError: No module named 'torch.nonsense'"),
    ],
)
def test_a_file_that_misbehaves_is_reported(tmp_path: Path, text: str, message: str) -> None:
    report = check_file(write(tmp_path, text))
    assert report.mistakes == ["cannot_call"]
    assert message in report.text()


def test_a_file_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    target = write(
        tmp_path,
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', \"import time; time.sleep(4); open(r'{mark}', 'w')\"])\n"
        "time.sleep(600)\n",
    )
    began = time.monotonic()
    report = check_file(target, timeout=3)
    assert time.monotonic() - began < 20
    assert "it was stopped after 3 seconds" in report.text()
    time.sleep(3)
    assert not mark.exists()


def test_prints_and_broken_stdout_do_not_disturb_the_answer(tmp_path: Path) -> None:
    target = write(
        tmp_path,
        "import sys\nfrom torch import nn\nprint('{\"ok\": false}')\nsys.stdout.close()\n"
        "class Mine(nn.MultiheadAttention):\n    pass\n",
    )
    assert check_file(target).ok


def test_a_senseless_timeout_is_refused() -> None:
    with pytest.raises(RequestError, match="timeout = 0 must be above 0"):
        check_file(str(MUTANTS / "scale.py") + ":NoScaling", timeout=0)


def test_imports_beside_the_file_work(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("from torch.nn import MultiheadAttention as Mine\n")
    assert check_file(write(tmp_path, "from neighbour import Mine\n")).ok
