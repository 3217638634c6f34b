"""What is told while a pair is made ready or measured, as lines."""

from __future__ import annotations

from collections.abc import Callable

from specviz.record.pairs import Progress, Tell


def tell_in_lines(say: Callable[[str], None]) -> Tell:
    """Say each text once, however often it is told; a download's changes with every tenth."""
    said = ""

    def tell(progress: Progress) -> None:
        nonlocal said
        if progress.text != said:
            said = progress.text
            say(said)

    return tell


def tell_once(line: str, say: Callable[[str], None]) -> Tell:
    """Say the line at the first word, and nothing after: for where no line can be changed."""
    said = False

    def tell(_progress: Progress) -> None:
        nonlocal said
        if not said:
            said = True
            say(line)

    return tell
