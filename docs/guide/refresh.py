"""Bring the guide up to date: `python docs/guide/refresh.py`.

Code of ours stands in a chapter as a comment and a fence, and the fence is filled from the source:

    <!-- include src/glassformer/model/attention.py: split_heads -->
    <!-- include src/glassformer/model/attention.py: Heads.combine lines 1-4 -->

(lines are counted from the object's own first line, decorators included). A figure is made by the command
that stands in the chapter, run from the root of the repository:

    $ glass plot saturation --out docs/guide/images/saturation.png

`python docs/guide/refresh.py code` and `… figures` do one half. tests/system/test_guide.py holds the chapters
to the same rules without writing anything.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

GUIDE = Path(__file__).resolve().parent
ROOT = GUIDE.parents[1]
IMAGES = "docs/guide/images/"
LANGUAGES = ("en", "zh")

INCLUDE = re.compile(
    r"^<!-- include (?P<path>\S+): (?P<name>[\w.]+)(?: lines (?P<first>\d+)-(?P<last>\d+))? -->\n"
    r"+```python\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (glass .*)$", re.MULTILINE)


def chapters() -> list[Path]:
    """Every chapter there is, in both languages."""
    return [path for language in LANGUAGES for path in sorted((GUIDE / language).glob("*.md"))]


def source_of(include: re.Match[str]) -> str:
    """What a fence should hold, by the comment above it."""
    path, name = ROOT / include["path"], include["name"]
    text = path.read_text(encoding="utf8")
    body: list[ast.stmt] = ast.parse(text).body
    node: ast.stmt | None = None
    for part in name.split("."):
        node = next((found for found in body if part in _names(found)), None)
        if node is None:
            raise LookupError(f"{include['path']} has no {name}")
        body = getattr(node, "body", [])
    assert node is not None
    start = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    lines = text.splitlines()[start - 1 : node.end_lineno]
    if include["first"]:
        first, last = int(include["first"]), int(include["last"])
        if not 1 <= first <= last <= len(lines):
            raise LookupError(f"{include['path']}: {name} has the lines 1-{len(lines)}, not {first}-{last}")
        lines = lines[first - 1 : last]
    return textwrap.dedent("\n".join(lines)) + "\n"


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def filled(text: str) -> str:
    """A chapter with every included fence as the source is now."""

    def fill(include: re.Match[str]) -> str:
        head = include[0][: include.start("code") - include.start()]
        return f"{head}{source_of(include)}```"

    return INCLUDE.sub(fill, text)


def figure_commands(text: str) -> list[list[str]]:
    """The commands of a chapter that write a figure of the guide, as argument lists."""
    commands = [shlex.split(line) for line in COMMAND.findall(text)]
    return [command for command in commands if any(part.startswith(IMAGES) for part in command)]


def refresh_code() -> None:
    """Fill the fences; say which chapters have changed."""
    for path in chapters():
        text = path.read_text(encoding="utf8")
        new = filled(text)
        if new != text:
            path.write_text(new, encoding="utf8")
            print(f"{path.relative_to(ROOT)}: code is fresh again")


def refresh_figures() -> None:
    """Draw every figure anew, once for both languages."""
    seen = set()
    for path in chapters():
        for command in figure_commands(path.read_text(encoding="utf8")):
            if tuple(command) not in seen:
                seen.add(tuple(command))
                done = subprocess.run([sys.executable, "-m", "glassformer", *command[1:]], cwd=ROOT)
                if done.returncode:  # a figure may need a model that this machine does not have
                    print(f"{path.relative_to(ROOT)}: not drawn: {shlex.join(command)}")


if __name__ == "__main__":
    halves = {"code": refresh_code, "figures": refresh_figures}
    for half in sys.argv[1:] or halves:
        halves[half]()
