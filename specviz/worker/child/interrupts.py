"""Interrupt measurements on the main thread from the inbox thread.

This works like Ctrl-C: the handler of a simulated SIGINT raises in the main thread, but only inside
``until`` and only if the block's condition is true. A real Ctrl-C in the terminal is meant for the
parent and does nothing here. If Python swallows the exception, as in a finalizer, it is raised
again.
"""

from __future__ import annotations

import _thread
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

_AGAIN = 0.25  # seconds until the next attempt, if the exception was swallowed


class Interrupted(BaseException):
    """The current task is interrupted. Not an ``Exception``, because libraries catch those."""


class TaskInterrupts:
    """Raises ``Interrupted`` in the main thread. Create it there; poke it from other threads."""

    def __init__(self) -> None:
        self._reason: Callable[[], bool] | None = None
        signal.signal(signal.SIGINT, self._on_signal)

    @contextmanager
    def until(self, reason: Callable[[], bool]) -> Iterator[None]:
        """Raise ``Interrupted`` inside the block at the first poke at which ``reason`` is true."""
        self._reason = reason
        try:
            if reason():
                raise Interrupted
            yield
        except Interrupted:
            gc.enable()  # a timed block may have left garbage collection off
            raise
        finally:
            self._reason = None

    def poke(self) -> None:
        _thread.interrupt_main()
        if self._is_wanted():
            again = Timer(_AGAIN, self._poke_again)
            again.daemon = True
            again.start()

    def _poke_again(self) -> None:
        if self._is_wanted():
            self.poke()

    def _is_wanted(self) -> bool:
        reason = self._reason
        return reason is not None and reason()

    def _on_signal(self, _signal: int, _frame: object) -> None:
        if self._is_wanted():
            raise Interrupted
