"""Report the progress of loading and measuring in lines of text."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

from specviz.cli.terminal_text import one_line
from specviz.record.pairs import Progress, ProgressCallback

_INTERVAL = 5.0  # seconds


def say(line: str) -> None:
    """Print a line to standard error."""
    print(one_line(line), file=sys.stderr, flush=True)


def progress_in_lines(say: Callable[[str], None]) -> ProgressCallback:
    """Return a progress callback that passes a text to ``say`` only when it has changed."""
    last = ""

    def on_progress(progress: Progress) -> None:
        nonlocal last
        if progress.text != last:
            last = progress.text
            say(last)

    return on_progress


def progress_once(line: str, say: Callable[[str], None]) -> ProgressCallback:
    """Return a progress callback that passes ``line`` to ``say`` once, at the first report."""
    printed = False

    def on_progress(_progress: Progress) -> None:
        nonlocal printed
        if not printed:
            printed = True
            say(line)

    return on_progress


def at_intervals(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes its first text to ``say``, then at most one text per 5 s.

    All other texts are dropped.
    """
    said = -math.inf

    def say_sometimes(text: str) -> None:
        nonlocal said
        if time.monotonic() - said >= _INTERVAL:
            said = time.monotonic()
            say(text)

    return say_sometimes
