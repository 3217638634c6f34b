"""Counts of simulated texts or positions, which can be added."""

from __future__ import annotations

from dataclasses import fields
from typing import Self

from specviz.values import Value


class Counts(Value, eq=False):
    """The base class of values that are added field by field."""

    def __add__(self, other: Self) -> Self:
        names = [each.name for each in fields(self)]
        return type(self)(**{each: getattr(self, each) + getattr(other, each) for each in names})
