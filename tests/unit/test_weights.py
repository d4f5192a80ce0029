"""Weight files: hostile ones are refused quickly, good ones survive the way there and back."""

from __future__ import annotations

import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from glassformer.errors import BundleError, DamagedFileError
from glassformer.weights import (
    DTYPES,
    atomic_directory,
    atomic_file,
    read_header,
    read_safetensors,
    write_safetensors,
)


def raw(path: Path, header: Any, data: bytes = b"") -> Path:
    """A file with any header at all."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(shape: list[Any], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    kinds = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES.values()}
    return {**kinds, "scalar": torch.tensor(1.5), "empty": torch.zeros(0, 4), "kelime é 词": torch.ones(1)}


def test_the_reference_library_reads_what_we_write(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    write_safetensors(tmp_path / "a.safetensors", tensors, {"made": "by us"})
    theirs, ours = load_file(tmp_path / "a.safetensors"), read_safetensors(tmp_path / "a.safetensors")
    for name, tensor in tensors.items():
        assert torch.equal(theirs[name], tensor), name
        assert torch.equal(ours[name], tensor), name
        assert ours[name].dtype == tensor.dtype
    assert read_header(tmp_path / "a.safetensors").metadata == {"format": "pt", "made": "by us"}


def test_we_read_what_the_reference_library_writes(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, tmp_path / "a.safetensors")
    ours = read_safetensors(tmp_path / "a.safetensors")
    assert all(torch.equal(ours[name], tensor) for name, tensor in tensors.items())


def test_equal_tensors_give_equal_files_in_any_order(
    tmp_path: Path, tensors: dict[str, torch.Tensor]
) -> None:
    write_safetensors(tmp_path / "a", tensors)
    write_safetensors(tmp_path / "b", dict(reversed(tensors.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_transposed_tensor_is_written_as_it_looks(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a", {"t": torch.arange(6).reshape(2, 3).T})
    assert read_safetensors(tmp_path / "a")["t"].tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("header", "data", "says"),
    [
        (b"not json at all", b"", "not valid JSON"),
        (b"[" * 100_000, b"", "not valid JSON"),
        (b"\xff\xfe", b"", "not valid JSON"),
        (b"[1, 2]", b"", "not a table"),
        (b'{"a": 1, "a": 2}', b"", "twice"),
        ({"a": entry([2], 0, 8)}, b"\0" * 4, "file truncated"),
        ({"a": entry([2], 0, 8)}, b"\0" * 12, "4 bytes at the end"),
        ({"a": entry([2], 8, 16)}, b"\0" * 16, "overlap or leave a hole"),
        ({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, b"\0" * 12, "overlap or leave a hole"),
        ({"a": entry([2], 0, 2**60)}, b"", "impossible data_offsets"),
        ({"a": entry([2], -8, 0)}, b"", "impossible data_offsets"),
        ({"a": entry([2**62, 4], 0, 0)}, b"", "impossible shape"),
        ({"a": entry([2**40, 2**40, 0], 0, 0)}, b"", "too large"),
        ({"a": entry([1.0], 0, 4)}, b"\0" * 4, "impossible shape"),
        ({"a": entry([True], 0, 4)}, b"\0" * 4, "impossible shape"),
        ({"a": entry([1] * 1000, 0, 4)}, b"\0" * 4, "impossible shape"),
        ({"a": entry([3], 0, 8)}, b"\0" * 8, "needs 12 bytes"),
        ({"a": entry([1], 0, 4, "F7")}, b"\0" * 4, "known are"),
        ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, "known are"),
        ({"a": {"dtype": "F32", "shape": [1]}}, b"", "nothing else"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__"),
    ],
)
def test_hostile_headers_are_refused(tmp_path: Path, header: Any, data: bytes, says: str) -> None:
    path = raw(tmp_path / "hostile.safetensors", header, data)
    started = time.perf_counter()
    with pytest.raises(DamagedFileError, match=says) as caught:
        read_safetensors(path)
    assert time.perf_counter() - started < 1
    assert "hostile.safetensors" in str(caught.value)


def test_a_huge_header_is_refused_with_little_memory(tmp_path: Path) -> None:
    huge = tmp_path / "huge.safetensors"
    with huge.open("wb") as file:
        file.write(struct.pack("<Q", 2**33))
        file.truncate(2**33 + 64)  # a sparse file: the claim is true, and still too much
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedFileError, match="claims 8589934592 bytes"):
        read_safetensors(huge)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 20, 200, -1])
def test_a_truncated_file_says_so(tmp_path: Path, tensors: dict[str, torch.Tensor], keep: int) -> None:
    path = tmp_path / "a.safetensors"
    write_safetensors(path, tensors)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DamagedFileError, match="truncated"):
        read_safetensors(path)


class Evil:
    """Pickled, it writes a file when somebody loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_is_refused_and_never_runs(tmp_path: Path) -> None:
    torch.save({"weight": Evil(tmp_path / "ran")}, tmp_path / "evil.pt")
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Evil(tmp_path / "ran"), protocol=4))
    for name in ("evil.pt", "evil.pkl"):
        with pytest.raises(DamagedFileError, match="pickle"):
            read_safetensors(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_a_missing_file_and_a_pipe_are_no_weights(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="No such file"):
        read_safetensors(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedFileError, match="not a plain file"):
        read_safetensors(tmp_path / "pipe")


@given(st.binary(max_size=64), st.integers(0, 2**64 - 1))
def test_any_bytes_are_refused_in_our_words(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, length: int
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a"
    path.write_bytes(struct.pack("<Q", length % (2 * len(tail) + 1)) + tail)
    with pytest.raises(DamagedFileError):
        read_safetensors(path)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(TypeError), atomic_file(tmp_path / "a") as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_a_failed_directory_leaves_the_old_one_and_no_litter(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "d") as folder:
        (folder / "x").write_text("old")
    with pytest.raises(BundleError, match="could not be written"), atomic_directory(tmp_path / "d") as folder:
        (folder / "missing" / "x").write_text("new")
    assert (tmp_path / "d" / "x").read_text() == "old"
    with atomic_directory(tmp_path / "d") as folder:
        (folder / "x").write_text("new")
    assert (tmp_path / "d" / "x").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """`ulimit -f` makes every file end at 64 kB, as a full disk would."""
    write_safetensors(tmp_path / "a", {"old": torch.ones(2)})
    program = (
        "import torch, sys; from glassformer.weights import write_safetensors;"
        "write_safetensors(sys.argv[1], {'new': torch.ones(100_000)})"
    )
    limited = f'ulimit -f 64; exec {sys.executable} -c "{program}" {tmp_path / "a"}'
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "File too large" in done.stderr
    assert list(read_safetensors(tmp_path / "a")) == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
