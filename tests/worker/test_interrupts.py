"""Work is broken off only inside ``until``, and only for its reason."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from specviz.worker.child.interrupts import Interrupted, Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    former = signal.getsignal(signal.SIGINT)
    yield Interrupts()
    signal.signal(signal.SIGINT, former)


def work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)


def test_a_poke_from_another_thread_breaks_off_the_work(interrupts: Interrupts) -> None:
    wanted = threading.Event()

    def later() -> None:
        interrupts.poke()  # without the reason: nothing
        time.sleep(0.05)
        wanted.set()
        interrupts.poke()

    thread = threading.Thread(target=later)
    began = time.monotonic()
    thread.start()
    with pytest.raises(Interrupted), interrupts.until(wanted.is_set):
        work(5.0)
    assert 0.04 < time.monotonic() - began < 1.0
    thread.join()


def test_outside_a_poke_does_nothing(interrupts: Interrupts) -> None:
    with interrupts.until(lambda: False):
        pass
    interrupts.poke()
    work(0.01)


def test_a_reason_that_holds_already_lets_nothing_begin(interrupts: Interrupts) -> None:
    begun = False
    with pytest.raises(Interrupted), interrupts.until(lambda: True):
        begun = True
    assert not begun


def test_a_timed_block_that_is_left_early_does_not_leave_collection_off(
    interrupts: Interrupts,
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
    """Its finalizer swallows whatever is raised in it, as Python does for all of them."""

    def __init__(self, begin: threading.Event) -> None:
        self._begin = begin

    def __del__(self) -> None:
        self._begin.set()
        work(0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_poke_that_falls_into_a_finalizer_is_not_lost(interrupts: Interrupts) -> None:
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
    assert time.monotonic() - began < 2.0
    thread.join()
