"""Overlap as a function of temperature: reference values, limits, and non-monotonicity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.theory.temperature import best_draft_temperature, overlap, overlaps, softened

DRAFT = np.log([0.50, 0.20, 0.15, 0.10, 0.05])
TARGET = np.log([0.25, 0.30, 0.10, 0.25, 0.10])
DRAFT_2 = np.log([0.40, 0.30, 0.15, 0.10, 0.05])
TARGET_2 = np.log([0.60, 0.15, 0.10, 0.10, 0.05])
LOGITS = st.lists(st.floats(-30, 30), min_size=4, max_size=4)


def test_as_tabulated() -> None:
    found = [overlap(DRAFT, TARGET, each) for each in (0.2, 0.5, 1, 2, 5)]
    assert found == pytest.approx([0.2345, 0.4700, 0.7000, 0.8486, 0.9403], abs=5e-5)


def test_overlap_may_fall_and_rise() -> None:
    found = [overlap(DRAFT_2, TARGET_2, each) for each in (0.05, 0.2, 0.5, 1, 2)]
    assert found == pytest.approx([0.9968, 0.8040, 0.6725, 0.8000, 0.9049], abs=5e-5)


def test_the_drafts_best_temperature_differs_from_the_targets() -> None:
    best, value = best_draft_temperature(DRAFT_2, TARGET_2, 1.0)
    assert best == pytest.approx(0.44, abs=1e-9)
    assert value == pytest.approx(0.8403, abs=5e-5)
    assert value == overlap(DRAFT_2, TARGET_2, 1.0, best)
    assert value > overlap(DRAFT_2, TARGET_2, 1.0)


@pytest.mark.parametrize("pair", [(DRAFT, TARGET), (DRAFT_2, TARGET_2)])
@pytest.mark.parametrize("temperature", [0.0, 0.02, 0.5, 1.0, 3.2, 4.0, 5.0])
def test_best_draft_temperature_beats_a_finer_grid(
    pair: tuple[np.ndarray, np.ndarray], temperature: float
) -> None:
    best, value = best_draft_temperature(*pair, temperature)
    assert value == overlap(*pair, temperature, best)
    finer = [*np.linspace(0.0, 3.0, 601), *np.geomspace(3.0, 1000.0, 600)]
    assert value >= overlap(*pair, temperature)
    assert value >= overlaps(*pair, finer, (temperature,)).max() - 1e-3  # the grid has hundredths


@pytest.mark.parametrize(("draft", "target", "alpha"), [(DRAFT, TARGET, 0), (DRAFT_2, TARGET_2, 1)])
def test_limits(draft: np.ndarray, target: np.ndarray, alpha: float) -> None:
    assert overlap(draft, target, 0.0) == alpha
    assert overlap(draft, target, 1e-4) == pytest.approx(alpha, abs=1e-12)
    assert overlap(draft, target, 1e6) == pytest.approx(1.0, abs=1e-5)
    assert overlap(draft, target, 1e-320) == alpha


def test_ties_share_the_limit_at_temperature_0() -> None:
    assert softened([1.0, 3.0, 3.0], 0.0) == pytest.approx([0.0, 0.5, 0.5])
    assert softened([1.0, 3.0, 3.0], 1e-3) == pytest.approx([0.0, 0.5, 0.5])
    assert softened([0.0, -np.inf], 1.0) == pytest.approx([1.0, 0.0])


@given(draft=LOGITS, target=LOGITS, temperature=st.floats(0.0, 10.0))
@settings(max_examples=60)
def test_overlaps_are_probabilities(
    draft: list[float], target: list[float], temperature: float
) -> None:
    assert softened(draft, temperature).sum() == pytest.approx(1.0, abs=1e-12)
    value = overlap(draft, target, temperature)
    assert -1e-12 <= value <= 1.0 + 1e-12
    assert value == pytest.approx(overlap(target, draft, temperature), abs=1e-12)
    assert overlap(draft, draft, temperature) == pytest.approx(1.0, abs=1e-12)


def test_rejects_invalid_logits() -> None:
    with pytest.raises(ConfigError, match="1 target logits"):
        overlap([0.0, 1.0], [0.0], 1.0)
    for bad in ([], [-np.inf, -np.inf], [np.nan, 0.0]):
        with pytest.raises(ConfigError, match="no finite"):
            softened(bad, 1.0)


def test_overlaps_equal_overlap() -> None:
    made = overlaps(DRAFT, TARGET, (0.0, 0.5, 2.0), (0.3, 1.0))
    for row, drawn_at in enumerate((0.0, 0.5, 2.0)):
        for column, temperature in enumerate((0.3, 1.0)):
            assert made[row, column] == overlap(DRAFT, TARGET, temperature, drawn_at)
