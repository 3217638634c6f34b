"""A command that is killed at any moment and started again."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from specviz.store import Library
from tests.ready_processes import ForkedProcess, fork

PlaceInPlan = tuple[int, int, int]


class KilledCommand:
    """Calls ``module:function`` with ``words`` repeatedly, each time in a process.

    A complete line of standard error that begins with "saved" reports a run.
    """

    def __init__(self, name: str, *, words: list[str], folder: Path) -> None:
        self.words = words
        self.out, self.err = folder / "out", folder / "err"
        self._name = name

    def start(self) -> ForkedProcess:
        with self.out.open("w") as out, self.err.open("w") as err:
            places = {1: out.fileno(), 2: err.fileno()}
            return fork(self._name, self.words, descriptors=places)

    def kill_once(self, chance: random.Random, *, most: int, pause: float) -> None:
        """Start a process and kill it at a random time after it has reported up to ``most`` runs.

        Half of the kills are SIGTERM, which service managers send first.
        """
        process, wanted = self.start(), chance.randrange(0, most)
        deadline = time.monotonic() + 240
        while len(self.reports()) < wanted:
            lines = self.error_lines()
            assert not any(line.startswith("Traceback") for line in lines), lines
            assert time.monotonic() < deadline, lines
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, pause))
        sign = chance.choice((signal.SIGKILL, signal.SIGTERM))
        os.kill(process.pid, sign)
        assert process.wait() == -sign

    def error_lines(self) -> list[str]:
        return self.err.read_text().splitlines(keepends=True)

    def reports(self) -> list[str]:
        return [
            line for line in self.error_lines() if line.startswith("saved ") and line.endswith("\n")
        ]


def check_new_runs(
    library: Library,
    command: KilledCommand,
    done: dict[PlaceInPlan, str],
    jobs: dict[PlaceInPlan, str],
) -> None:
    """Check that every reported run is stored with its baseline, and that none is lost."""
    new = len(jobs) - len(done)
    assert len(command.reports()) <= new <= len(command.reports()) + 1
    assert jobs.items() >= done.items()
    assert all(library.open(jobs[place]).baseline for place in jobs.keys() - done.keys())


def forget_runs(library: Library) -> None:
    """Delete all runs; no process may have the library open."""
    for each in library.path.parent.glob(f"{library.path.name}*"):
        each.unlink()
