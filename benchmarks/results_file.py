"""What was measured, in one file a day: every part is added when it is done, so none is lost with another."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.contest import cores

RESULTS = Path(__file__).parent / "results"
QUICK = ", quick"
"""ends the title of what was measured in a hurry"""
PACKAGES = ("torch", "transformers", "x-transformers", "ctranslate2", "numpy")


def add(parts: Mapping[str, Mapping[str, Any]], folder: Path = RESULTS) -> Path:
    """Put parts into today's file; parts of the same title are replaced, the others stay."""
    now = datetime.datetime.now()
    path = folder / f"{now.date().isoformat()}.json"
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    kept = found.get("parts", {})
    for title, part in parts.items():
        kept[title] = {"measured": now.isoformat(timespec="minutes"), **part}
    folder.mkdir(exist_ok=True)
    whole = {"date": now.date().isoformat(), "machine": machine(), "versions": versions(), "parts": kept}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(whole, indent=1, ensure_ascii=False), "utf-8")
    temporary.replace(path)
    return path


def newest(folder: Path = RESULTS) -> dict[str, Any]:
    """All parts, each as it was measured last, and in a hurry only if there is nothing better.

    The machine and the versions are those of the newest file.
    """
    whole: dict[str, Any] = {"parts": {}}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        whole = {**whole, **found, "parts": {**whole["parts"], **found["parts"]}}
    careful = {title: part for title, part in whole["parts"].items() if not title.endswith(QUICK)}
    hasty = {
        title.removesuffix(QUICK): part for title, part in whole["parts"].items() if title.endswith(QUICK)
    }
    return {**whole, "parts": {**hasty, **careful}}


def machine() -> str:
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = (line.partition(":") for line in info.read_text("utf-8").splitlines())
        name = next((value.strip() for key, _, value in lines if key.strip() == "model name"), name)
    return f"{name}, {cores()} cores"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
