"""Given costs of another machine: two numbers, a table in a file, and invalid values."""

from __future__ import annotations

import json
import math

import pytest

from specviz.errors import ConfigError
from specviz.figures.step_times import step_times
from specviz.record.limits import MAX_GAMMA
from specviz.tune.given_costs import given_costs, read_verify_costs
from specviz.tune.surface import surface
from tests.tune.scored import text_of


@pytest.mark.parametrize("context", [1, 100, 5000])
@pytest.mark.parametrize("gamma", [1, 5, 16, MAX_GAMMA])
def test_two_numbers_give_the_costs_at_every_gamma_and_context(gamma: int, context: int) -> None:
    found = step_times(given_costs(0.05, 1.2), context, gamma, drafts=True)
    assert (found.c, found.v, found.target) == (pytest.approx(0.05), 1.2, 1.0)
    assert found.round_cost == pytest.approx(0.05 * gamma + 1.2)


def test_speedup_is_tau_over_the_cost_of_a_round() -> None:
    texts = [text_of([0.8, 0.3, 0.9, 1.0] * 12, prompt=length) for length in (3, 700)]
    for cell in surface(texts, lambda _: given_costs(0.1, 1.3), (1, 4, 16)).cells:
        assert cell.speedup == pytest.approx(cell.tau / (0.1 * cell.gamma + 1.3), rel=1e-12)


def test_interpolates_and_extrapolates_linearly() -> None:
    table = given_costs(0.0, {3: 1.2, 5: 2.0, 9: 2.2})
    found = [table.verify(50, rows) for rows in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 17)]
    assert found == pytest.approx([1.0, 1.1, 1.2, 1.6, 2.0, 2.05, 2.1, 2.15, 2.2, 2.25, 2.4, 2.6])
    one = given_costs(0.0, {2: 1.1})
    assert one.verify(50, 5) == pytest.approx(1.4)


def test_does_not_extrapolate_falling_costs() -> None:
    """Measured costs may fall by noise; extrapolated, long rounds would cost nothing."""
    table = given_costs(0.1, {2: 1.2, 16: 1.1})
    assert table.verify(50, 9) == pytest.approx(1.15)
    assert table.verify(50, 17) == table.verify(50, 60) == pytest.approx(1.1)


@pytest.mark.parametrize("bad", [-0.1, 1000.1, math.nan, math.inf, -math.inf, 1e308])
def test_rejects_invalid_draft_costs(bad: float) -> None:
    with pytest.raises(ConfigError, match=r"^c is "):
        given_costs(bad, 1.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, 1000.1, math.nan, math.inf])
def test_rejects_invalid_verification_costs(bad: float) -> None:
    with pytest.raises(ConfigError, match=r"^v\(2\) is "):
        given_costs(0.1, bad)
    with pytest.raises(ConfigError, match=r"^v\(6\) is "):
        given_costs(0.1, {2: 1.0, 6: bad})


def test_reads_costs_by_number_of_tokens() -> None:
    assert read_verify_costs('{"2": 1.02, "17": 3, "65": 9e0}', "x") == {2: 1.02, 17: 3.0, 65: 9.0}


@pytest.mark.parametrize(
    "text",
    [
        "", "hello", "7", "null", "[]", "{}", '{"2"}', '{"2": "1"}', '{"2": true}', '{"2": null}',
        '{"2": [1]}', '{"1": 1.0}', '{"0": 1.0}', '{"-3": 1.0}', '{"66": 1.0}', '{"2.5": 1.0}',
        '{"": 1.0}', '{"two": 1.0}', '{"²": 1.0}', '{"٣": 1.0}', '{"99999999999": 1.0}',
        '{"2": 1.0, "x": 1.0}', "[" * 100_000,
    ],
)  # fmt: skip
def test_rejects_a_file_without_costs(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^costs\.json contains no verification costs") as caught:
        read_verify_costs(text, "costs.json")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "-1", "9" * 400, "9" * 5000])
def test_rejects_impossible_json_numbers(value: str) -> None:
    read = read_verify_costs(f'{{"4": {value}}}', "costs.json")
    with pytest.raises(ConfigError, match=r"^v\(4\) is "):
        given_costs(0.1, read)


def test_accepts_json_number_formats() -> None:
    assert read_verify_costs(json.dumps(dict.fromkeys((2, 3), 1.5)), "x") == {2: 1.5, 3: 1.5}
