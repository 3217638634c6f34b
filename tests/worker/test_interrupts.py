"""Tasks are interrupted only inside ``until``, and only if its condition is true."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from specviz.worker.child import interrupts as interrupts_module
from specviz.worker.child.interrupts import Interrupted, TaskInterrupts


@pytest.fixture
def interrupts() -> Iterator[TaskInterrupts]:
    former = signal.getsignal(signal.SIGINT)
    yield TaskInterrupts()
    signal.signal(signal.SIGINT, former)


def work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)


def test_poke_from_another_thread_interrupts(interrupts: TaskInterrupts) -> None:
    wanted = threading.Event()

    def later() -> None:
        interrupts.poke()  # the condition is false, so nothing happens
        time.sleep(0.05)
        wanted.set()
        interrupts.poke()

    thread = threading.Thread(target=later)
    began = time.monotonic()
    thread.start()
    with pytest.raises(Interrupted), interrupts.until(wanted.is_set):
        work(5.0)
    assert 0.04 < time.monotonic() - began < 4.0
    thread.join()


def test_an_import_in_progress_is_finished_first(
    interrupts: TaskInterrupts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.3)\nDONE = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    wanted = threading.Event()

    def later() -> None:
        while "slow_to_import" not in sys.modules:  # until the import is in progress
            time.sleep(0.001)
        wanted.set()
        interrupts.poke()

    thread = threading.Thread(target=later)
    thread.start()
    imported: list[Any] = []

    def import_and_work() -> None:
        imported.append(import_module("slow_to_import"))
        work(5.0)

    with pytest.raises(Interrupted), interrupts.until(wanted.is_set):
        import_and_work()
    assert imported[0].DONE
    thread.join()


def test_a_log_record_in_progress_is_finished_first(interrupts: TaskInterrupts) -> None:
    """An interrupted handler would keep its lock, and the next record would wait for ever."""
    wanted, written = threading.Event(), list[str]()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            wanted.set()
            interrupts.poke()
            work(0.05)
            written.append(record.getMessage())

    logger = logging.getLogger("specviz.test_interrupts")
    logger.addHandler(handler := Slow())

    def log_and_work() -> None:
        logger.error("whole")
        work(5.0)

    with pytest.raises(Interrupted), interrupts.until(wanted.is_set):
        log_and_work()
    logger.removeHandler(handler)
    assert written == ["whole"]
    assert handler.lock is not None
    assert handler.lock.acquire(timeout=1.0)
    handler.lock.release()


def test_poke_outside_until_does_nothing(interrupts: TaskInterrupts) -> None:
    with interrupts.until(lambda: False):
        pass
    interrupts.poke()
    work(0.01)


def test_true_condition_prevents_the_block(interrupts: TaskInterrupts) -> None:
    begun = False
    with pytest.raises(Interrupted), interrupts.until(lambda: True):
        begun = True
    assert not begun


def test_interrupted_timing_turns_garbage_collection_on_again(
    interrupts: TaskInterrupts,
) -> None:
    wanted = threading.Event()

    def half_a_block() -> None:
        gc.disable()
        wanted.set()
        interrupts.poke()
        work(1.0)

    try:
        with pytest.raises(Interrupted), interrupts.until(wanted.is_set):
            half_a_block()
        assert gc.isenabled()
    finally:
        gc.enable()


class Careless:
    """Python swallows exceptions in its finalizer, as in any."""

    def __init__(self, begin: threading.Event) -> None:
        self._begin = begin

    def __del__(self) -> None:
        self._begin.set()
        work(0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_poke_during_a_finalizer_is_not_lost(interrupts: TaskInterrupts) -> None:
    wanted = threading.Event()

    def poke_in_finalizer() -> None:
        wanted.wait(5.0)
        interrupts.poke()

    thread = threading.Thread(target=poke_in_finalizer)

    def swallow_then_work() -> None:
        swallowing = Careless(wanted)
        del swallowing
        work(5.0)

    thread.start()
    began = time.monotonic()
    with pytest.raises(Interrupted), interrupts.until(wanted.is_set):
        swallow_then_work()
    assert time.monotonic() - began < 4.0
    thread.join()


@pytest.mark.parametrize("number", range(1, 10))
def test_a_signal_while_a_block_ends_does_not_leave_it_open(
    interrupts: TaskInterrupts, number: int
) -> None:
    """Nothing after the block is interrupted, although the reason remains."""
    waiting: list[str] = []
    lines = count(1)

    def signal_at_a_line(frame: FrameType, event: str, _: object) -> Any:
        is_edge = frame.f_code.co_name in ("until", "__enter__", "__exit__")
        if waiting and is_edge and event == "line" and next(lines) == number:
            signal.raise_signal(signal.SIGINT)
        is_ours = frame.f_code.co_filename == interrupts_module.__file__
        return signal_at_a_line if is_ours else None

    def be_interrupted() -> None:
        sys.settrace(signal_at_a_line)
        try:
            with interrupts.until(lambda: bool(waiting)):
                waiting.append("a request")
                signal.raise_signal(signal.SIGINT)
        finally:
            sys.settrace(None)

    with pytest.raises(Interrupted):
        be_interrupted()
    signal.raise_signal(signal.SIGINT)
