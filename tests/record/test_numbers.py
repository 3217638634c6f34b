"""Number formats: digits and units of every quantity."""

from __future__ import annotations

import pytest

from specviz.record.numbers import (
    COST,
    MILLISECONDS,
    PERCENT,
    PROBABILITY,
    RATE,
    RATIO,
    SIZE,
    Quantity,
    times,
)


@pytest.mark.parametrize(
    ("quantity", "value", "shown"),
    [
        (PROBABILITY, 0.8, "0.800"),
        (PROBABILITY, 1.0, "1.000"),
        (RATIO, 1.434, "1.43×"),
        (COST, 0.0521, "0.052"),
        (RATE, 118.96, "119.0"),
        (MILLISECONDS, 12.34, "12.3 ms"),
        (PERCENT, 0.1681, "16.8 %"),
        (SIZE, 0, "0 B"),
        (SIZE, 999, "999 B"),
        (SIZE, 999.6, "1 kB"),
        (SIZE, 29_316_096, "29.3 MB"),
        (SIZE, 988_100_000, "988 MB"),
        (SIZE, 999_600_000, "1 GB"),
        (SIZE, 16e9, "16 GB"),
        (SIZE, 3.2e18, "3.2e+03 PB"),
        (RATIO, None, "–"),
    ],
)
def test_values(quantity: Quantity, value: float | None, shown: str) -> None:
    assert quantity.shown(value) == shown


def test_a_ratio_has_the_same_digits_in_sentences() -> None:
    assert times(1.434) == "1.43 times"
    assert times(12.5) == "12.50 times"


def test_ranges() -> None:
    assert RATIO.spread(1.43, 1.2, 1.5) == "1.43× (1.20–1.50)"
    assert RATIO.spread(1.43, None, None) == "1.43×"
    assert RATIO.spread(None, 1.0, 2.0) == "–"
    assert RATIO.spread(1.43, 1.431, 1.429) == "1.43×"
    assert PROBABILITY.spread(0.9, 0.7, 1.1) == "0.900 (0.700–1.000)"
    assert PERCENT.between(0.081, 0.17) == "8.1–17.0 %"
    assert SIZE.spread(2e9, 1e9, 2e9) == "2 GB (1 GB–2 GB)"


def test_formats_for_charts_and_columns() -> None:
    assert RATIO.hover() == "%{y:.2f}×"
    assert PROBABILITY.hover("x") == "%{x:.3f}"
    assert PERCENT.hover() == "%{y:.1%}"
    assert RATIO.column == "%.2f×"
