"""Build any frozen dataclass from JSON, checked against its type hints.

For a dataclass, ``msgspec`` ignores unknown fields and cannot check limits. So a value is first
converted to a ``msgspec.Struct`` with the dataclass's fields. The struct refuses unknown fields and
checks the limits.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from specviz.errors import ConfigError
from specviz.store.trace_checks import LIMITS, problem_of

# Numbers above 1e15 exceed anything measured and could overflow in sums.
_LARGEST: dict[object, float] = {int: 2**63 - 1, float: 1e15}
_LENGTHS = ("min_length", "max_length")

T = TypeVar("T")


class MisfitError(ValueError):
    """Raised for a JSON value that does not match the expected type or limits."""


def from_json(text: str, kind: type[T]) -> T:
    """Parse the JSON text as a ``kind``; raises ValueError or RecursionError."""
    return fit_to_type(msgspec.json.decode(text), kind)


def fit_to_type(value: object, kind: type[T]) -> T:
    """Convert the parsed JSON ``value`` to ``kind``; raises MisfitError if it does not match."""
    try:
        checked = msgspec.convert(value, _checked_type(kind, {}))
    except msgspec.ValidationError as error:
        raise MisfitError(_problem_and_place(str(error))) from None
    return msgspec.convert(checked, kind, from_attributes=True)


def _problem_and_place(message: str) -> str:
    """Return an error message of msgspec as one printable line that names the field."""
    problem, at, place = message.rpartition(" - at `$")
    text = f"{problem:.200} in {place.strip('.`')}" if at else f"{message:.200}"
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return text[0].lower() + text[1:]


def _checked_type(kind: Any, limits: Mapping[str, float]) -> Any:
    """Return a type that checks ``kind`` and ``limits`` when msgspec converts a value to it.

    For a list, limits of length apply to the list, and all other limits to the numbers in it.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(origin or kind):
        return _struct_of(cast("type[object]", kind))
    if kind in _LARGEST:
        most = _LARGEST[kind]
        least = {} if "gt" in limits else {"ge": -most}
        return Annotated[kind, Meta(**cast("Any", {**least, "le": most, **limits}))]
    if origin is None or origin is Literal:
        return kind
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(
            lambda a, b: a | b, [_checked_type(each, limits) for each in arguments]
        )
    entries = {name: each for name, each in limits.items() if name not in _LENGTHS}
    lengths = {name: each for name, each in limits.items() if name in _LENGTHS}
    inside = tuple(_checked_type(each, entries) for each in arguments)
    return Annotated[origin[inside], Meta(**cast("Any", lengths))] if lengths else origin[inside]


@functools.cache
def _struct_of(kind: type[Any]) -> type[Struct]:
    """Return a Struct type that has the fields of a dataclass and checks their values."""
    plain = (
        typing.get_origin(kind) or kind
    )  # the dataclass itself, if ``kind`` is Generic[Argument]
    given = dict(zip(getattr(plain, "__parameters__", ()), typing.get_args(kind), strict=True))
    hints = {name: given.get(hint, hint) for name, hint in typing.get_type_hints(plain).items()}
    limits = LIMITS.get(plain, {})

    def check(made: Struct) -> None:
        problem = problem_of(kind, made)
        if problem is None and hasattr(plain, "__post_init__"):
            try:
                msgspec.convert(made, kind, from_attributes=True)
            except ConfigError as error:
                problem = error.culprit.rstrip(".")
        if problem is not None:
            raise ValueError(problem)  # msgspec adds the path of the field

    properties = {name: each for name, each in vars(plain).items() if isinstance(each, property)}
    return msgspec.defstruct(
        plain.__name__,
        [
            (each.name, _checked_type(hints[each.name], limits.get(each.name, {})), *_default(each))
            for each in dataclasses.fields(plain)
        ],
        namespace=properties | {"__post_init__": check},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


def _default(field: dataclasses.Field[Any]) -> tuple[Any, ...]:
    if field.default_factory is not dataclasses.MISSING:
        return (msgspec.field(default_factory=field.default_factory),)
    return () if field.default is dataclasses.MISSING else (field.default,)
