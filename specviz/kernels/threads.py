"""One piece of work done by several threads together, each with its number."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock

_ONE_AT_A_TIME = Lock()  # two would wait for each other's threads


def run_in_parallel(threads: int, work: Callable[[int], None]) -> None:
    """Call ``work`` with each number below ``threads``, all at the same time."""
    if threads == 1:
        work(0)
        return
    with _ONE_AT_A_TIME:
        others = [_helpers(threads).submit(work, number) for number in range(1, threads)]
        work(0)
        for each in others:
            each.result()


@cache
def _helpers(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="kernel")
