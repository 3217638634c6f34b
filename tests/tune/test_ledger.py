"""Whether expectations hold on this machine, in a sentence."""

from __future__ import annotations

import pytest

from specviz.tune.ledger import ledger_sentence


def test_one_run_is_one_run() -> None:
    assert ledger_sentence([(2.0, 1.8)]) == "One run, 10.0 % off from what was expected."


def test_few_runs_say_nothing_of_a_side() -> None:
    told = ledger_sentence([(1.0, 0.5)] * 4)
    assert told == "Of 4 runs, half were within 50.0 % of what was expected."


def test_the_error_is_the_median_one() -> None:
    assert "within 20.0 %" in ledger_sentence([(1.0, 1.01), (1.0, 0.8), (1.0, 3.0)])


@pytest.mark.parametrize(("observed", "said"), [(1.5, "50.0 % faster"), (0.5, "50.0 % slower")])
def test_a_shift_is_told_with_its_side_and_what_to_do(observed: float, said: str) -> None:
    told = ledger_sentence([(1.0, observed)] * 5)
    assert f"In the mean runs were {said} than expected" in told
    assert "Measure them again" in told


def test_runs_on_both_sides_have_no_shift() -> None:
    told = ledger_sentence([(1.0, 1.1), (1.0, 1 / 1.1)] * 3)
    assert told.endswith("They lie on both sides: in the mean +0.0 %.")


def test_the_mean_is_that_of_ratios() -> None:
    """Twice as fast and half as fast cancel each other."""
    assert "on both sides" in ledger_sentence([(1.0, 2.0), (1.0, 0.5)] * 4)
