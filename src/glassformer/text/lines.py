r"""Bytes → lines. UTF-8 only, wherever it runs; what is wrong is said with file, line and byte offset.

Only \n ends a line. A \r before it is dropped; U+2028, U+0085, \v and \f are text like any other. A byte
order mark is dropped at the start of a file and nowhere else. Files that begin like gzip are unpacked.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

from glassformer.errors import DataError

Errors = Literal["strict", "replace"]

BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20
LONGEST_LINE = 1 << 26
"""64 MiB: whatever is longer is no line of text, and would fill the memory"""

# Checked in this order: the UTF-32 mark begins with the UTF-16 one.
FOREIGN_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}


def read_lines(path: str | Path, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a text file (plain or gzip), without their ends. Never holds the whole file."""
    with open_bytes(path) as stream:
        yield from decode_lines(stream, path, errors)


def count_lines(path: str | Path) -> int:
    """How many lines `read_lines` gives, without making text of them."""
    with open_bytes(path) as stream:
        blocks = (block for _, block in _whole_lines(stream, path))
        return sum(block.count(b"\n") + (not block.endswith(b"\n")) for block in blocks if block)


def open_file(path: str | Path) -> io.BufferedReader:
    """Open a file for reading its bytes as they are."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", path) from None
    except IsADirectoryError:
        raise DataError("this is a directory; a text file was expected", path) from None
    except OSError as error:
        raise DataError(f"can't be opened: {error.strerror}", path) from None


def open_bytes(path: str | Path) -> IO[bytes]:
    """Open a file for reading, unpacking gzip (known by its first bytes, not by its name)."""
    stream = open_file(path)
    if stream.peek(2)[:2] == b"\x1f\x8b":
        return _Gzip(stream)  # type: ignore[return-value]
    if str(path).endswith(".gz") and stream.peek(1):
        stream.close()
        raise DataError("its name ends in .gz, but it is not a gzip file", path)
    return stream


class _Gzip(gzip.GzipFile):
    """Unpacks a stream that is open already (a pipe can't be opened twice), and closes it with itself."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(fileobj=stream)
        self._stream = stream

    def close(self) -> None:
        super().close()
        self._stream.close()


def decode_lines(stream: IO[bytes], name: str | Path, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a byte stream, such as standard input; `name` is what messages call it.

    A block that is plain UTF-8 is decoded at once, which is several times faster than line by line;
    `decode_lines_with_ends` is the slow twin, and says what is wrong.
    """
    number = 0
    for offset, block in _whole_lines(stream, name):
        try:
            text = None if b"\0" in block else block.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if text is None:
            for line, _ in _decode_block(block, name, errors, number, offset):
                yield line
        else:
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()  # what stands after the last \n is no line
            if "\r" in text:
                lines = [line.removesuffix("\r") for line in lines]
            yield from lines
        number += block.count(b"\n")


def decode_lines_with_ends(
    stream: IO[bytes], name: str | Path, errors: Errors = "strict"
) -> Iterator[tuple[str, str]]:
    r"""Lines with the end each one had: "\n", "\r\n", or, in the last line, also "\r" or nothing."""
    number = 0
    for offset, block in _whole_lines(stream, name):
        yield from _decode_block(block, name, errors, number, offset)
        number += block.count(b"\n")


def _decode_block(
    block: bytes, name: str | Path, errors: Errors, number: int, offset: int
) -> Iterator[tuple[str, str]]:
    """Line by line; `number` lines and `offset` bytes of the stream came before this block."""
    for raw in io.BytesIO(block):  # splits at \n and nowhere else
        number += 1
        body = raw.removesuffix(b"\n").removesuffix(b"\r")
        yield _decode(body, name, errors, number, offset), raw[len(body) :].decode("ascii")
        offset += len(raw)


def _decode(body: bytes, name: str | Path, errors: Errors, number: int, offset: int) -> str:
    try:
        text = body.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: byte 0x{body[error.start]:02X} at byte offset {offset + error.start} "
            f"({error.start} in the line); {_guess(body)}",
            name,
            number,
        ) from None
    if "\0" not in text:
        return text
    if errors == "replace":
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    place = body.index(b"\0")
    raise DataError(
        f"a NUL byte at byte offset {offset + place} ({place} in the line); {_guess(body)}", name, number
    )


def _guess(body: bytes) -> str:
    """What the bytes may be instead, and what to do."""
    zeros = body.count(b"\0")
    if zeros * 3 > len(body):
        order = "UTF-16BE" if body[::2].count(b"\0") > body[1::2].count(b"\0") else "UTF-16LE"
        return f"this looks like UTF-16 without a byte order mark: convert it with iconv -f {order} -t UTF-8"
    if zeros:
        return "is this a text file? errors = 'replace' puts U+FFFD in its place"
    try:
        shown = body.decode("cp1252")
    except UnicodeDecodeError:
        return "is this a text file? errors = 'replace' puts U+FFFD in place of such bytes"
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    return (
        f"as Latin-1 the line reads '{shown}': if that is right, convert the file with "
        "iconv -f WINDOWS-1252 -t UTF-8; errors = 'replace' puts U+FFFD in place of such bytes"
    )


def _whole_lines(stream: IO[bytes], name: str | Path) -> Iterator[tuple[int, bytes]]:
    """Blocks that end where a line ends, with their byte offsets; a byte order mark is skipped."""
    rest, offset = b"", 0
    for block in _blocks(stream, name):
        cut = block.rfind(b"\n") + 1
        whole, rest = (rest + block[:cut], block[cut:]) if cut else (b"", rest + block)
        if whole:
            mark = 0 if offset else _mark(whole, name)
            yield offset + mark, whole[mark:]
            offset += len(whole)
        if len(rest) > LONGEST_LINE:
            raise DataError(f"a line of more than {LONGEST_LINE >> 20} MiB: is this a text file?", name)
    if rest:
        mark = 0 if offset else _mark(rest, name)
        if not offset:
            _refuse_bare_returns(rest, name)
        yield offset + mark, rest[mark:]


def _mark(start: bytes, name: str | Path) -> int:
    """Length of the byte order mark at the start of a stream; foreign encodings and formats are refused."""
    for mark, kind in FOREIGN_MARKS.items():
        if start.startswith(mark):
            if kind.startswith("UTF"):
                remedy = f"convert it with iconv -f {kind} -t UTF-8"
                raise DataError(f"this looks like {kind} (byte offset 0): {remedy}", name, 1)
            raise DataError(f"this is {kind}: unpack it first (only gzip is read as it is)", name)
    return len(BOM) if start.startswith(BOM) else 0


def _refuse_bare_returns(only: bytes, name: str | Path) -> None:
    """The one line of a file without \\n: with \\r inside it is rather a file of many lines."""
    place = only.rstrip(b"\r").find(b"\r")
    if place >= 0:
        raise DataError(
            f"lines end in a bare carriage return (byte offset {place}), as on very old Macs: "
            "convert it with tr '\\r' '\\n'",
            name,
            1,
        )


def _blocks(stream: IO[bytes], name: str | Path) -> Iterator[bytes]:
    """Pieces of a stream as they come; a damaged gzip file is reported as such."""
    read = getattr(stream, "read1", stream.read)  # read1 does not wait for a slow pipe to fill the block
    done = 0
    try:
        while block := read(BLOCK):
            done += len(block)
            yield block
    except EOFError:
        raise DataError(f"the gzip file is truncated: it ends after {done:,} bytes of text", name) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"the gzip file is damaged after {done:,} bytes of text: {error}", name) from None
    except OSError as error:
        raise DataError(f"can't be read: {error.strerror}", name) from None


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    r"""Write lines as UTF-8, each ended by \n, whatever the locale says."""
    with open(path, "wb") as stream:
        for line in lines:
            stream.write(line.encode("utf-8") + b"\n")
