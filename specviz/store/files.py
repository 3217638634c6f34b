"""JSON text and files: size-limited reads and atomic writes.

Text that cannot be read raises a ``TraceError`` with the source and a remedy. A file is written
under a temporary name and renamed, so other processes see the whole old or the whole new file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Never

import msgspec

from specviz.errors import TraceError
from specviz.record.numbers import SIZE

MAX_BYTES = 270 * 10**6


def fields_of(value: Any) -> dict[str, object]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def to_json(
    record: Mapping[str, Any], parts: Callable[[Any], dict[str, object]] = fields_of
) -> str:
    """Return the record as one line of JSON; ``parts`` converts a dataclass to a dictionary."""
    return json.dumps(record, allow_nan=False, separators=(",", ":"), default=parts) + "\n"


def write_file(path: Path, text: str) -> None:
    """Write the file atomically and flush it to disk."""
    path = Path(os.path.realpath(path))  # a symbolic link stays a link
    beside = path.parent / f".specviz-{uuid.uuid4().hex}.tmp"
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path: Path) -> str:
    """Return a file's text; raises TraceError if there is no file or it exceeds ``MAX_BYTES``."""
    if path.is_dir():
        refuse(f"{path} is a folder.", "Give the path of a trace file in it.")
    if not path.exists():
        refuse(f"{path} does not exist.", "Check the path, or create the file with --out.")
    if not path.is_file():
        refuse(f"{path} is not a file.", "Choose a file written by specviz.")
    if path.stat().st_size > MAX_BYTES:
        refuse(f"{path} is larger than {SIZE.shown(MAX_BYTES)}.", "Choose a trace file.")
    return path.read_text(encoding="utf-8-sig")


def parsed(text: str, source: str) -> object:
    """Parse JSON; raises a TraceError that names ``source`` as the origin of the text."""
    if not text.strip():
        raise damaged(source, "it is empty")
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise damaged(source, "it is nested too deeply") from None
    except msgspec.ValidationError:
        raise damaged(source, "a number is out of range") from None
    except ValueError as error:  # also raised for text that is not Unicode
        problem = str(error).removeprefix("JSON is malformed: ")
        if text.lstrip().startswith("{") and _ends_early(problem, text):
            raise damaged(source, "it is cut off") from None
        refuse(f"{source} is not JSON: {problem}.")


def _ends_early(problem: str, text: str) -> bool:
    place = re.search(r"\(byte (\d+)\)$", problem)
    if place is None:
        return problem == "Input data was truncated"
    return int(place[1]) >= len(text.rstrip().encode()) - 4


def damaged(source: str, problem: str) -> TraceError:
    return TraceError(
        f"{source} is damaged: {problem}.", remedy="Save the run again, or use another copy."
    )


def refuse(culprit: str, remedy: str = "Choose a file written by specviz.") -> Never:
    raise TraceError(culprit, remedy=remedy)
