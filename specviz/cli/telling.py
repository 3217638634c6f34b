"""What is told while a pair is made ready, as lines."""

from __future__ import annotations

from collections.abc import Callable

from specviz.pairing import Progress, Tell


def in_lines(say: Callable[[str], None]) -> Tell:
    """Say each text once, however often it is told; a download's changes with every tenth."""
    said = ""

    def tell(progress: Progress) -> None:
        nonlocal said
        if progress.text != said:
            said = progress.text
            say(said)

    return tell
