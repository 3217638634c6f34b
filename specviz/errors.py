"""Errors that a user can cause. An error names the culprit and the remedy in one line.

``assert`` is for our own bugs. Only ``cli`` turns these errors into exit codes, and only ``ui``
turns them into messages on a page.
"""

from __future__ import annotations

from pathlib import Path

_LONGEST = 600  # characters of a culprit, which may quote a foreign file


class SpecvizError(Exception):
    """An error that the user can fix: ``culprit`` says what is wrong, ``remedy`` what to do."""

    def __init__(self, culprit: str, *, remedy: str) -> None:
        culprit = shortened(culprit)
        super().__init__(f"{culprit} {remedy}")
        self.culprit = culprit
        self.remedy = remedy

    @property
    def in_full(self) -> str:
        """Return the message for the command line, which may contain local paths."""
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.culprit, self.remedy))


class ConfigError(SpecvizError):
    """A setting, or a combination of settings, that is not valid."""


class PromptError(SpecvizError):
    """A prompt that cannot be continued."""


class PairError(SpecvizError):
    """A pair of models that cannot be loaded or cannot work together."""


class ModelFileError(PairError):
    """A model's file that is damaged, or that this version cannot read."""

    @classmethod
    def unreadable(cls, path: Path, error: OSError) -> ModelFileError:
        """Return the error for a file that the operating system failed to read."""
        return cls(
            f"{path.name} cannot be read: {error.strerror or error}.",
            remedy="Check the file and its permissions.",
        )


class DeviceError(SpecvizError):
    """A device that is missing or out of memory."""


class TraceError(SpecvizError):
    """A saved trace that cannot be read."""


class StoreError(SpecvizError):
    """A run library that cannot be read or written.

    ``path`` is the library's file. Only the command line prints the path, because a page may be
    open on another machine.
    """

    def __init__(self, culprit: str, *, remedy: str, path: Path | None = None) -> None:
        super().__init__(culprit, remedy=remedy)
        self.path = path

    @property
    def in_full(self) -> str:
        return str(self) if self.path is None else f"{self} The run library is {self.path}."

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_store_error, (self.culprit, self.remedy, self.path))


class TheoryError(SpecvizError):
    """A distribution or a setting that a formula does not support."""


class AccessError(SpecvizError):
    """Something that a person's role does not allow."""


class TrainingError(SpecvizError):
    """A training run that cannot start or continue."""


class ServerError(SpecvizError):
    """A serving engine that cannot be reached, or whose answer is not valid."""


def shortened(text: str) -> str:
    """Return the text; if it is too long, return only its beginning and its end.

    The end is kept because it often says what is wrong.
    """
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"


def _rebuild(kind: type[SpecvizError], culprit: str, remedy: str) -> SpecvizError:
    return kind(culprit, remedy=remedy)


def _rebuild_store_error(culprit: str, remedy: str, path: Path | None) -> StoreError:
    return StoreError(culprit, remedy=remedy, path=path)
