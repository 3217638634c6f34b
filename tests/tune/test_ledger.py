"""The sentence on expected against observed speedups."""

from __future__ import annotations

import pytest

from specviz.tune.ledger import ledger_sentence


def test_one_run() -> None:
    assert ledger_sentence([(2.0, 1.8)]) == "One run was 10.0 % off the expected speedup."


def test_few_runs_report_no_bias() -> None:
    output = ledger_sentence([(1.0, 0.5)] * 4)
    assert output == "Half of 4 runs were within 50.0 % of the expected speedup."


def test_reports_the_median_error() -> None:
    assert "within 20.0 %" in ledger_sentence([(1.0, 1.01), (1.0, 0.8), (1.0, 3.0)])


@pytest.mark.parametrize(("observed", "expected"), [(1.5, "50.0 % faster"), (0.5, "50.0 % slower")])
def test_reports_a_bias_with_a_remedy(observed: float, expected: str) -> None:
    output = ledger_sentence([(1.0, observed)] * 5)
    assert f"On average, runs were {expected} than expected" in output
    assert "Measure the step costs again" in output


def test_runs_on_both_sides_have_no_bias() -> None:
    output = ledger_sentence([(1.0, 1.1), (1.0, 1 / 1.1)] * 3)
    assert output.endswith("The mean deviation is +0.0 %.")


def test_uses_the_geometric_mean() -> None:
    """Twice as fast and half as fast cancel out."""
    assert "mean deviation" in ledger_sentence([(1.0, 2.0), (1.0, 0.5)] * 4)
