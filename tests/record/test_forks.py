"""Forks as values and as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.record.forks import (
    MAX_FORKS,
    Fork,
    followed_by,
    forks_text,
    parse_forks,
    possible_draw,
)
from specviz.record.trace import RunConfig

draws = st.integers(0, 2**24 - 1).map(lambda n: n / 2**24)
places = st.tuples(st.integers(0, 10**6), st.integers(0, 63))


@given(
    st.lists(st.tuples(places, st.integers(0, 10**6), draws), unique_by=lambda e: e[0], max_size=5)
)
def test_text_round_trips_exactly(drawn: list[Any]) -> None:
    forks = tuple(
        Fork(round=number, place=place, token_id=token, uniform=uniform)
        for (number, place), token, uniform in sorted(drawn)
    )
    assert parse_forks(forks_text(forks)) == forks
    assert RunConfig(forks=forks).forks == forks


def test_text_counts_rounds_and_places_from_1() -> None:
    assert forks_text([Fork(round=6, place=1, token_id=99, uniform=0.25)]) == "7:2:99=0.25"
    assert parse_forks("7:2:99>5") == (Fork(round=6, place=1, token_id=99, instead=5),)
    assert parse_forks("") == ()


@pytest.mark.parametrize(
    "text", ["7", "7:2:99", "7:2:99=", "0:1:1=0.5", "1:0:1=0.5", "1:1:1=1", "1:1:1=-0.5",
             "1:1:1=nan", "1:1:1=1e999", "1:65:1=0.5", "1:1:1=0.5+", "a:1:1=0.5", "1:1:1=0.5>3",
             "9" * 40]
)  # fmt: skip
def test_rejects_an_invalid_fork(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_forks(text)


def fork(number: int, **how: Any) -> Fork:
    return Fork(round=number, place=0, token_id=1, **(how or {"uniform": 0.5}))


@pytest.mark.parametrize(
    "settings",
    [
        {"forks": (fork(2), fork(1))},
        {"forks": (fork(1), fork(1))},
        {"forks": (fork(1, instead=3),)},
        {"forks": (fork(1),), "temperature": 0.0},
        {"forks": tuple(fork(i) for i in range(MAX_FORKS + 1))},
        {"forks": (fork(1, instead=3),), "temperature": 0.0, "rule": "over-accept"},
    ],
)
def test_rejects_forks_that_no_run_can_have(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        RunConfig(**settings)


def test_a_fork_replaces_forks_at_its_place_and_later() -> None:
    forks = tuple(
        Fork(round=number, place=place, token_id=1, uniform=0.5)
        for number, place in ((1, 3), (2, 0), (2, 1), (2, 2), (3, 0))
    )
    again = Fork(round=2, place=1, token_id=1, uniform=0.25)
    assert followed_by(forks, again) == (*forks[:2], again)
    assert RunConfig(forks=followed_by(forks, again)).forks[-1] == again


def test_rounds_a_draw_to_one_that_a_seed_can_produce() -> None:
    assert possible_draw(1.0) == 1 - 2**-24
    assert possible_draw(-1.0) == 0.0
    assert possible_draw(0.3) * 2**24 == round(0.3 * 2**24)
