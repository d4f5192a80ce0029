"""Every error that a user can meet, drawn once.

    GlassformerError
    ├── ConfigError     a setting is unknown, of the wrong type, or senseless; lists all of them together
    ├── DataError       a text file is unreadable, unequal or broken; names file and line
    ├── TokenizerError  a vocabulary or tokenizer file is wrong
    ├── BundleError     a model directory is missing, incomplete or does not fit its configuration
    │   └── DamagedFileError   a file is truncated or hostile
    ├── FormatError     a foreign format can't hold this model, or a conversion did not prove itself
    ├── TrainingError   training can't go on: diverged, disk full, changed configuration on resume
    ├── RequestError    what was asked of search, translation or a server makes no sense
    └── MissingExtraError      an optional package is not installed

The message is written for the person who typed the command: it names the file, the line or the key, the
value, and the remedy. The command line prints it without a traceback and exits with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class GlassformerError(Exception):
    """The root: catch this to catch everything the library raises on purpose."""

    exit_code = 1


class ConfigError(GlassformerError, ValueError):
    """One or more settings are wrong. `problems` holds every one of them."""

    exit_code = 2

    def __init__(self, problems: str | Sequence[str], origin: str | Path | None = None) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        self.origin = origin
        where = f"{origin}: " if origin else ""
        if len(self.problems) == 1:
            message = where + self.problems[0]
        else:
            message = f"{where}{len(self.problems)} problems\n" + "\n".join(f"  - {p}" for p in self.problems)
        super().__init__(message)


class DataError(GlassformerError, ValueError):
    """Text that can't be used as it is. `path` and `line` (from 1) say where, if one place is to blame."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        self.path, self.line = path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(where + message)


class TokenizerError(GlassformerError, ValueError):
    """A tokenizer can't be trained, loaded or used."""


class BundleError(GlassformerError):
    """A model directory is missing, incomplete, or its parts do not fit each other."""


class DamagedFileError(BundleError):
    """A file is truncated, empty or not what its name says."""


class FormatError(GlassformerError):
    """A conversion is impossible or did not prove itself. `reasons` holds every reason."""

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        self.reasons = list(reasons)
        super().__init__(message + "".join(f"\n  - {reason}" for reason in self.reasons))


class TrainingError(GlassformerError):
    """Training can't start or can't go on; what was saved before is intact."""


class RequestError(GlassformerError, ValueError):
    """An option of search, translation or a server request that can't be honoured."""

    exit_code = 2


class MissingExtraError(GlassformerError, ImportError):
    """An optional package is needed for what was asked."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"{what} needs the package {package}: pip install 'glassformer[{extra}]'")
