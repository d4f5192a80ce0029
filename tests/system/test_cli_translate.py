"""`glass translate` as a person or a script uses it."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glassformer.bundle import Bundle
from glassformer.cli import translate as command
from glassformer.errors import DataError, RequestError

PLAIN, USUAL = command.Show(), command.How()


def glass(
    numbers: Path, *arguments: str, given: bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "glassformer",
            "translate",
            "--model",
            str(numbers),
            "--engine",
            "torch",
            *arguments,
        ],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def run(
    numbers: Path,
    *text: str,
    show: command.Show = PLAIN,
    how: command.How = USUAL,
    **where: object,
) -> None:
    """In this process: the same, without the seconds that importing torch takes."""
    place = command.Where(model=str(numbers), engine="torch", **where)  # type: ignore[arg-type]
    command.translate(*text, where=place, how=how, show=show)


def test_a_text_as_argument(numbers: Path) -> None:
    done = glass(numbers, "one two three.", "-v")
    assert done.stdout.decode() == "一二三。\n"
    assert done.stderr.decode().strip().endswith("engine torch: asked for")
    assert done.returncode == 0


def test_standard_input_whatever_the_locale(numbers: Path) -> None:
    given = "\ufeffone two.\r\n\r\n   \nthree\u2028four.\nnine.".encode()
    done = glass(numbers, given=given, LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode("utf-8").split("\n")
    assert lines[:3] == ["一二。\r", "\r", ""]
    assert len(lines) == 5
    assert lines[4] == "九。"  # the last line has no end, as in the input


def test_bytes_that_are_not_text_are_loud(numbers: Path) -> None:
    given = b"one.\ntwo.\n\xff\xfethree.\n"
    done = glass(numbers, given=given)
    assert done.returncode == 1
    assert "standard input, line 3: not UTF-8: byte 0xFF" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert done.stdout.decode() == "一。\n二。\n"  # what came before is not lost
    again = glass(numbers, "--errors", "replace", given=given)
    assert again.returncode == 0
    assert again.stdout.count(b"\n") == 3


def test_files(numbers: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    plain, packed, out = tmp_path / "in.txt", tmp_path / "in.txt.gz", tmp_path / "out.txt"
    plain.write_text("one.\n\ntwo three.\n", "utf-8")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for source in (plain, packed):
        run(numbers, input=source, output=out)
        assert out.read_text("utf-8") == "一。\n\n二三。\n"
    assert capfdbinary.readouterr().out == b""
    run(numbers, input=plain)
    assert capfdbinary.readouterr().out.decode() == "一。\n\n二三。\n"
    empty = tmp_path / "empty.txt"
    empty.touch()
    run(numbers, input=empty, output=out)
    assert out.read_bytes() == b""


def test_nothing_is_overwritten_by_mistake(numbers: Path, tmp_path: Path) -> None:
    plain, out = tmp_path / "in.txt", tmp_path / "out.txt"
    plain.write_text("one.\n", "utf-8")
    out.write_text("precious", "utf-8")
    with pytest.raises(RequestError, match="is the input"):
        run(numbers, input=plain, output=plain)
    with pytest.raises(DataError, match="there is no such file"):
        run(numbers, input=tmp_path / "missing.txt", output=out)
    (tmp_path / "bad.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"bad\.txt, line 1"):
        run(numbers, input=tmp_path / "bad.txt", output=out)
    assert out.read_text("utf-8") == "precious"
    with pytest.raises(DataError, match="can't be written"):
        run(numbers, input=plain, output=tmp_path / "no" / "folder.txt")
    with pytest.raises(RequestError, match="either a text or --input"):
        run(numbers, "one.", input=plain)


def test_columns(numbers: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def shown(**show: bool) -> list[list[str]]:
        run(numbers, "one", "two.", show=command.Show(**show), how=command.How(n_best=best))
        return [row.split("\t") for row in capfdbinary.readouterr().out.decode().splitlines()]

    best: int | None = None
    assert shown() == [["一二。"]]
    [[score, text]] = shown(scores=True)
    assert float(score) < 0
    assert text == "一二。"
    assert shown(align=True) == [["一二。", "0-0 1-1 1-2"]]
    best = 3
    rows = shown(scores=True)
    assert [row[0] for row in rows] == ["1", "1", "1"]
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)
    assert rows[0][2] == "一二。"


def test_json_lines(numbers: Path, tmp_path: Path) -> None:
    plain, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    plain.write_text("one two.\n\n" + "nine. " * 40, "utf-8")
    run(
        numbers,
        input=plain,
        output=out,
        show=command.Show(json=True, align=True),
        how=command.How(n_best=2, length_penalty=0.0),
    )
    first, blank, long = (json.loads(line) for line in out.read_text("utf-8").splitlines())
    assert first["text"] == "一二。"
    assert first["score"] == first["log_prob"] == pytest.approx(sum(first["token_log_probs"]), abs=1e-4)
    assert first["alignment"]["links"] == [[0, 0], [1, 1], [1, 2]]
    assert len(first["alternatives"]) == 1
    assert (blank["source"], blank["text"]) == ("", "")
    assert long["notes"][0]["kind"] == "split"


def test_notes_go_to_standard_error(numbers: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(numbers, "one two three four.", how=command.How(max_length=2))
    shown = capfd.readouterr()
    assert shown.out == "一二\n"
    assert shown.err == "glass: line 1: cut at the maximum of 2 tokens\n"


def test_sampling_options_need_sample(numbers: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RequestError, match="--top-k needs --sample"):
        run(numbers, "one.", how=command.How(top_k=3))
    run(numbers, "one two.", how=command.How(sampling=True, top_k=1, seed=0))
    assert capfd.readouterr().out == "一二。\n"


def test_languages_must_fit(numbers: Path) -> None:
    with pytest.raises(RequestError, match="translates en to zh, not en to de"):
        run(numbers, "one.", from_="en", to="de")
    run(numbers, "one.", to="zh-Hans")


def test_without_a_model_the_package_is_asked(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("glassformer.translate.shipped", lambda: {"numbers": numbers})
    command.translate("one.", where=command.Where(to="zh", engine="torch"))
    assert capfd.readouterr().out == "一。\n"
    with pytest.raises(RequestError, match="no model from en to es: there is en to zh"):
        command.translate("one.")


def test_each_line_is_answered_at_once_on_a_terminal(numbers: Path) -> None:
    """Through a pseudo-terminal, waiting for each answer before the next line is typed."""
    owner, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "translate", "--model", str(numbers), "--engine", "torch"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    os.close(terminal)
    assert process.stdout is not None
    try:
        for said, answer in (("one.", "一。"), ("", ""), ("nine two.", "九二。")):
            os.write(owner, said.encode() + b"\n")
            assert process.stdout.readline().decode() == answer + "\n"
        os.write(owner, b"\x04")  # Ctrl-D
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        os.close(owner)


def test_a_bar_on_a_terminal_shows_how_far_a_file_is(numbers: Path, tmp_path: Path) -> None:
    plain, out = tmp_path / "in.txt", tmp_path / "out.txt"
    plain.write_text("one.\n" * 30, "utf-8")
    owner, terminal = pty.openpty()
    asked = ["--model", str(numbers), "--engine", "torch", "--input", str(plain), "--output", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "translate", *asked],
        stdout=subprocess.PIPE,
        stderr=terminal,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm"},
    )
    os.close(terminal)
    shown = os.read(owner, 65536).decode("utf-8", "replace")
    os.close(owner)
    assert "translating" in shown
    assert done.stdout == b""
    assert out.read_text("utf-8") == "一。\n" * 30


def test_line_buffered_on_a_pipe(numbers: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "glassformer",
            "translate",
            "--line-buffered",
            "--model",
            str(numbers),
            "--engine",
            "torch",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one.\n")
    process.stdin.flush()
    assert process.stdout.readline().decode() == "一。\n"
    process.stdin.close()
    assert process.wait(timeout=20) == 0


def test_a_reader_that_leaves_is_no_error(numbers: Path) -> None:
    line = f"{sys.executable} -m glassformer translate --model {numbers} --engine torch"
    script = f"yes one. | head -3000 | {line} | head -1; echo ${{PIPESTATUS[2]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "一。\n0\n"
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_large_file_in_little_memory(numbers: Path, tmp_path: Path) -> None:
    plain = tmp_path / "large.txt"
    plain.write_text("one two.\n" * 60_000 + "x" * 200_000 + "\n", "utf-8")
    started = time.perf_counter()
    done = glass(numbers, "--input", str(plain), "--beams", "1")
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 60_001
    assert b"line 60001:" in done.stderr
    assert time.perf_counter() - started < 600


def test_a_bundle_of_another_maker_is_named(numbers: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(numbers)
    bundle.save(tmp_path / "copy")
    (tmp_path / "copy" / "model.safetensors").write_bytes(b"")
    done = glass(tmp_path / "copy", "one.")
    assert done.returncode == 1
    assert "model.safetensors" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
