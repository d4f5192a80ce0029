"""The mutants and the right modules of `mutants/`, and the table of them in docs/CHECK.md.

python tests/unit/check/catalogue.py > docs/CHECK.md
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.check import Report, check
from glassformer.check.mistakes import MISTAKES

FOLDER = Path(__file__).parent / "mutants"


@dataclass(frozen=True)
class Specimen:
    """A class or function, the mistake it makes ("" for none), and what it does in its author's words."""

    target: Any
    file: str
    mistake: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.target.__name__}"

    @property
    def story(self) -> str:
        return " ".join(inspect.getdoc(self.target).split()).rstrip(".")


@functools.cache
def specimens() -> tuple[Specimen, ...]:
    """Everything in the folder that says which mistake it makes, or that it makes none."""
    return tuple(_specimens())


def _specimens() -> Iterator[Specimen]:
    for path in sorted(FOLDER.glob("*.py")):
        name = f"mutants_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        for target in vars(module).values():
            if getattr(target, "__module__", None) == name:
                mistake = vars(target).get("mistake", getattr(module, "MISTAKE", None))
                if mistake is not None:
                    yield Specimen(target, path.stem, mistake)


@functools.cache
def checked(specimen: Specimen) -> Report:
    return check(specimen.target)


def render() -> str:
    """docs/CHECK.md."""

    text = (Path(__file__).parent / "check_head.md").read_text(encoding="utf-8")
    found = specimens()
    text += "\n## Mistakes, the wrong modules that make them, and what is said\n"
    for code, mistake in MISTAKES.items():
        wrong = [specimen for specimen in found if specimen.mistake == code]
        if not wrong:
            continue
        text += f"\n### {mistake.wrong.en} · {mistake.wrong.zh}\n\n{_sentence(mistake.fix.en)}\n\n"
        text += "| wrong module | what it does | what is said |\n|---|---|---|\n"
        for specimen in wrong:
            said = [v.evidence.en for v in checked(specimen).verdicts if v.status == "wrong"]
            text += f"| `{specimen.name}` | {_cell(specimen.story)} | {_cell('; '.join(said))} |\n"
    text += "\n## Right modules, of which nothing bad is said\n\n| module | style |\n|---|---|\n"
    for specimen in found:
        if not specimen.mistake:
            text += f"| `{specimen.name}` | {_cell(specimen.story)} |\n"
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".")


if __name__ == "__main__":
    sys.stdout.write(render())
