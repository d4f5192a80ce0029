"""A real server process on a loopback port."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Running:
    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def memory(self) -> int:
        """Bytes that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.split("VmRSS:")[1].split()[0])


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "glassformer", "serve", *arguments]


@contextmanager
def running_server(*arguments: str, port: int = 0, wait: float = 60.0) -> Iterator[Running]:
    """`glass serve` with these arguments, on a free port unless one is given, until the end of the block."""
    process = subprocess.Popen(
        command("--port", str(port), *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address = ""
        for line in process.stdout:
            if line.startswith("open http"):
                address = line.split()[1].rstrip("/")
                break
        if not address:
            raise AssertionError(process.communicate()[1])
        wait_until_healthy(address, wait)
        yield Running(address, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until_healthy(address: str, wait: float = 60.0) -> None:
    end = time.monotonic() + wait
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
