"""Build any frozen dataclass from parsed JSON, by its type hints."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, Literal, TypeVar, cast

from specviz.errors import ConfigError
from specviz.store.trace_checks import problem_of, too_long

_LARGEST = 1e15  # far above anything measured; larger values could overflow in sums

T = TypeVar("T")


class MisfitError(Exception):
    """A value that does not fit its type."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where or 'it'} {problem}")


def fit_to_type(value: object, kind: type[T]) -> T:
    """Return the parsed JSON ``value`` as ``kind``; raises MisfitError where it does not fit."""
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
    return _fit_scalar(value, kind, where)


def _fit_dataclass(value: object, kind: type[object], where: str) -> object:
    given = _expect_object(value, where)
    wanted = _hints(kind)
    if unknown := sorted(given.keys() - wanted.keys()):
        raise MisfitError(where, f"has an unknown field {short(unknown[0])}")
    if missing := sorted(_required(kind) - given.keys()):
        raise MisfitError(where, f"lacks the field {missing[0]!r}")
    if longest := too_long(kind, given):
        raise MisfitError(_inside(where, longest), "is too long a list")
    fields = {name: _fit(each, wanted[name], _inside(where, name)) for name, each in given.items()}
    try:
        made = kind(**fields)
    except ConfigError as error:
        raise MisfitError(where, f"is out of range: {error.culprit.rstrip('.')}") from None
    if problem := problem_of(made):
        raise MisfitError(where, problem)
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
    raise MisfitError(where, f"is {short(value)}")


def _fit_tuple(value: object, kind: Any, where: str) -> object:
    if not isinstance(value, list):
        raise MisfitError(where, f"is {short(value)}, not a list")
    each_kind, rest = typing.get_args(kind)
    assert rest is Ellipsis, kind
    entries = cast("list[object]", value)
    return tuple(_fit(each, each_kind, f"{where}[{i}]") for i, each in enumerate(entries))


def _fit_dict(value: object, kind: Any, where: str) -> object:
    _, each_kind = typing.get_args(kind)  # JSON keys are strings
    given = _expect_object(value, where)
    return {
        _whole_text(key, where): _fit(each, each_kind, f"{where}[{short(key)}]")
        for key, each in given.items()
    }


def _expect_object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MisfitError(where, f"is {short(value)}, not an object")
    return cast("dict[str, object]", value)


def _fit_scalar(value: object, kind: Any, where: str) -> object:
    assert kind in (str, int, float, bool), kind
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise MisfitError(where, f"is {short(value)}, not {_NAMES[kind]}")
    if isinstance(value, str):
        return _whole_text(value, where)
    if abs(value) > _limit(kind):
        raise MisfitError(where, f"is out of range ({short(value)})")
    return float(cast("float", value)) if kind is float else value


def _whole_text(text: str, where: str) -> str:
    """Return the text; raises MisfitError for lone surrogates, which JSON can escape but no page,
    file or database accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MisfitError(where, "has a lone surrogate") from None
    return text


_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _limit(kind: type) -> float:
    return _LARGEST if kind is float else 2**63 - 1


def short(value: object) -> str:
    """Return a value as error messages show it, at most 40 characters long."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value) if isinstance(value, str | bool | None) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
