"""Processes that start quickly and can be killed: forked from one with the libraries loaded.

``python -m tests.nursery MODULE ARGUMENT…`` calls the module's ``prepare`` with the arguments;
what that returns maps a list of arguments to an exit code. For each line of standard input,
an object with such ``words`` and the files ``out`` and ``err``, a new process calls it. It prints
the process id and, at the end, the exit code or the negative of the signal.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from specviz.store import Library

Called = Callable[[list[str]], int]
PlaceInPlan = tuple[int, int, int]


class Nursery:
    """Runs ``words`` repeatedly, each time in a process that can be killed.

    A complete line of standard error that begins with "saved" reports a run.
    """

    def __init__(self, module: str, *arguments: str, words: list[str], folder: Path) -> None:
        self.words = words
        self.out, self.err = folder / "out", folder / "err"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def start(self) -> int:
        """Start a process and return its id."""
        assert self._process.stdin is not None
        self.err.write_text("")
        request = {"words": self.words, "out": str(self.out), "err": str(self.err)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> int:
        """Wait for the process; return its exit code or the negative of the signal."""
        return self._answer()

    def killed(self, chance: random.Random, *, most: int, pause: float) -> None:
        """Start a process and kill it at a random time after it has reported up to ``most`` runs.

        Half of the kills are SIGTERM, which service managers send first.
        """
        child, wanted = self.start(), chance.randrange(0, most)
        deadline = time.monotonic() + 240
        while len(self.reports()) < wanted:
            lines = self.error_lines()
            assert not any(line.startswith("Traceback") for line in lines), lines
            assert time.monotonic() < deadline, lines
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, pause))
        sign = chance.choice((signal.SIGKILL, signal.SIGTERM))
        os.kill(child, sign)
        assert self.end() == -sign

    def error_lines(self) -> list[str]:
        return self.err.read_text().splitlines(keepends=True)

    def reports(self) -> list[str]:
        return [
            line for line in self.error_lines() if line.startswith("saved ") and line.endswith("\n")
        ]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def serve(call: Called) -> None:
    gc.collect()
    gc.freeze()  # otherwise each collection in a child would copy it all
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(call, request)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(call: Called, request: dict[str, object]) -> None:
    for name, descriptor in (("out", 1), ("err", 2)):
        file = os.open(str(request[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
    words = request["words"]
    assert isinstance(words, list)
    code = 1
    try:
        code = call(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def check_new_runs(
    library: Library, nursery: Nursery, done: dict[PlaceInPlan, str], jobs: dict[PlaceInPlan, str]
) -> None:
    """Check that every reported run is stored with its baseline, and that none is lost."""
    new = len(jobs) - len(done)
    assert len(nursery.reports()) <= new <= len(nursery.reports()) + 1
    assert jobs.items() >= done.items()
    assert all(library.open(jobs[place]).baseline for place in jobs.keys() - done.keys())


def forget_runs(library: Library) -> None:
    """Delete all runs; no process may have the library open."""
    for each in library.path.parent.glob(f"{library.path.name}*"):
        each.unlink()


if __name__ == "__main__":
    serve(importlib.import_module(sys.argv[1]).prepare(*sys.argv[2:]))
