"""The end of the server: runs in progress are stored, even if a connection does not close.

At a signal, the server first waits until its connections have closed. A client may never close its
connection. So a thread stores the runs from the signal on, without waiting for the connections. The
shutdown itself waits only for this thread.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType

_SIGNALS = ("SIGTERM", "SIGINT")


class Ending:
    """Calls ``store`` once in a thread: at the first signal or, if no signal came, in ``wait``."""

    def __init__(self, store: Callable[[], None]) -> None:
        self._store = store
        self._thread: Thread | None = None

    def begin(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._store, name="store runs")
            self._thread.start()

    def wait(self) -> None:
        """Wait until everything is stored. If no signal came, begin to store."""
        self.begin()
        assert self._thread is not None
        self._thread.join()

    @contextmanager
    def at_signals(self) -> Iterator[None]:
        """Within the block, begin to store at a signal, then call the server's own handler."""
        before = dict(self._installed())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _installed(self) -> Iterator[tuple[signal.Signals, signal._HANDLER]]:
        for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
            with suppress(ValueError):  # not the main thread, so another program owns the signals
                handler = signal.getsignal(number)
                signal.signal(number, self._before(handler))
                yield number, handler

    def _before(self, handler: signal._HANDLER) -> Callable[[int, FrameType | None], None]:
        def on_signal(number: int, frame: FrameType | None) -> None:
            self.begin()
            if callable(handler):
                handler(number, frame)

        return on_signal
