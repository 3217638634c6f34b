"""The names of bodies, and the shapes that follow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.record.bodies import (
    NAMED_BODIES,
    Shape,
    body_name,
    parameters_of,
    shape_of,
)
from specviz.record.pairs import PairSpec
from tests.machines import TARGET


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("none", "none"),
        ("NONE ", "none"),
        ("90M", "90M"),
        ("90m", "90M"),
        ("90.0M", "90M"),
        ("1200M", "1.2B"),
        ("0.5b", "500M"),
        ("Llama-3.2-1B", "llama-3.2-1b"),
    ],
)
def test_normalizes_the_name_of_a_body(typed: str, name: str) -> None:
    assert body_name(typed) == name
    assert PairSpec(target_body=typed) == PairSpec(target_body=name)


@pytest.mark.parametrize("typed", ["", "90", "M", "-5M", "1e3M", "nan", "9M", "101B", "90M " * 9])
def test_rejects_an_invalid_body(typed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PairSpec(draft_body=typed)
    assert "\n" not in str(caught.value)


def test_parameters_match_the_shipped_target() -> None:
    assert parameters_of(TARGET.shape, TARGET) == 6_099_648


@given(st.integers(10_000_000, 20_000_000_000))
def test_a_size_is_met_within_a_tenth(size: int) -> None:
    body = body_name(f"{size / 1e6:.3f}M")
    assert body_name(body) == body
    shape = shape_of(body, TARGET)
    assert parameters_of(shape, TARGET) == pytest.approx(size, rel=0.1)
    assert shape.width % TARGET.group_width == 0


def test_90_million_has_a_width_that_enlarges_bit_exactly() -> None:
    assert shape_of("90M", TARGET) == Shape(width=768, feed_forward=2048, layers=12)


def test_named_bodies_have_the_shape_of_their_model() -> None:
    for body in NAMED_BODIES.values():
        assert shape_of(body.name, TARGET) == body.shape


def test_rejects_a_body_smaller_than_the_model() -> None:
    deep = replace(TARGET, shape=replace(TARGET.shape, layers=60))
    with pytest.raises(ConfigError, match="192 wide"):
        shape_of("10M", deep)
