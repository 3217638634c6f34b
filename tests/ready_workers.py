"""Worker processes that start quickly: forked from one with the models' libraries loaded.

For tests that only need a worker. Tests with the fixture ``real_start`` start it as users do, and
so do the browser tests.

``python -m tests.ready_workers FD`` serves the socket FD. A message brings an environment and three
descriptors: the worker's link, its standard error, and where its keeper, which waits for it, writes
its id and finally its exit code.
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
from tempfile import TemporaryDirectory

import pytest

from specviz import ROOT
from specviz.worker.parent import link

_LARGEST = 2**17  # bytes of an environment


class ForkedProcess:
    """The part of ``Popen`` that a link needs."""

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
        answer = self._answers.recv(16)
        assert answer, "the process that forks workers has ended"
        return int(answer)


class _Nursery:
    """Forks workers after loading the libraries, which starts with the first worker."""

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
    """Fork all worker processes, unless the test uses ``real_start``."""
    if "real_start" not in request.fixturenames:
        patch.setattr(link, "_start", lambda descriptor: _the_nursery().fork(descriptor))


def serve(requests: socket.socket) -> None:
    _prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
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
    """Load what workers load before a run, for the embedded pair and for models in folders."""
    from tqdm import tqdm

    from specviz.engine import load_pair
    from specviz.engine.decoding import cost_columns
    from specviz.record.pairs import PairSpec
    from specviz.worker.child import process
    from tests.engine.models import write_pair

    assert process.main
    cost_columns._WARM_UP = 0.0  # measures a tiny pair roughly, in a third of the time
    load_pair(PairSpec(name="tinystories", threads=1))
    tqdm.monitor_interval = 0  # threads, also those of the tokenizers, would make forking unsafe
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with TemporaryDirectory() as folder:
        write_pair(Path(folder))
        load_pair(PairSpec(target=f"{folder}/target", draft=f"{folder}/draft", threads=1))
    assert len(list(Path("/proc/self/task").iterdir())) == threading.active_count() == 1
    gc.collect()
    gc.freeze()  # otherwise each collection in a child would copy it all


def _keep(environment: dict[str, str], worker: int, errors: int, exit_pipe: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(exit_pipe)
        _work(environment, worker, errors)
    os.close(worker)
    os.write(exit_pipe, str(child).encode())
    _, status = os.waitpid(child, 0)
    os.write(exit_pipe, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _work(environment: dict[str, str], worker: int, errors: int) -> None:
    from specviz.worker.child.process import main

    os.dup2(errors, 2)
    os.close(errors)
    os.environ.clear()
    os.environ.update(environment)
    main(worker)
    os._exit(1)  # not reached: the worker ends with its link


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
