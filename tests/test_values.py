"""The base class of values: frozen, with slots, compared by their fields, picklable."""

from __future__ import annotations

import pickle
from dataclasses import asdict, field, fields, replace

import pytest

from specviz.values import Value


class Point(Value):
    x: float
    names: list[str] = field(default_factory=list[str])


class Named(Point):
    name: str = ""


class Identity(Value, eq=False):
    x: float


def test_fields_are_given_by_name() -> None:
    assert asdict(Point(x=1.0)) == {"x": 1.0, "names": []}
    with pytest.raises(TypeError):
        Point(1.0)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]


def test_values_cannot_change() -> None:
    point = Point(x=1.0)
    with pytest.raises(AttributeError):
        point.x = 2.0  # type: ignore[misc]
    assert not hasattr(point, "__dict__")
    assert replace(point, x=2.0) == Point(x=2.0)


def test_a_subclass_adds_fields() -> None:
    assert [each.name for each in fields(Named)] == ["x", "names", "name"]
    made = Named(x=1.0, name="a")
    assert not hasattr(made, "__dict__")
    assert made != Named(x=1.0, name="b")


def test_equality_can_be_identity() -> None:
    one = Identity(x=1.0)
    assert one != Identity(x=1.0)
    assert len({one, Identity(x=1.0)}) == 2


def test_values_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Named(x=1.0, name="a"))) == Named(x=1.0, name="a")


class Guarded(Value):
    name: str
    secret: str = field(repr=False)


def test_secrets_are_not_in_the_text_of_a_value() -> None:
    assert repr(Guarded(name="a", secret="b")) == "Guarded(name='a')"
    assert repr(Named(x=1.0, name="a")) == "Named(x=1.0, names=[], name='a')"


def test_fields_that_structs_do_not_have_are_refused() -> None:
    with pytest.raises(TypeError, match="compare"):

        class Wrong(Value):
            x: float = field(compare=False)
