"""Stop work in progress from any thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class StoppedError(Exception):
    """Raised when the work was stopped on request."""


class Stoppable(Protocol):
    def stop(self) -> None: ...


class Activity(Stoppable, Protocol):
    @property
    def doing(self) -> str:
        """Return the current activity for a status line, or an empty string."""
        ...


Part = TypeVar("Part", bound=Stoppable)


class StoppableWork:
    """Work that can be stopped for good; a stop also stops the parts that have begun."""

    def __init__(self) -> None:
        self._stopped = False
        self._parts: list[Stoppable] = []

    def stop(self) -> None:
        self._stopped = True
        for part in tuple(self._parts):
            part.stop()

    def _check_stop(self) -> None:
        if self._stopped:
            raise StoppedError

    def _begin(self, part: Part) -> Part:
        """Register a part and return it. From then on, ``stop`` also stops the part.

        If the work is already stopped, stop the part and raise StoppedError.
        """
        self._parts.append(part)
        if self._stopped:
            part.stop()
            raise StoppedError
        return part

    @contextmanager
    def _stopped_instead_of(self, failure: type[Exception]) -> Iterator[None]:
        """Convert ``failure`` to StoppedError if the work was stopped."""
        self._check_stop()
        try:
            yield
        except failure:
            self._check_stop()
            raise
