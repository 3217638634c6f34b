"""Worker processes that start at once: forked from one that has the models' libraries loaded.

For tests that only need a worker. Those that ask for ``real_start`` see one start as users do, and
so do the tests in the browser.

``python -m tests.ready_workers FD`` serves the socket FD. A message brings an environment and three
descriptors: the worker's link, its standard error, and where its keeper, which waits for it, tells
its id and at last its exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import pytest

from specviz import ROOT
from specviz.worker.parent import link

_LARGEST = 2**17  # bytes of an environment


class ForkedProcess:
    """As much of ``Popen`` as a link needs."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = self._answer()

    def wait(self, timeout: float | None = None) -> int:
        self._answers.settimeout(timeout)
        try:
            return self._answer()
        except TimeoutError:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0) from None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def _answer(self) -> int:
        told = self._answers.recv(16)
        assert told, "what forks the workers has ended"
        return int(told)


class _Nursery:
    """Forks as soon as it has loaded the libraries, which begins with the first worker."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.ready_workers", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
            )
        atexit.register(self._end)

    def fork(self, worker: int) -> ForkedProcess:
        answers, keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with keeper:
            environment = json.dumps(dict(os.environ)).encode()
            socket.send_fds(self._requests, [environment], [worker, 2, keeper.fileno()])
        return ForkedProcess(answers)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


_the_nursery = cache(_Nursery)


def fork_workers(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> None:
    """From now on every worker process that starts is forked, unless the test asks otherwise."""
    if "real_start" not in request.fixturenames:
        patch.setattr(link, "_start", lambda descriptor: _the_nursery().fork(descriptor))


def serve(requests: socket.socket) -> None:
    _prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, 3)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(message), *descriptors)
        for each in descriptors:
            os.close(each)


def _prepare() -> None:
    """Load all that a worker loads by itself before its first run, and the embedded pair's code."""
    from specviz.engine import load_pair
    from specviz.record.pairs import PairSpec
    from specviz.worker.child import process

    assert process.main
    load_pair(PairSpec(name="tinystories", threads=1))
    assert len(list(Path("/proc/self/task").iterdir())) == threading.active_count() == 1
    gc.collect()
    gc.freeze()  # or each child would copy all of that for every collection


def _keep(environment: dict[str, str], worker: int, errors: int, told: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(told)
        _work(environment, worker, errors)
    os.close(worker)
    os.write(told, str(child).encode())
    _, status = os.waitpid(child, 0)
    os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _work(environment: dict[str, str], worker: int, errors: int) -> None:
    from specviz.worker.child.process import main

    os.dup2(errors, 2)
    os.close(errors)
    os.environ.clear()
    os.environ.update(environment)
    main(worker)
    os._exit(1)  # it ends with its link and not by itself


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
