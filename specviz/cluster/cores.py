"""Exclusive CPU cores for a process, on Linux.

Ray counts cores but does not pin threads to them. So each device process locks its cores and pins
its threads to these cores. The locks hold for all clusters on the machine, so that no two device
processes use the same core. The kernel releases the locks when the process ends.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Collection
from pathlib import Path

from specviz.errors import DeviceError

_PATIENCE = 10.0  # seconds for an ended process to release its cores
_PAUSE = 0.1


class Cores:
    """CPU cores that this process locked and pinned its threads to, until ``release``.

    Args:
        count: How many cores to lock.
        among: The cores to choose from, by default those the process may run on.
    """

    def __init__(self, count: int, among: Collection[int] | None = None) -> None:
        _require_linux()
        self._locks: dict[int, socket.socket] = {}
        self._among = sorted(os.sched_getaffinity(0) if among is None else among)
        self._take(count)
        self.numbers = tuple(self._locks)
        self._pin()

    @property
    def hold(self) -> bool:
        """Return whether every thread of the process is pinned to exactly the locked cores."""
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
                    f"{socket.gethostname()} does not have {count} of its {len(self._among)} cores "
                    "free: other devices use the rest.",
                    remedy="Give its node fewer CPUs, use fewer threads, or end the other devices.",
                )
            time.sleep(_PAUSE)

    def _pin(self) -> None:
        """Pin all threads of the process; new threads inherit the affinity."""
        for each in _threads():
            try:
                os.sched_setaffinity(each, self.numbers)
            except ProcessLookupError:
                continue  # the thread has ended


def machine() -> str:
    """Return the machine's boot id, which all of its processes see, also in containers."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _lock(core: int) -> socket.socket | None:
    """Lock a core by binding a socket to a name for it; return None if it is already locked."""
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
            f"Processes cannot have exclusive cores on {sys.platform}.",
            remedy="Run the nodes of the cluster on Linux.",
        )
