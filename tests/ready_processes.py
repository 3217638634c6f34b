"""Processes that start quickly: forked from one with the libraries and models loaded.

For tests that only need a process. Tests with the fixture ``real_start`` start workers as users do,
and so do the browser tests.

``python -m tests.ready_processes FD`` serves the socket FD. A message brings a call and its
descriptors. To the first, the parent of the new process writes its id and finally its exit code.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from specviz import ROOT
from specviz.worker.parent import link

_LARGEST = 2**17  # bytes of a message
_MOST = 8  # descriptors of a message
_LINK = 9  # a worker's descriptor
_CALLED = (
    "specviz.cli",
    "specviz.comparison.comparison_job",
    "specviz.measure.run_makers",
    "specviz.worker.child.process",
    "tests.worker.ready_jobs",
)
_CLEAR = 64  # above every descriptor number that a call uses


class ForkedProcess:
    """The parts of ``Popen`` that a link and the tests need."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = self._answer()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code or the negative of the signal."""
        self._answers.settimeout(timeout)
        try:
            return self._answer()
        except TimeoutError:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0.0) from None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def _answer(self) -> int:
        answer = self._answers.recv(16)
        assert answer, "the process that forks the others has ended"
        return int(answer)


def fork(name: str, *arguments: object, descriptors: Mapping[int, int]) -> ForkedProcess:
    """Call ``module:function`` in a new process with this one's environment.

    Args:
        descriptors: The descriptors of this process by their numbers in the new one.
    """
    answers, waiter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    call = {"name": name, "arguments": arguments, "environment": dict(os.environ)}
    message = json.dumps(call | {"places": list(descriptors)}).encode()
    with waiter:
        files = [waiter.fileno(), *descriptors.values()]
        socket.send_fds(_fork_server(), [message], files)
    return ForkedProcess(answers)


def fork_workers(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> None:
    """Fork all worker processes, unless the test uses ``real_start``."""
    if "real_start" not in request.fixturenames:
        fork_workers_at(patch, "specviz.worker.child.process:main")


def fork_workers_at(patch: pytest.MonkeyPatch, name: str) -> None:
    """Fork all worker processes; ``name`` is the function that each of them calls."""

    def start(descriptor: int) -> ForkedProcess:
        return fork(name, _LINK, descriptors={_LINK: descriptor, 2: 2})

    patch.setattr(link, "_start", start)


@cache
def _fork_server() -> socket.socket:
    """Start the process that forks the others; return the socket for its messages."""
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ready_processes", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
        )

    def end() -> None:
        process.kill()
        process.wait()

    atexit.register(end)
    return requests


def serve(requests: socket.socket) -> None:
    _prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # waiters are not waited for
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, _MOST)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _wait_for(json.loads(message), *descriptors)
        for each in descriptors:
            os.close(each)


def _prepare() -> None:
    """Load what the embedded pair and models in folders need, and the command line."""
    from tqdm import tqdm

    from specviz.engine import load_pair
    from specviz.engine.decoding import cost_columns, costs
    from specviz.engine.loading.hardware import read_bandwidth
    from specviz.record.pairs import PairSpec
    from tests.engine.models import write_pair

    for each in _CALLED:
        importlib.import_module(each)
    # Measure a tiny pair without warm-up and each cost only once, as the fixture rough_costs does.
    cost_columns._WARM_UP = 0.0
    costs.measure_step_costs = partial(costs.measure_step_costs, repeats=1)
    read_bandwidth(load_pair(PairSpec(name="tinystories", threads=1)).device)  # once for all
    tqdm.monitor_interval = 0  # threads, also those of the tokenizers, would make forking unsafe
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with TemporaryDirectory() as folder:
        write_pair(Path(folder))
        load_pair(PairSpec(target=f"{folder}/target", draft=f"{folder}/draft", threads=1))
    assert len(list(Path("/proc/self/task").iterdir())) == threading.active_count() == 1
    gc.collect()
    gc.freeze()  # otherwise each collection in a child would copy it all


def _wait_for(call: dict[str, Any], exits: int, *descriptors: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(exits)
        _run(call, descriptors)
    for each in descriptors:
        os.close(each)
    os.write(exits, str(child).encode())
    _, status = os.waitpid(child, 0)
    os.write(exits, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(call: dict[str, Any], descriptors: tuple[int, ...]) -> None:
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, _CLEAR) for each in descriptors]
    for each in descriptors:
        os.close(each)
    for place, each in zip(call["places"], moved, strict=True):
        os.dup2(each, place)
        os.close(each)
    os.environ.clear()
    os.environ.update(call["environment"])
    code = 1
    try:
        code = pkgutil.resolve_name(call["name"])(*call["arguments"]) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
