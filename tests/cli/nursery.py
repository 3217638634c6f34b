"""Command lines that start at once, each a process of its own: ``python -m tests.cli.nursery``.

Forked from one process that has its libraries loaded. For each line of standard input, an
object with ``arguments`` and the files ``out`` and ``err``, it prints the new process's id and,
when that has ended, how: its exit code, or the negative of the signal that killed it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys

import torch

from specviz.cli import main
from specviz.engine import load_pair


def serve() -> None:
    torch.set_num_threads(1)
    load_pair(threads=1)  # for the libraries it imports
    for name in ("comparing", "keeping", "lab.comparison"):
        importlib.import_module(f"specviz.{name}")
    gc.collect()
    gc.freeze()  # or each child would copy all of that for every collection
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _obey(asked)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _obey(asked: dict[str, object]) -> None:
    for name, descriptor in (("out", 1), ("err", 2)):
        file = os.open(str(asked[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
    arguments = asked["arguments"]
    assert isinstance(arguments, list)
    code = main(arguments)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
