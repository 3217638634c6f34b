"""Compile the kernels in a child process while this process imports its libraries.

This module imports no compiler.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from functools import cache
from threading import Timer

from specviz.folders import child_environment
from specviz.kernels.kept_code import is_missing

_MOST_SECONDS = 120.0

_processes: list[subprocess.Popen[bytes]] = []


@cache
def compile_ahead() -> None:
    """Start compiling in a child process, unless the kernels are cached or cannot be cached.

    A child process that takes over two minutes is killed.
    """
    if not is_missing():
        return
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "specviz.kernels"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
        )
        _processes.append(process)
        limit = Timer(_MOST_SECONDS, process.kill)
        limit.daemon = True
        limit.start()


def is_compiling() -> bool:
    """Return whether a child process is still compiling."""
    return any(process.poll() is None for process in _processes)


def wait_for_compilation() -> None:
    """Wait for the child processes that compile."""
    for process in _processes:
        process.wait()
