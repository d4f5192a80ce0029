"""`glass data`, as a person or a script calls it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def glass(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glassformer", "data", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def put(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_list_shows_names_and_licences() -> None:
    done = glass("list")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("dates", "tatoeba-en-es", "cmudict", "wikitext-2", "CC BY 2.0 FR", "140,868 pairs"):
        assert word in done.stdout


def test_the_locale_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = glass("list").stdout
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    assert glass("list").stdout == expected


def test_get_shows_licence_and_files(tmp_path: Path) -> None:
    done = glass("get", "dates", "--to", str(tmp_path / "mine"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Licence of the data: Unicode" in done.stdout
    assert "Attribution: Unicode CLDR" in done.stdout
    assert str(tmp_path / "mine" / "train.tsv") in done.stdout
    again = glass("get", "dates", "--to", str(tmp_path / "mine"))
    assert again.returncode == 1
    assert "would be overwritten" in again.stderr


def test_check_counts_measures_and_cleans(tmp_path: Path) -> None:
    source = put(tmp_path, "a.en", "one\n\none\nx\n")
    target = put(tmp_path, "a.de", "eins\nzwei\neins\nx\n")
    done = glass("check", source, target)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["pairs", "read", "4"]
    assert any(line.split("first: ")[-1] == "a.en, line 2" for line in lines)
    assert any("seen before" in line for line in lines)
    assert "characters" in done.stdout
    done = glass("check", source, target, "--json", "--drop-identical", "--no-drop-empty")
    report = json.loads(done.stdout)
    assert (report["read"], report["kept"]) == (4, 2)
    assert (report["dropped"]["empty"], report["dropped"]["identical"]) == (0, 1)


def test_check_reads_one_file_of_pairs(tmp_path: Path) -> None:
    path = put(tmp_path, "a.jsonl", '{"en": "one", "de": "eins"}\n')
    done = glass("check", path, "--source-field", "en", "--target-field", "de", "--json")
    assert json.loads(done.stdout)["kept"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["check"], 2, "give two files, or one"),
        (["check", "a.csv"], 2, "must be a .tsv or .jsonl file"),
        (["check", "none.en", "none.de"], 1, "none.en: there is no such file"),
        (["get", "tatoeba"], 2, "did you mean tatoeba-en-uk or tatoeba-en-es?"),
    ],
)
def test_errors_are_one_line(arguments: list[str], code: int, said: str) -> None:
    done = glass(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("glass: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bad_bytes_and_unequal_files(tmp_path: Path) -> None:
    source, target = put(tmp_path, "a.en", "one\ntwo\n"), put(tmp_path, "a.de", "eins\n")
    done = glass("check", source, target)
    assert done.returncode == 1
    assert f"{source} has 2 lines, but {target} has 1" in done.stderr
    Path(target).write_bytes(b"eins\nzw\xe9i\n")
    done = glass("check", source, target)
    assert f"{target}, line 2: not UTF-8: byte 0xE9 at byte offset 7" in done.stderr
    assert glass("check", source, target, "--errors", "replace").returncode == 0


def test_a_bar_on_a_terminal_and_nothing_of_it_in_a_pipe(tmp_path: Path) -> None:
    """Standard error is a terminal here; standard output is a pipe."""
    source, target = put(tmp_path, "a.en", "one\n" * 9), put(tmp_path, "a.de", "eins\n" * 9)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "glassformer", "data", "check", source, target]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, check=True)
    os.close(theirs)
    seen = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "reading" in seen
    assert "9/9" in seen
    assert "\x1b" not in done.stdout.decode()
