"""Progress while a pair is loaded or measured, told in lines."""

from __future__ import annotations

from collections.abc import Callable

from specviz.record.pairs import Progress, ProgressCallback


def progress_in_lines(say: Callable[[str], None]) -> ProgressCallback:
    """Say a text once, however often it is reported; a download has a new one every 10 %."""
    said = ""

    def tell(progress: Progress) -> None:
        nonlocal said
        if progress.text != said:
            said = progress.text
            say(said)

    return tell


def progress_once(line: str, say: Callable[[str], None]) -> ProgressCallback:
    """Say the line at the first report and nothing later: for output that cannot be overwritten."""
    said = False

    def tell(_progress: Progress) -> None:
        nonlocal said
        if not said:
            said = True
            say(line)

    return tell
