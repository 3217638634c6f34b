"""Tasks of the idle worker wait for the kernels; a request interrupts the wait."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from specviz.record.pairs import COMPILING, PairSpec
from specviz.worker.child import idle_tasks
from specviz.worker.child.idle_tasks import IdleTasks
from specviz.worker.child.interrupts import TaskInterrupts
from specviz.worker.messages import Doing, Event

SPEC = PairSpec()


class Idle:
    """An idle worker with one task for a pair that lacks its kernels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pair = SimpleNamespace(lacks_kernels=True, draft_kind="", draft=None)
        self.events: list[Event] = []
        self.measured: list[bool] = []  # whether the pair lacked its kernels
        self.requested = threading.Event()
        self.interrupts = TaskInterrupts()
        pairs = SimpleNamespace(get=lambda _spec: self.pair, add_kernels=self._add_kernels)
        inbox = SimpleNamespace(waiting=self.requested.is_set)
        self.tasks = IdleTasks(
            self.events.append, cast("Any", inbox), self.interrupts, cast("Any", pairs)
        )
        monkeypatch.setattr(idle_tasks, "mend_step_costs", self._measure)
        self.tasks.mend_costs(SPEC, cast("Any", SimpleNamespace()))

    def _add_kernels(self, _spec: PairSpec) -> None:
        self.pair.lacks_kernels = False

    def _measure(self, pair: Any, *_arguments: object) -> None:
        self.measured.append(pair.lacks_kernels)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Idle]:
    former = signal.getsignal(signal.SIGINT)
    yield Idle(monkeypatch)
    signal.signal(signal.SIGINT, former)


def test_step_costs_are_measured_only_with_the_kernels(
    idle: Idle, compiling: subprocess.Popen[bytes]
) -> None:
    threading.Timer(0.3, compiling.terminate).start()
    idle.tasks.work()
    assert idle.measured == [False]
    assert not idle.tasks
    assert idle.events == [Doing(progress=COMPILING), Doing(progress=None)]


def test_a_request_interrupts_the_wait(idle: Idle, compiling: subprocess.Popen[bytes]) -> None:
    def request() -> None:
        idle.requested.set()
        idle.interrupts.poke()

    began = time.monotonic()
    threading.Timer(0.2, request).start()
    idle.tasks.work()
    assert time.monotonic() - began < 30
    assert compiling.poll() is None
    assert idle.measured == []
    assert idle.tasks
    assert idle.events[-1] == Doing(progress=None)
