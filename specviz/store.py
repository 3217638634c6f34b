"""Traces as versioned JSON, and small values kept between runs.

A trace comes back equal to the one written, every float exactly. What cannot be read is a
``TraceError`` that names the file, the place in it and the remedy; nothing is guessed and
nothing skipped. Files are written beside their place and moved into it, so that another
process sees the old or the new one and never half. A kept value that cannot be read is
simply not there.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Never, TypeVar, cast

from specviz.errors import ConfigError, SpecvizError, TraceError
from specviz.trace import Alternatives, Baseline, Candidate, RoundTimes, StepCosts, Trace

SCHEMA = 1
KIND = "specviz.trace"
MAX_BYTES = 256 * 2**20

_LARGEST = 1e15  # nothing a run measures comes near; beyond it sums could overflow
_ROUNDING = 1e-5  # a float32 probability may end a hair above 1

T = TypeVar("T")


class _MisfitError(Exception):
    """A value that does not fit its type: where, and how."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where or 'it'} {problem}")


# Traces


def trace_to_json(trace: Trace) -> str:
    return _to_json({"schema": SCHEMA, "kind": KIND, **_fields(trace)})


def trace_from_json(text: str, source: str = "The trace") -> Trace:
    """``source`` is what the errors call the text."""
    record = _parsed(text, source)
    if not isinstance(record, dict) or cast("dict[str, object]", record).get("kind") != KIND:
        _refuse(f"{source} is not a specviz trace.")
    fields = cast("dict[str, object]", record)
    _check_schema(fields.get("schema"), source)
    try:
        return _decode({name: fields[name] for name in fields.keys() - {"schema", "kind"}}, Trace)
    except _MisfitError as misfit:
        raise _damaged(source, str(misfit)) from None


def save_trace(trace: Trace, path: str | Path) -> None:
    """Whole or not at all. An older file of that name is replaced."""
    text = trace_to_json(trace)
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            _refuse(f"{path} is not a file.", "Name a file to write the trace to.")
        _write(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        _refuse(f"{path} cannot be written: {reason}.", "Choose a folder that exists and is yours.")


def load_trace(path: str | Path) -> Trace:
    path = Path(path)
    try:
        text = _read(path)
    except UnicodeDecodeError:
        _refuse(f"{path} is not JSON.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        _refuse(f"{path} cannot be read: {reason}.", "Check its name and its permissions.")
    return trace_from_json(text, source=str(path))


def _read(path: Path) -> str:
    if path.is_dir():
        _refuse(f"{path} is a folder.", "Name the trace file in it.")
    if not path.exists():
        _refuse(f"{path} does not exist.", "Check the name, or write it: run ... --out FILE.")
    if not path.is_file():
        _refuse(f"{path} is not a file.", "Name a file written by specviz.")
    if path.stat().st_size > MAX_BYTES:
        _refuse(f"{path} is larger than {MAX_BYTES // 2**20} MiB.", "Name a trace file.")
    return path.read_text(encoding="utf-8-sig")


def _parsed(text: str, source: str) -> object:
    if not text.strip():
        raise _damaged(source, "it is empty")
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise _damaged(source, "it is nested too deeply") from None
    except _MisfitError as misfit:
        raise _damaged(source, str(misfit)) from None
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{") and _ends_early(error, text):
            raise _damaged(source, "it ends in the middle") from None
        _refuse(f"{source} is not JSON (line {error.lineno}, column {error.colno}).")
    except ValueError:  # an integer of thousands of digits
        raise _damaged(source, "a number is too long") from None


def _no_number(constant: str) -> Never:
    raise _MisfitError("a number", f"is {constant}")


def _ends_early(error: json.JSONDecodeError, text: str) -> bool:
    return error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()) - 4


def _check_schema(schema: object, source: str) -> None:
    if type(schema) is int and schema > SCHEMA:
        culprit = f"{source} has schema {schema}: it was written by a newer specviz."
        raise TraceError(culprit, remedy=f"Update specviz (this one reads up to {SCHEMA}).")
    if type(schema) is not int or schema != SCHEMA:
        _refuse(f"{source} has no schema that specviz ever wrote ({_short(schema)}).")


def _damaged(source: str, problem: str) -> TraceError:
    return TraceError(
        f"{source} is damaged: {problem}.", remedy="Save the run again, or take another copy."
    )


def _refuse(culprit: str, remedy: str = "Name a file written by specviz.") -> Never:
    raise TraceError(culprit, remedy=remedy)


# Values kept between runs


def data_folder() -> Path:
    """Where specviz keeps its own files: SPECVIZ_HOME, or the platform's place for such data."""
    if home := os.environ.get("SPECVIZ_HOME"):
        return Path(home)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "specviz"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "specviz"
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "specviz"


def save_value(kind: str, key: str, value: Any) -> bool:
    """Keep a dataclass value. False where the folder cannot be written: it is then not kept."""
    text = _to_json({"schema": SCHEMA, "kind": kind, "key": key, "value": value})
    try:
        path = _value_path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, text)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return False
    return True


def load_value(kind: str, key: str, value_type: type[T]) -> T | None:
    """The value last kept under this key; None if there is none or it cannot be read."""
    try:
        path = _value_path(kind, key)
        record: object = json.loads(_read(path), parse_constant=_no_number)
        if not isinstance(record, dict):
            return None
        fields = cast("dict[str, Any]", record)
        if (fields.get("schema"), fields.get("kind"), fields.get("key")) != (SCHEMA, kind, key):
            return None
        return _decode(fields.get("value"), value_type)
    except (OSError, ValueError, RuntimeError, SpecvizError, _MisfitError):
        return None  # RuntimeError: nested too deeply, or no home folder


def _value_path(kind: str, key: str) -> Path:
    assert kind.replace("-", "").replace("_", "").isalnum(), kind
    name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return data_folder() / kind / f"{name}.json"


# Writing


def _to_json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, allow_nan=False, separators=(",", ":"), default=_fields) + "\n"


def _fields(value: Any) -> dict[str, object]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _write(path: Path, text: str) -> None:
    path = Path(os.path.realpath(path))  # a link keeps pointing where it did
    beside = path.parent / f".specviz-{uuid.uuid4().hex}.tmp"
    try:
        with beside.open("x", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


# Reading: JSON into any frozen dataclass, by its type hints


def _decode(value: object, kind: type[T]) -> T:
    return cast("T", _fit(value, kind, ""))


def _fit(value: object, kind: Any, where: str) -> object:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _fit_dataclass(value, cast("type[object]", kind), where)
    if origin in (typing.Union, types.UnionType):
        return _fit_optional(value, kind, where)
    if origin is Literal:
        return _fit_literal(value, kind, where)
    if origin is tuple:
        return _fit_tuple(value, kind, where)
    if origin is dict:
        return _fit_dict(value, kind, where)
    return _fit_plain(value, kind, where)


def _fit_dataclass(value: object, kind: type[object], where: str) -> object:
    given = _expect_object(value, where)
    wanted = _hints(kind)
    if unknown := sorted(given.keys() - wanted.keys()):
        raise _MisfitError(where, f"has a field {_short(unknown[0])} that is not known")
    if missing := sorted(_required(kind) - given.keys()):
        raise _MisfitError(where, f"lacks the field {missing[0]!r}")
    fields = {name: _fit(each, wanted[name], _inside(where, name)) for name, each in given.items()}
    try:
        made = kind(**fields)
    except ConfigError as error:
        raise _MisfitError(where, f"is out of range: {error.culprit.rstrip('.')}") from None
    if problem := _problem(made):
        raise _MisfitError(where, problem)
    return made


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


@functools.cache
def _hints(kind: type[object]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _required(kind: type[object]) -> frozenset[str]:
    absent = dataclasses.MISSING
    fields = dataclasses.fields(cast("Any", kind))
    return frozenset(
        each.name for each in fields if each.default is absent and each.default_factory is absent
    )


def _fit_optional(value: object, kind: Any, where: str) -> object:
    options = [each for each in typing.get_args(kind) if each is not type(None)]
    assert len(options) == 1, kind
    return None if value is None else _fit(value, options[0], where)


def _fit_literal(value: object, kind: Any, where: str) -> object:
    for option in typing.get_args(kind):
        if type(value) is type(option) and value == option:
            return option
    raise _MisfitError(where, f"is {_short(value)}")


def _fit_tuple(value: object, kind: Any, where: str) -> object:
    if not isinstance(value, list):
        raise _MisfitError(where, f"is {_short(value)}, not a list")
    each_kind, rest = typing.get_args(kind)
    assert rest is Ellipsis, kind
    entries = cast("list[object]", value)
    return tuple(_fit(each, each_kind, f"{where}[{i}]") for i, each in enumerate(entries))


def _fit_dict(value: object, kind: Any, where: str) -> object:
    _, each_kind = typing.get_args(kind)  # JSON's keys are texts
    given = _expect_object(value, where)
    return {key: _fit(each, each_kind, f"{where}[{_short(key)}]") for key, each in given.items()}


def _expect_object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _MisfitError(where, f"is {_short(value)}, not an object")
    return cast("dict[str, object]", value)


def _fit_plain(value: object, kind: Any, where: str) -> object:
    assert kind in (str, int, float, bool), kind
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise _MisfitError(where, f"is {_short(value)}, not {_NAMES[kind]}")
    if isinstance(value, int | float) and abs(value) > _limit(kind):
        raise _MisfitError(where, f"is out of range ({_short(value)})")
    return float(cast("float", value)) if kind is float else value


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _limit(kind: type) -> float:
    return _LARGEST if kind is float else 2**63 - 1


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value) if isinstance(value, str | bool | None) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# What types cannot say


def _problem(made: object) -> str | None:
    check = _CHECKS.get(type(made))
    return check(made) if check else None


def _alternatives(made: Alternatives) -> str | None:
    if not len(made.token_ids) == len(made.texts) == len(made.probs):
        return "has lists of different lengths"
    return _outside("probs", made.probs)


def _candidate(made: Candidate) -> str | None:
    if made.draft_prob <= 0:
        return "was drafted at a probability that is not above 0"
    chances = [made.draft_prob, made.target_prob, made.uniform, made.expected_acceptance]
    chances += [each for each in (made.overlap, made.bias) if each is not None]
    return _outside("chances", chances)


def _outside(name: str, chances: Iterable[float]) -> str | None:
    inside = all(0 <= chance <= 1 + _ROUNDING for chance in chances)
    return None if inside else f"has {name} outside 0 to 1"


def _times(made: RoundTimes) -> str | None:
    return None if math.isfinite(made.decode) and made.decode >= 0 else "adds up to less than 0"


def _step_costs(made: StepCosts) -> str | None:
    width, rows = len(made.contexts), (*made.draft, *made.target)
    if not width or not made.target or any(len(row) != width for row in rows):
        return "is not a full table"
    if any(left >= right for left, right in zip(made.contexts, made.contexts[1:], strict=False)):
        return "has contexts out of order"
    return None if all(cost > 0 for row in rows for cost in row) else "has a cost not above 0"


def _baseline(made: Baseline) -> str | None:
    seconds = (each for block in made.blocks for each in block.seconds)
    return "has a time below 0" if any(each < 0 for each in seconds) else None


def _trace(made: Trace) -> str | None:
    sizes = {"target": len(made.token_ids), "speculative": len(made.rounds)}
    blocks = made.baseline.blocks if made.baseline else ()
    if any(len(block.seconds) != sizes[block.lane] for block in blocks):
        return "has a timed block that does not fit its rounds"
    return None


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Alternatives: _alternatives,
    Candidate: _candidate,
    RoundTimes: _times,
    StepCosts: _step_costs,
    Baseline: _baseline,
    Trace: _trace,
}
