from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from glassformer import settings
from glassformer.cli.app import COMMANDS
from glassformer.recipe import Recipe


def glass(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glassformer", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_every_command() -> None:
    done = glass("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout


def test_config_prints_a_recipe_that_can_be_read_back(tmp_path: Path) -> None:
    done = glass("config")
    assert done.returncode == 0
    assert settings.from_mapping(Recipe, tomllib.loads(done.stdout)) == Recipe()
    (tmp_path / "r.toml").write_text('[model]\npreset = "tiny"\n')
    done = glass("config", str(tmp_path / "r.toml"), "model.norm=pre")
    recipe = settings.from_mapping(Recipe, tomllib.loads(done.stdout))
    assert (recipe.model.width, recipe.model.norm) == (128, "pre")


def test_an_error_is_one_message_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[model]\nwidht = 3\n")
    done = glass("config", str(tmp_path / "bad.toml"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean width?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_who_leaves_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "config"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()
