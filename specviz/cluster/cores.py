"""Cores that a process has for itself, on Linux.

Ray counts cores and pins nothing. A process that wants some takes a lock on each, whoever else on
the machine runs devices of whatever cluster; the locks end with the process, however it ends. Then
all its threads are pinned to them.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Collection
from pathlib import Path

from specviz.errors import DeviceError

_PATIENCE = 10.0  # seconds for a process that was ended to let go of its cores
_PAUSE = 0.1


class Cores:
    """``numbers`` are taken and pinned to for as long as this is held."""

    def __init__(self, count: int, among: Collection[int] | None = None) -> None:
        _require_linux()
        self._locks: dict[int, socket.socket] = {}
        self._among = sorted(os.sched_getaffinity(0) if among is None else among)
        self._take(count)
        self.numbers = tuple(self._locks)
        self._pin()

    @property
    def hold(self) -> bool:
        """Whether every thread of the process is on these cores and on no other."""
        return all(set(os.sched_getaffinity(each)) == set(self.numbers) for each in _threads())

    def release(self) -> None:
        for lock in self._locks.values():
            lock.close()

    def _take(self, count: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            for core in self._among:
                if len(self._locks) < count and core not in self._locks:
                    lock = _lock(core)
                    self._locks |= {core: lock} if lock else {}
            if len(self._locks) == count:
                return
            if time.monotonic() > deadline or len(self._among) < count:
                self.release()
                raise DeviceError(
                    f"{socket.gethostname()} has no {count} cores free of its {len(self._among)}: "
                    "other devices have the rest.",
                    remedy="Give its node fewer CPUs, ask for fewer threads, or end the others.",
                )
            time.sleep(_PAUSE)

    def _pin(self) -> None:
        """Threads that come later inherit it."""
        for each in _threads():
            try:
                os.sched_setaffinity(each, self.numbers)
            except ProcessLookupError:
                continue  # it has ended


def machine() -> str:
    """The same for all processes of a machine as long as it runs, containers included."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _lock(core: int) -> socket.socket | None:
    """A name in the kernel, which a single process can have; None if another has it."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0specviz core {core}")
    except OSError:
        lock.close()
        return None
    return lock


def _threads() -> list[int]:
    return [int(each.name) for each in Path("/proc/self/task").iterdir()]


def _require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise DeviceError(
            f"A process cannot be given cores of its own on {sys.platform}.",
            remedy="Run the nodes of the cluster on Linux.",
        )
