"""The base class of values: frozen dataclasses with slots, whose fields are given by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class _ValueType(type):
    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, eq: bool = True
    ) -> _ValueType:
        made: Any = super().__new__(cls, name, bases, namespace)
        if "__slots__" not in namespace:  # they are in the copy that ``dataclass`` makes of it
            made = dataclass(frozen=True, slots=True, kw_only=True, eq=eq)(made)
        return made


class Value(metaclass=_ValueType, eq=False):  # else values with eq=False would inherit its __eq__
    """A frozen dataclass with slots, whose fields are given by name.

    With ``class Name(Value, eq=False)``, values are compared by identity. Classes with tensors need
    this.
    """
