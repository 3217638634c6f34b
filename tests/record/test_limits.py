"""The limits of a run's settings: checks enforce them, and controls stay within."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import ConfigError
from specviz.record.limits import COMPARED, CONTROLS, LIMITS, Range
from specviz.record.trace import RunConfig


@pytest.mark.parametrize("name", LIMITS)
def test_accepts_both_ends_and_rejects_values_beyond(name: str) -> None:
    low, high = LIMITS[name].ends
    for end in (low or 1e-9, high) if name == "top_p" else (low, high):
        assert getattr(replace(RunConfig(), **{name: end}), name) == end
    for beyond in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=name):
            replace(RunConfig(), **{name: beyond})


@pytest.mark.parametrize("table", [CONTROLS, COMPARED], ids=["controls", "compared"])
def test_controls_stay_within_the_limits(table: dict[str, Range]) -> None:
    assert set(table) == set(LIMITS)
    for name, span in table.items():
        assert span.low in LIMITS[name]
        assert span.high in LIMITS[name]
        assert getattr(RunConfig(), name) in span


def test_a_range() -> None:
    span = Range(1, 10_000)
    assert str(span) == "1 to 10,000"
    assert [span.nearest(value) for value in (0, 5, 10**6)] == [1, 5, 10_000]
    assert 0 not in span
