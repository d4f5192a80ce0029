"""Weight files (safetensors), read with suspicion and written whole.

Nothing in such a file can run code, and `read_header` believes nothing that it says about itself before that
has been checked against the file's size. What is written gets its name only when it is complete on the disk.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from glassformer.errors import BundleError, DamagedFileError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}

# Room for some 30,000 tensors. A larger header is a hostile one: parsing it would take seconds and gigabytes.
_MAX_HEADER = 4 * 2**20


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies in the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    """first byte, counted from the end of the header"""
    end: int


@dataclass(frozen=True)
class Header:
    """What a checked safetensors file says about itself. `entries` stand in the file's order."""

    metadata: dict[str, str]
    entries: dict[str, Entry]
    start: int
    """where the data begins"""


def read_safetensors(path: str | Path) -> dict[str, Tensor]:
    """All tensors of a file whose header has been checked (see `read_header`)."""
    path = Path(path)
    header = read_header(path)
    tensors: dict[str, Tensor] = {}
    with path.open("rb") as file:
        file.seek(header.start)
        for name, entry in header.entries.items():
            tensor = torch.empty(entry.shape, dtype=entry.dtype)
            data = tensor.reshape(-1).view(torch.uint8).numpy().data
            if file.readinto(data) != len(data):
                raise DamagedFileError(f"{path}: file truncated while it was read, inside {name}")
            tensors[name] = tensor
    return tensors


def read_header(path: str | Path) -> Header:
    """Read and check the header alone: cheap, and safe with a file from a stranger."""
    path = Path(path)
    try:
        size = path.stat().st_size
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror}") from None
    if not regular:
        raise DamagedFileError(f"{path}: not a plain file")
    if size < 8:
        raise DamagedFileError(f"{path}: file truncated: {size} bytes, even an empty one has 8")
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > size - 8 or length > _MAX_HEADER:
            if looks_like_pickle(path):
                raise DamagedFileError(pickle_refused(path))
            reason = f"its header claims {length} bytes, the file has {size}, and {_MAX_HEADER} are allowed"
            raise DamagedFileError(f"{path}: file truncated or not safetensors: {reason}")
        text = file.read(length)
    try:
        return _checked_header(text, 8 + length, size - 8 - length)
    except (ValueError, RecursionError, TypeError) as error:
        raise DamagedFileError(f"{path}: {error}") from None


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a file that is complete and on the disk before it gets its name."""
    # Widest type first keeps every tensor aligned; then by name, so that equal models give equal files.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    place = 0
    for name in order:
        tensor = tensors[name]
        end = place + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            flat = tensors[name].detach().cpu().contiguous().reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)


def _checked_header(text: bytes, start: int, data_size: int) -> Header:
    try:
        mapping = json.loads(text.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is not valid JSON ({error})") from None
    if not isinstance(mapping, dict):
        raise ValueError("the header is not a table")
    metadata = mapping.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the header's __metadata__ must hold text only")
    entries = {name: _checked_entry(name, entry) for name, entry in mapping.items()}
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != place:
            raise ValueError(
                f"{name} begins at byte {entry.begin}, not at {place}: tensors overlap or leave a hole"
            )
        place = entry.end
    if place > data_size:
        raise ValueError(f"file truncated: the header names {place} bytes of data, {data_size} are there")
    if place < data_size:
        raise ValueError(f"{data_size - place} bytes at the end belong to no tensor")
    in_order = dict(sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)))
    return Header(metadata, in_order, start)


def _checked_entry(name: str, entry: Any) -> Entry:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name} must have dtype, shape and data_offsets, nothing else")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPES:
        raise ValueError(f"{name} has the type {str(entry['dtype'])[:40]!r}; known are {', '.join(DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    for what, numbers in (("shape", shape), ("data_offsets", offsets)):
        whole = isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**48 for n in numbers)
        if not whole or len(numbers) > 16:
            raise ValueError(f"{name} has impossible {what}")
    if len(offsets) != 2:
        raise ValueError(f"{name} has {len(offsets)} data_offsets; two were expected")
    # Zeros count as one here: a shape such as (2⁴⁰, 2⁴⁰, 0) holds nothing, yet overflows a product.
    if math.prod(max(n, 1) for n in shape) >= 2**48:
        raise ValueError(f"{name} has a shape too large for any file")
    dtype = DTYPES[entry["dtype"]]
    wanted = math.prod(shape) * dtype.itemsize
    if offsets[1] - offsets[0] != wanted:
        raise ValueError(f"{name} needs {wanted} bytes, its offsets span {offsets[1] - offsets[0]}")
    return Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("the header names a tensor twice")
    return table


def looks_like_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4)
    # A zip (torch.save since 1.6), or pickle protocol 2 and later.
    return start[:4] == b"PK\x03\x04" or (start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05")


def pickle_refused(path: Path) -> str:
    return (
        f"{path}: refused: this is a pickle (torch.save), and loading one runs the code inside it. "
        "Convert it to safetensors where you trust it"
    )


# --- all or nothing on the disk ---


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that gets its name only when it is complete and synced; a failure leaves nothing behind."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """A directory that gets its name only when everything in it is synced.

    A directory that already has that name steps aside first and is removed afterwards: the name always means
    one whole directory, or, if the machine dies between two renames, none, with both under hidden names.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    aside = path.with_name(f".{path.name}.old-{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        for inside in temporary.rglob("*"):
            if inside.is_file():
                with inside.open("rb") as file:
                    os.fsync(file.fileno())
        sync_directory(temporary)
        if path.exists():
            os.rename(path, aside)
        os.rename(temporary, path)
        sync_directory(path.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        if isinstance(error, OSError):
            raise BundleError(
                f"{path}: could not be written: {error.strerror or error}; nothing was changed"
            ) from error
        raise
    shutil.rmtree(aside, ignore_errors=True)


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut (Windows can't, and needs no telling)."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
