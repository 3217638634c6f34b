"""Interrupt measurements on the main thread from the inbox thread.

This works like Ctrl-C: the handler of a simulated SIGINT raises in the main thread, but only inside
an ``until`` block whose condition is true. A real Ctrl-C in the terminal is meant for the parent
and does nothing here. If Python swallows the exception (in a finalizer, for example), the exception
is raised again.
"""

from __future__ import annotations

import _thread
import gc
import logging
import signal
from collections.abc import Callable
from threading import Timer
from types import FrameType

_AGAIN = 0.25  # seconds until the next attempt, if the exception was swallowed


class Interrupted(BaseException):
    """Raised to interrupt a task. Not an ``Exception``, because libraries catch exceptions."""


class TaskInterrupts:
    """Interrupts the main thread while it is in an ``until`` block.

    Create this object in the main thread; call ``poke`` in other threads to interrupt it.
    """

    def __init__(self) -> None:
        self.reason: Callable[[], bool] | None = None
        signal.signal(signal.SIGINT, self._on_signal)

    def until(self, reason: Callable[[], bool]) -> _Until:
        """Return a context in which ``poke`` raises ``Interrupted`` if ``reason()`` is true."""
        return _Until(self, reason)

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
        reason = self.reason
        return reason is not None and reason()

    def _on_signal(self, _signal: int, frame: FrameType | None) -> None:
        if self._is_wanted() and not _is_at_edge(frame):
            raise Interrupted


class _Until:
    """A context manager whose block can be interrupted, while its entry and exit cannot.

    Otherwise, a second signal during the exit of an interrupted block would leave ``reason`` set,
    and a third signal would interrupt the code after the block.
    """

    def __init__(self, interrupts: TaskInterrupts, reason: Callable[[], bool]) -> None:
        self._interrupts = interrupts
        self._reason = reason

    def __enter__(self) -> None:
        self._interrupts.reason = self._reason
        if self._reason():
            self._interrupts.reason = None
            raise Interrupted

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        self._interrupts.reason = None
        if isinstance(error, Interrupted):
            gc.enable()  # a timed block may have left garbage collection off


_WHOLE = ("<frozen importlib", logging.__file__)
_EDGES = {_Until.__enter__.__code__, _Until.__exit__.__code__}


def _is_at_edge(frame: FrameType | None) -> bool:
    """Return whether the frame is in an entry or exit of ``_Until``, an import, or a log call.

    A library whose import was interrupted would stay half imported, and an interrupted log record
    would keep the lock of all loggers.
    """
    while frame is not None:
        code = frame.f_code
        if code in _EDGES or code.co_filename.startswith(_WHOLE):
            return True
        frame = frame.f_back
    return False
