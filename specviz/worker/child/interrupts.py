"""Breaks off what the main thread measures, from the thread that listens.

The way of Ctrl-C: a simulated SIGINT, whose handler raises in the main thread, but only
inside ``until`` and only once its reason holds. A real Ctrl-C in the terminal is for the
parent: here it does nothing.
"""

from __future__ import annotations

import _thread
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(BaseException):
    """The work in hand is no longer wanted. No ``Exception``: libraries catch those."""


class Interrupts:
    """Made in the main thread; ``poke`` is for any other."""

    def __init__(self) -> None:
        self._reason: Callable[[], bool] | None = None
        signal.signal(signal.SIGINT, self._on_signal)

    @contextmanager
    def until(self, reason: Callable[[], bool]) -> Iterator[None]:
        """Raise ``Interrupted`` inside as soon as the reason holds and a poke comes."""
        self._reason = reason
        try:
            if reason():
                raise Interrupted
            yield
        except Interrupted:
            gc.enable()  # a timed block may have been left before it could
            raise
        finally:
            self._reason = None

    def poke(self) -> None:
        _thread.interrupt_main()

    def _on_signal(self, _signal: int, _frame: object) -> None:
        if self._reason is not None and self._reason():
            self._reason = None
            raise Interrupted
