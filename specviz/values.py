"""The base class of values: immutable structs whose fields are given by name.

A value is a ``msgspec.Struct``, because creating a frozen dataclass takes four times as long. A run
creates hundreds of values per round. ``replace``, ``asdict`` and ``fields`` of ``dataclasses``
work with values, too.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class _ValueType(msgspec.StructMeta):
    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, eq: bool = True
    ) -> _ValueType:
        described = _fields(bases, namespace)
        defaults = {each: _default(namespace[each]) for each in described if each in namespace}
        namespace |= defaults | {"__dataclass_fields__": described}
        if any(not each.repr for name, each in described.items() if name in namespace):
            namespace.setdefault("__repr__", _repr_of_some)
        return super().__new__(cls, name, bases, namespace, frozen=True, kw_only=True, eq=eq)


def _fields(bases: tuple[type, ...], namespace: dict[str, Any]) -> dict[str, Field[Any]]:
    """Return the fields of a class and of its bases, in the form that ``dataclasses`` reads.

    Args:
        namespace: the attributes in the body of the class.
    """
    hints = namespace.get("__annotations__", {})
    needed = ("__annotations__", "__module__", *hints)
    doc = {"__doc__": "-"}  # ``dataclass`` builds a missing docstring, which is slow
    body = doc | {each: namespace[each] for each in needed if each in namespace}
    own: Any = dataclass(init=False, repr=False, eq=False, kw_only=True)(type("", (), body))
    inherited = [getattr(base, "__dataclass_fields__", {}) for base in reversed(bases)]
    return {name: each for part in inherited for name, each in part.items()} | (
        own.__dataclass_fields__
    )


def _default(given: Any) -> Any:
    """Return the default as a struct declares it."""
    if not isinstance(given, Field):
        return given
    if not given.init or not given.compare or given.hash is not None:
        raise TypeError("A field of a value cannot set init, compare or hash.")
    if given.default_factory is not MISSING:
        return msgspec.field(default_factory=given.default_factory)
    return msgspec.field() if given.default is MISSING else given.default


def _repr_of_some(value: Any) -> str:
    """Return the text of a value without the fields that were declared with ``repr=False``."""
    shown = (f"{each.name}={getattr(value, each.name)!r}" for each in fields(value) if each.repr)
    return f"{type(value).__name__}({', '.join(shown)})"


class Value(msgspec.Struct, metaclass=_ValueType, eq=False):
    """An immutable struct whose fields are given by name.

    With ``class Name(Value, eq=False)``, values are compared by identity. Classes with tensors need
    this.
    """
