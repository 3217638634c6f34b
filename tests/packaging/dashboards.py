"""A dashboard that the command ``specviz`` started, and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.request import urlopen

_START_SECONDS = 60
_END_SECONDS = 30  # far above what is allowed


def bound_socket() -> socket.socket:
    """Return a socket that occupies a free port of this machine."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return taken


class Dashboard:
    """A started dashboard, whose standard error goes to a file."""

    def __init__(
        self, program: Sequence[str], home: Path, port: int, *options: str, **environment: str
    ) -> None:
        home.mkdir(exist_ok=True)
        self._errors = home.with_suffix(".err")
        with self._errors.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [*program, f"--port={port}", f"--home={home}", *options],
                cwd=home,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(_END_SECONDS)

    @property
    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def started(self, url: str) -> bool:
        """Wait until the server answers at this address; False if the process has ended."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError), urlopen(f"{url}/_stcore/health", timeout=1):
                return True
            time.sleep(0.05)
        return False

    def descendants(self) -> list[int]:
        """Return the ids of the server and of the processes that it started."""
        found, new = [], [self.process.pid]
        while new:
            listed = subprocess.run(
                ["pgrep", "-P", ",".join(map(str, new))],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            new = [int(line) for line in listed.stdout.split()]
            found += new
        return found

    def interrupt(self) -> float:
        """Send SIGINT; return the seconds until the process has ended."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_END_SECONDS)
        return time.monotonic() - began


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def still_running(ids: Sequence[int]) -> list[int]:
    """Return the ids of processes that run; a process that has ended may wait for its parent."""
    return [each for each in ids if _state(each) not in ("", "Z")]


def _state(process_id: int) -> str:
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]
