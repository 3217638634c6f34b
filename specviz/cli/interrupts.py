"""Ctrl-C during a command, and the line that shows what the command is waiting for."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specviz.cli.terminal_text import one_line
from specviz.measure.stoppable import Stoppable


@dataclass(slots=True)
class Interrupts:
    """Counts how often Ctrl-C was pressed.

    If ``at_once`` is set, the next Ctrl-C raises KeyboardInterrupt.
    """

    count: int = 0
    at_once: bool = False


@contextlib.contextmanager
def stop_on_interrupt(run: Stoppable) -> Iterator[Interrupts]:
    """In the ``with`` block, stop the run at the first Ctrl-C.

    The second Ctrl-C raises KeyboardInterrupt.
    """
    interrupts = Interrupts()

    def on_interrupt(_signal: int, _frame: object) -> None:
        interrupts.count += 1
        run.stop()
        if interrupts.at_once or interrupts.count > 1:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Show a status line if standard error is a terminal; yield a function to change the line."""
    shown = sys.stderr.isatty()

    def say(text: str) -> None:
        if shown:
            print(f"\r\x1b[K  {one_line(text)} …", end="", file=sys.stderr, flush=True)

    say(text)
    try:
        yield say
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
