"""The limits of a run's settings: the checks hold to them, and no control leads beyond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import ConfigError
from specviz.record.limits import COMPARED, CONTROLS, LIMITS, Range
from specviz.record.trace import RunConfig


@pytest.mark.parametrize("name", LIMITS)
def test_a_run_is_taken_up_to_both_ends_and_refused_beyond(name: str) -> None:
    low, high = LIMITS[name].ends
    for end in (low or 1e-9, high) if name == "top_p" else (low, high):
        assert getattr(replace(RunConfig(), **{name: end}), name) == end
    for beyond in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=name):
            replace(RunConfig(), **{name: beyond})


@pytest.mark.parametrize("table", [CONTROLS, COMPARED], ids=["controls", "compared"])
def test_no_control_leads_beyond(table: dict[str, Range]) -> None:
    assert set(table) == set(LIMITS)
    for name, reach in table.items():
        assert reach.low in LIMITS[name]
        assert reach.high in LIMITS[name]
        assert getattr(RunConfig(), name) in reach


def test_a_reach() -> None:
    reach = Range(1, 10_000)
    assert str(reach) == "1 to 10,000"
    assert [reach.nearest(value) for value in (0, 5, 10**6)] == [1, 5, 10_000]
    assert 0 not in reach
