"""Guard the standard streams, which may be closed, full, or without a reader.

If standard output cannot be written, the command ends with an error of one line (``OutputError``).
If the reader has closed standard output, the command ends silently (``BrokenPipeError``). Text that
cannot be written to standard error is dropped, and the command continues.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from specviz.errors import PromptError, SpecvizError
from specviz.record.numbers import SIZE
from specviz.record.prompts import MAX_SUITE_BYTES

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


class OutputError(SpecvizError):
    """Raised if standard output cannot be written."""


class _Output(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int | None:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(
                f"Standard output cannot be written: {error.strerror}.",
                remedy="Redirect standard output to a disk with free space.",
            ) from None


class _ErrorOutput(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int | None:
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def prepare_streams() -> None:
    """Guard the streams until the process ends; raise OutputError if standard output is closed."""
    closed = sys.stdout is None
    _fill_gaps()
    if sys.stdout is sys.__stdout__:  # tests replace it
        sys.stdout = _guarded(sys.stdout, _Output(_OUTPUT, "w", closefd=False))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _guarded(sys.stderr, _ErrorOutput(_ERRORS, "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if closed:
        raise OutputError(
            "Standard output is closed.",
            remedy="Redirect standard output to a terminal, a file or /dev/null.",
        )


def discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at exit cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def read_input() -> bytes:
    """Return standard input; raise PromptError if it cannot be read or is too large."""
    if sys.stdin is None:
        raise PromptError("Standard input is closed.", remedy="Give the prompt as an argument.")
    try:
        text = sys.stdin.buffer.read(MAX_SUITE_BYTES + 1)
    except OSError as error:
        raise PromptError(
            f"Standard input cannot be read: {error.strerror}.",
            remedy="Give the prompt as an argument, or through a pipe.",
        ) from None
    if len(text) > MAX_SUITE_BYTES:
        raise PromptError(
            f"Standard input is larger than {SIZE.shown(MAX_SUITE_BYTES)}.",
            remedy="Give a shorter prompt.",
        )
    return text


def _fill_gaps() -> None:
    """Open the null device for closed streams, so that no other file gets their descriptors."""
    for descriptor in (_INPUT, _OUTPUT, _ERRORS):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor  # a new descriptor gets the lowest free number


def _guarded(stream: TextIO | None, raw: io.FileIO) -> TextIO:
    """Return a stream that writes to ``raw``, with the settings of ``stream`` unless it is None."""
    if not isinstance(stream, io.TextIOWrapper):
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    with suppress(OSError):
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        line_buffering=stream.line_buffering or stream.write_through,  # write_through: python -u
    )
