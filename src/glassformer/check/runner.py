"""Run a check in a process of its own, with a time limit: a user's file may hang, crash or print for ever.

The parent sends a request as JSON on standard input; the child writes its answer to a file, so that nothing
the user's code prints can be taken for it.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer.check.report import Report
from glassformer.errors import RequestError

OUTPUT_LIMIT = 16 << 20  # bytes that a user's code may write to any file, its prints included


def check_file(target: str, *, timeout: float = 120.0, **options: Any) -> Report:
    """Check `my_file.py:Name`. RequestError if there is no such thing; a crash or a hang is reported."""
    path, name = _split(target)
    if timeout <= 0:
        raise RequestError(f"timeout = {timeout} must be above 0 seconds")
    with tempfile.TemporaryDirectory(prefix="glass-check-") as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "log")
        request = {"path": str(path), "name": name, "answer": str(answer), "options": options}
        ended = _run(json.dumps(request), log, timeout)
        if answer.is_file() and answer.stat().st_size:
            found = json.loads(answer.read_text(encoding="utf-8"))
            if "error" in found:
                raise RequestError(found["error"])
            return Report.from_json(found)
        return _no_answer(target, ended, log, timeout)


def _split(target: str) -> tuple[Path, str]:
    file, _, name = target.rpartition(":")
    if not file or not name or "/" in name or os.sep in name:
        file, name = target, ""
    path = Path(file)
    if not path.is_file():
        raise RequestError(f"{path}: there is no such file; write it as my_file.py:MyAttention")
    return path.resolve(), name


def _run(request: str, log: Path, timeout: float) -> int | None:
    """The child's exit code, or None if it had to be stopped."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "glassformer.check.runner"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # numbers small enough that threads only cost
        )
        try:
            child.communicate(request.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(child)
    return child.returncode


def _end(child: subprocess.Popen[bytes]) -> None:
    """The child and whatever it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _no_answer(target: str, ended: int | None, log: Path, timeout: float) -> Report:
    report = Report(target, "unknown")
    tail = log.read_bytes()[-2000:].decode("utf-8", "replace").strip().split("\n")[-1]
    if ended is None:
        report.add(
            "cannot_call",
            "wrong",
            f"it was stopped after {timeout:g} seconds; does the file train a model when it is imported? "
            "Put that under if __name__ == '__main__', or give --timeout",
            f"{timeout:g} 秒后被终止；文件在导入时就开始训练了吗？请放到 if __name__ == '__main__' 之下，"
            "或用 --timeout 放宽时间",
        )
    else:
        report.add(
            "cannot_call",
            "wrong",
            f"its process ended with code {ended}: {tail}",
            f"进程以代码 {ended} 结束：{tail}",
        )
    return report


def main() -> None:
    """The child: read a request, import the file, check, answer."""
    request = json.loads(sys.stdin.read())
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
    answer = _answer(Path(request["path"]), request["name"], request["options"])
    Path(request["answer"]).write_text(json.dumps(answer, ensure_ascii=False), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # threads and handlers of the user's code have no say in this


def _answer(path: Path, name: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        module = _import(path)
    except BaseException as error:  # SystemExit and KeyboardInterrupt included
        return _import_failed(path, name, error).to_json()
    defined = [
        key
        for key, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
    ]
    if not name or not hasattr(module, name):
        listed = ", ".join(f"{path.name}:{key}" for key in defined) or "nothing"
        close = difflib.get_close_matches(name, defined, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        asked = f"{path.name} has no {name}." if name else "Say what to check."
        return {"error": f"{asked}{hint} The file defines: {listed}"}
    from glassformer.check.core import check  # torch, only now: most mistakes at import need none

    report = check(getattr(module, name), **options)
    report.name = name
    return report.to_json()


def _import(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError("its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _import_failed(path: Path, name: str, error: BaseException) -> Report:
    """An error at import, with the user's own line."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    where = f"{path.name}, line {line}" if line else path.name
    report = Report(name or path.name, "unknown")
    said = f"{where}: {type(error).__name__}: {error}"
    report.add("cannot_call", "wrong", f"the file can't be imported: {said}", f"文件无法导入：{said}")
    return report


if __name__ == "__main__":
    main()
