"""Bytes → lines, and what is said about bytes that are no text."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.errors import DataError
from glassformer.text import lines
from glassformer.text.lines import count_lines, decode_lines, decode_lines_with_ends, read_lines, write_lines


def put(folder: Path, content: bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def message(path: Path, **options: str) -> str:
    with pytest.raises(DataError) as caught:
        list(read_lines(path, **options))  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"\n\na\n\n", ["", "", "a", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\r", ["a\r", "b"]),
        (b"in\rside\nb\n", ["in\rside", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
    ],
)
def test_what_a_line_is(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    path = put(tmp_path, content)
    assert list(read_lines(path)) == expected
    packed = put(tmp_path, gzip.compress(content), "text.txt.gz")
    assert list(read_lines(packed)) == expected


def test_unicode_line_breaks_stay_inside_lines(tmp_path: Path) -> None:
    text = "one\u2028still one\x85and one\ntwo\x0bstill\x0ctwo\x1c\nthree\u2029\n"
    assert list(read_lines(put(tmp_path, text.encode()))) == text.split("\n")[:3]


@given(
    st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\0", b""))), st.sampled_from([b"\n", b"\r\n"])
)
@example([b"\xff", b"a"], b"\n")
def test_fast_and_slow_reading_agree(bodies: list[bytes], end: bytes) -> None:
    content = b"x" + end + b"".join(body + end for body in bodies)
    fast = list(decode_lines(io.BytesIO(content), "x", "replace"))
    slow = list(decode_lines_with_ends(io.BytesIO(content), "x", "replace"))
    assert fast == [text for text, _ in slow]
    assert fast == [part.removesuffix(b"\r").decode("utf-8", "replace") for part in content.split(b"\n")[:-1]]


@given(st.text(st.sampled_from("ab\r\n\u2028é\x85"), max_size=60), st.integers(1, 9))
def test_blocks_of_any_size_give_the_same_lines(text: str, size: int) -> None:
    class Slow(io.BytesIO):
        def read1(self, size_asked: int | None = -1, /) -> bytes:
            return self.read(size)

    content = "first\n" + text
    ends = list(decode_lines_with_ends(Slow(content.encode()), "x"))
    assert "".join(line + end for line, end in ends) == content
    assert list(decode_lines(Slow(content.encode()), "x")) == [line for line, _ in ends]


def test_a_pipe_is_read_as_it_comes() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "wb", buffering=0) as sender, os.fdopen(read, "rb") as receiver:
        found = decode_lines(receiver, "pipe")
        sender.write(b"one\ntw")
        assert next(found) == "one"
        sender.write(b"o\n")
        assert next(found) == "two"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"))))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    texts = ["first", *(text for text in texts if not text.endswith("\r"))]
    path = tmp_path_factory.mktemp("lines") / "x"
    write_lines(path, texts)
    assert list(read_lines(path)) == texts
    assert count_lines(path) == len(texts)


def test_counting_agrees_with_reading(tmp_path: Path) -> None:
    for content in (b"", b"a", b"a\n", b"a\nb", b"\n\n", b"a\r\nb\r\n", b"\xef\xbb\xbf"):
        path = put(tmp_path, content)
        assert count_lines(path) == len(list(read_lines(path))), content


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = put(tmp_path, b"one\ntwo\nthr\xe9e\nfour\n")
    said = message(path)
    assert said.startswith(f"{path}, line 3: not UTF-8: byte 0xE9 at byte offset 11 (3 in the line)")
    assert "Latin-1" in said
    assert "thrée" in said
    assert "replace" in said
    assert list(read_lines(path, "replace")) == ["one", "two", "thr\ufffde", "four"]


def test_the_place_is_right_beyond_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 16)
    path = put(tmp_path, b"0123456789\n" * 100 + b"\xff\n")
    assert "line 101: not UTF-8: byte 0xFF at byte offset 1100 (0 in the line)" in message(path)


def test_the_byte_order_mark_counts_in_no_offset_of_later_lines(tmp_path: Path) -> None:
    path = put(tmp_path, b"\xef\xbb\xbfab\nc\xff\n")
    assert "line 2: not UTF-8: byte 0xFF at byte offset 7 (1 in the line)" in message(path)


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"), ("utf-32-le", b"\xff\xfe\0\0")],
)
def test_utf16_and_utf32_are_recognised(tmp_path: Path, encoding: str, mark: bytes) -> None:
    said = message(put(tmp_path, mark + "one\ntwo\n".encode(encoding)))
    assert f"looks like {encoding[:6].upper()} (byte offset 0)" in said
    assert "iconv -f UTF-" in said


@pytest.mark.parametrize(("encoding", "offset"), [("utf-16-le", 1), ("utf-16-be", 0)])
def test_utf16_without_a_mark_is_recognised(tmp_path: Path, encoding: str, offset: int) -> None:
    said = message(put(tmp_path, "one\ntwo\n".encode(encoding)))
    assert f"line 1: a NUL byte at byte offset {offset}" in said
    assert f"iconv -f {encoding.upper().replace('-16-', '-16')}" in said


def test_replacing_does_not_make_text_of_utf16(tmp_path: Path) -> None:
    assert "looks like UTF-16" in message(put(tmp_path, "one\n".encode("utf-16")), errors="replace")


def test_nul_names_line_and_byte(tmp_path: Path) -> None:
    path = put(tmp_path, b"one is fine\ntwo is \0 not\n")
    assert f"{path}, line 2: a NUL byte at byte offset 19 (7 in the line)" in message(path)
    assert list(read_lines(path, "replace"))[1] == "two is \ufffd not"


def test_bare_carriage_returns_are_not_one_long_line(tmp_path: Path) -> None:
    said = message(put(tmp_path, b"one\rtwo\rthree"))
    assert "bare carriage return (byte offset 3)" in said
    assert "tr '\\r' '\\n'" in said


def test_the_locale_does_not_matter(tmp_path: Path) -> None:
    path = put(tmp_path, "żółć 你好\n".encode())
    code = "import sys; from glassformer.text.lines import *; print(ascii(list(read_lines(sys.argv[1]))))"
    said = [
        subprocess.run(
            [sys.executable, "-X", f"utf8={mode}", "-c", code, str(path)],
            env={**os.environ, "LC_ALL": "C", "LANG": "C"},
            capture_output=True,
            check=True,
        ).stdout
        for mode in (0, 1)
    ]
    assert said == [ascii(["żółć 你好"]).encode() + b"\n"] * 2


def test_missing_directory_and_false_gz(tmp_path: Path) -> None:
    assert f"{tmp_path / 'none'}: there is no such file" in message(tmp_path / "none")
    assert "this is a directory" in message(tmp_path)
    assert "not a gzip file" in message(put(tmp_path, b"plain\n", "a.gz"))
    assert "this is zip" in message(put(tmp_path, b"PK\x03\x04...", "b"))


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    assert list(read_lines(put(tmp_path, gzip.compress(b"a\nb\n"), "no_suffix"))) == ["a", "b"]


def test_a_truncated_gzip_is_not_a_short_file(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(5000).hex().encode() + b"\n")
    path = put(tmp_path, packed[: len(packed) // 2], "a.gz")
    assert "the gzip file is truncated" in message(path)
    with pytest.raises(DataError, match="truncated"):
        count_lines(path)


def test_a_damaged_gzip_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(5000).hex().encode() + b"\n"))
    packed[len(packed) // 2] ^= 0xFF
    assert "the gzip file is damaged" in message(put(tmp_path, bytes(packed), "a.gz"))


def test_endless_lines_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 1 << 10)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 12)
    assert "is this a text file?" in message(put(tmp_path, b"x" * (1 << 13)))


def test_a_very_long_line_is_read(tmp_path: Path) -> None:
    word = "w" * 50_000
    assert next(read_lines(put(tmp_path, f"{word}\n{'a ' * 100_000}\n".encode()))) == word
