"""Run one task on several threads at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock

_LOCK = Lock()  # two concurrent calls would deadlock on the shared pool


def run_in_parallel(threads: int, task: Callable[[int], None]) -> None:
    """Call ``task(0)`` to ``task(threads - 1)``, one call per thread, and wait for all calls."""
    if threads == 1:
        task(0)
        return
    with _LOCK:
        futures = [_pool(threads).submit(task, number) for number in range(1, threads)]
        task(0)
        for future in futures:
            future.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="kernel")
