"""Dummy studies that run in the worker process and behave as a test needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.errors import ConfigError
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair


class Counting(Value):
    """Counts; after some values it pauses, or fails."""

    count: int
    seconds: float = 0.0  # of silence after each
    fails: str = ""
    label: str = "counting"

    def find(self, pair: Pair) -> Iterator[object]:
        for number in range(self.count):
            yield number, pair.info.name
            _work(self.seconds)
        match self.fails:
            case "foreseen":
                raise ConfigError("Too much was counted.", remedy="Count less.")
            case "unforeseen":
                raise ZeroDivisionError("counted\nto nothing")
            case "unreadable":
                raise PermissionError(13, "Permission denied", "/secret/place")
            case "unsendable":
                function: Callable[[], None] = lambda: None  # noqa: E731
                yield function
            case _:
                pass


class Saving(Value):
    """Counts, and writes the last number into a file when it is closed."""

    file: str
    seconds: float
    label: str = "saving"
    saves: bool = True

    def find(self, pair: Pair) -> Generator[object]:
        number, whole = 0, True
        try:
            while True:
                whole = False
                _work(self.seconds)
                number, whole = number + 1, True
                yield number, pair.info.name
        finally:
            _work(self.seconds)  # a second stop signal must not interrupt the writing
            Path(self.file).write_text(f"{number} {whole}", encoding="utf-8")


def _work(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
