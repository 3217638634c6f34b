"""Ctrl-C during a command, and the line that shows what the command is waiting for."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from specviz.cli.terminal_text import one_line


class Stoppable(Protocol):
    def stop(self) -> None: ...


@dataclass(slots=True)
class Interrupts:
    """How often Ctrl-C was pressed, and whether the first one already raises."""

    count: int = 0
    at_once: bool = False


@contextlib.contextmanager
def stop_on_interrupt(run: Stoppable) -> Iterator[Interrupts]:
    """The first Ctrl-C asks the run to stop, the next raises KeyboardInterrupt."""
    interrupts = Interrupts()

    def on_interrupt(_signal: int, _frame: object) -> None:
        interrupts.count += 1
        run.stop()
        if interrupts.at_once or interrupts.count > 1:
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, former)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Show a line on standard error meanwhile, if it is a terminal; yields a way to change it."""
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
