"""The catalogue of classic mistakes, read from mistakes.toml beside this file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Words:
    """The same thing said in English and in Chinese."""

    en: str
    zh: str

    def of(self, language: str) -> str:
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True)
class Mistake:
    """What it is called when it is there, when it is not, and how to mend it."""

    wrong: Words
    right: Words
    fix: Words


def _read() -> dict[str, Mistake]:
    text = files("glassformer.check").joinpath("mistakes.toml").read_text(encoding="utf-8")
    return {
        code: Mistake(**{part: Words(**words) for part, words in parts.items()})
        for code, parts in tomllib.loads(text).items()
    }


MISTAKES = _read()
