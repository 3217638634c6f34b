"""The end of the server: unfinished runs are stored once, at the signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from specviz.ui.ending import Ending


@pytest.fixture
def quiet() -> Iterator[list[int]]:
    """Handle SIGTERM with a list, as the server would."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)


def test_a_signal_begins_to_store_and_reaches_the_server(quiet: list[int]) -> None:
    stored = Event()
    ending = Ending(stored.set)
    with ending.at_signals():
        signal.raise_signal(signal.SIGTERM)
        assert stored.wait(5)
        assert quiet == [signal.SIGTERM]
    signal.raise_signal(signal.SIGTERM)
    assert len(quiet) == 2  # the server's handler is back


def test_everything_is_stored_once(quiet: list[int]) -> None:
    calls: list[int] = []
    ending = Ending(lambda: calls.append(1))
    with ending.at_signals():
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        ending.wait()
    ending.wait()
    assert calls == [1]


def test_without_a_signal_the_shutdown_stores() -> None:
    calls: list[int] = []
    Ending(lambda: calls.append(1)).wait()
    assert calls == [1]


def test_outside_the_main_thread_signals_stay_as_they_are() -> None:
    found: list[object] = []

    def serve() -> None:
        with Ending(lambda: None).at_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = Thread(target=serve)
    thread.start()
    thread.join()
    assert found == [before]
