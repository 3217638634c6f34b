"""Compiling in a process of its own, while this one imports its libraries. Imports no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from functools import cache

from specviz import ROOT
from specviz.kernels.kept_code import is_missing

_MOST_SECONDS = 120.0

_processes: list[subprocess.Popen[bytes]] = []


@cache
def compile_ahead() -> None:
    """Start it, once in a process, unless the code is kept already or cannot be."""
    if not is_missing():
        return
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "specviz.kernels"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )
        _processes.append(process)


def wait_for_it() -> None:
    """Until no such process of this one runs; one that takes too long is killed."""
    for process in _processes:
        try:
            process.wait(_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
