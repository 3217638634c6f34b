"""The costs of a whole draft phase."""

from __future__ import annotations

import pytest

from specviz.record.trace import StepCosts

FLAT = StepCosts(contexts=(10, 20), draft=((1.0, 2.0), (1.5, 2.5)), target=((8.0, 8.0),))
STEPPED = StepCosts(
    contexts=(10, 20), draft=((1.0, 2.0), (1.5, 2.5)), target=((8.0, 8.0),), draft_next=(0.5, 0.7)
)


def test_a_phase_is_its_first_step_plus_later_steps() -> None:
    assert STEPPED.draft_phase(10, 1) == 1.0
    assert STEPPED.draft_phase(10, 4) == pytest.approx(1.0 + 3 * 0.5)
    assert STEPPED.draft_phase(15, 3) == pytest.approx(1.5 + 2 * 0.6)


def test_a_share_of_first_steps_is_fed_two_tokens() -> None:
    assert STEPPED.draft_phase(10, 2, 0.5) == pytest.approx(1.25 + 0.5)
    assert STEPPED.draft_phase(10, 2, 1.0) == pytest.approx(1.5 + 0.5)


def test_without_later_steps_every_step_costs_the_first() -> None:
    assert FLAT.draft_phase(10, 4) == pytest.approx(4.0)
