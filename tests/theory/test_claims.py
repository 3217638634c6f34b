"""Every number on a claim's card against reference values, and both sides of every flip."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.chains import random_chains
from specviz.theory.claims import Claim, ClaimVerdict, claims
from specviz.theory.claims.batches import batch_bias, root_step
from specviz.theory.claims.claim import crossing, first, rounded_down, rounded_up, verdict_for
from specviz.theory.examples import THREE
from specviz.theory.speed import best_gamma, expected_tokens, speedup
from specviz.theory.stopping import drop_unlikely
from specviz.theory.tradeoff import total_variation
from tests.theory.small_chains import steady_chains

LAST = 1e-3  # the last digit of a flip
CLAIMS = {each.id: each for each in claims()}
DRAFT = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
TARGET = np.array([[0.3, 0.4, 0.3], [0.4, 0.3, 0.3], [0.1, 0.6, 0.3]])
CHAINS = steady_chains(DRAFT, TARGET, 10)


def values(name: str) -> list[float]:
    return [each.value for each in CLAIMS[name].figures]


# id: reference values of the figures, each to the digits given
REFERENCE: dict[str, list[float]] = {
    "counted-acceptance": [0.6, 0.8343, 2.383],
    "acceptance-bands": [1.586, 1.369, 0.096],
    "draft-lengths": [10, 2],
    "acceptance-length": [2.383, 1.383],
    "six-tokens": [6, 3.6893, 0.871],
    "two-to-three-times": [2.383, 1.589, 0.038],
    "ten-times-fewer": [0.294, 0.759, 0.931],
    "exact-output": [0.0, 0.7, 0.4],
    "new-token-from-target": [0.105, 0.0],
    "same-tokenizer": [0.0, 0.5],
    "terabytes-a-token": [16, 140, 500],
    "one-pass": [1.0],
    "own-benchmark": [5 / 3, 1.5],
    "high-temperature": [0.8040],
    "grounded-tasks": [1.13, 1.66, 2.43],
    "fewest-rejections": [1.407407, 1.666667, 2],
    "rejections-and-time": [0.1, 0.21342],
    "bias-for-speed": [0.3, 0.3, 0.25],
    "batch-scaling": [16.40489, 14.09008, 12.099],  # the limit: `math.inf` drafts
    "batch-accuracy": [0.0],
    "balance": [3.157, 3.251, 2.497],
    "small-n": [4, 40, 0.8667],
    "one-probability": [3.2881, 3.0527],
    "unsure-tokens": [0.0, 0.07, 0.23],
    "never-worse": [1.111111, 1.222222, 2],
}

VERDICTS: dict[ClaimVerdict, set[str]] = {
    "Holds": {
        "six-tokens", "exact-output", "bias-for-speed", "batch-scaling", "balance", "small-n",
        "never-worse",
    },
    "Does not hold": {
        "counted-acceptance", "acceptance-length", "new-token-from-target", "terabytes-a-token",
        "own-benchmark", "batch-accuracy",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
def test_figures_match_the_reference_values(name: str) -> None:
    for found, wanted in zip(values(name), REFERENCE[name], strict=False):
        digits = max(3, len(f"{wanted:.10g}".partition(".")[2]))
        assert found == pytest.approx(wanted, abs=0.6 * 10**-digits), name


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda each: each.id)
def test_verdicts(claim: Claim) -> None:
    named = [verdict for verdict, names in VERDICTS.items() if claim.id in names]
    assert claim.verdict == (named[0] if named else "Holds within limits")


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda each: each.id)
def test_cards_are_complete(claim: Claim) -> None:
    assert claim.quote
    assert claim.finding.endswith(".")
    assert claim.flip.endswith(".")
    assert 2 <= len(claim.figures) <= 3
    assert all(math.isfinite(each.value) for each in claim.figures)
    assert claim.chart.label
    assert "nan" not in (claim.finding + claim.flip)


def test_ids_are_unique() -> None:
    assert len(CLAIMS) == len(claims()) == 27


# Both sides of each flip


def test_speed_flips_are_where_the_speedup_crosses() -> None:
    doubling = values("acceptance-bands")[2]
    assert best_gamma(0.7, doubling)[1] > 2 > best_gamma(0.7, doubling + LAST)[1]
    at_gamma = values("two-to-three-times")[2]
    assert speedup(0.6, 5, at_gamma) > 2 > speedup(0.6, 5, at_gamma + LAST)
    shortest = values("draft-lengths")[2]
    assert best_gamma(0.8, shortest)[0] == 7
    assert best_gamma(0.8, shortest + LAST)[0] == 6
    cost, even, twice = values("ten-times-fewer")
    assert speedup(even, 10, cost) > 1 > speedup(even - LAST, 10, cost)
    assert speedup(twice, 10, cost) > 2 > speedup(twice - LAST, 10, cost)
    fixed = values("small-targets")[2]
    assert best_gamma(0.7, (0.05 + fixed) / (1 + fixed))[1] == pytest.approx(1.1)


def test_links_open_where_the_claim_still_holds() -> None:
    opened = {name: {key[6:]: float(value) for key, value in each.chart.query.items()
                     if key in ("speed_alpha", "speed_c", "speed_gamma")}
              for name, each in CLAIMS.items()}  # fmt: skip

    def best(name: str, more: float = 0.0) -> tuple[int, float]:
        return best_gamma(opened[name]["alpha"], opened[name]["c"] + more)

    assert best("acceptance-bands")[1] > 2 > best("acceptance-bands", LAST)[1]
    assert (best("draft-lengths")[0], best("draft-lengths", LAST)[0]) == (7, 6)
    assert best("small-targets")[1] >= 1.1 > best("small-targets", LAST)[1]
    assert best("small-n")[0] > 10 >= best("small-n", LAST)[0]
    matched = max(values("balance"))
    assert best("balance")[1] >= matched > best("balance", LAST)[1]
    assert opened["six-tokens"]["alpha"] ** 5 >= 0.5 > (opened["six-tokens"]["alpha"] - LAST) ** 5
    pair = opened["ten-times-fewer"]
    assert speedup(pair["alpha"], int(pair["gamma"]), pair["c"]) > 1


def test_the_first_gamma_within_five_percent() -> None:
    gamma = int(values("rejections-and-time")[2])
    passes = [1 / expected_tokens(0.9, each) for each in (gamma - 1, gamma)]
    assert passes[0] >= 0.105 > passes[1]


def test_dropping_biases_above_the_drafts_lowest_probability() -> None:
    draft, target = np.array(THREE.draft), np.array(THREE.target)

    def off(threshold: float) -> float:
        return total_variation(drop_unlikely(threshold)(draft, target).emitted, target)

    assert off(0.1) < 1e-12
    assert off(0.1 + LAST) == off(0.3) == pytest.approx(values("unsure-tokens")[1], abs=1e-12)
    assert f" {off(0.3 + LAST):.2f}." in CLAIMS["unsure-tokens"].flip


def test_chart_links_carry_the_computed_settings() -> None:
    chart = CLAIMS["two-to-three-times"].chart
    assert chart.page == "speed"
    assert chart.query["speed_v"] == "1"
    assert (chart.query["speed_alpha"], chart.query["speed_gamma"]) == ("0.6", "5")
    assert float(chart.query["speed_c"]) == values("two-to-three-times")[2]


# The batch's distribution by enumeration


@pytest.mark.parametrize("num_drafts", [1, 2, 5, 64])
def test_batches_are_unbiased(num_drafts: int) -> None:
    assert batch_bias(CHAINS, num_drafts, length=3) < 1e-12
    assert batch_bias(random_chains(10, 7, 50), num_drafts, length=3) < 1e-12


def test_testing_against_the_first_residual_is_biased() -> None:
    assert batch_bias(CHAINS, 1, length=3, renew=False) < 1e-12
    assert batch_bias(CHAINS, 4, length=3, renew=False) > 0.01


def _written(text: tuple[int, ...], num_drafts: int, renew: bool) -> float:
    """Return one text's probability after its first state, token by token."""
    fresh, within = 1.0, 0.0
    for before, after in itertools.pairwise(text):
        distributions = DRAFT[before], TARGET[before]
        chosen, none = (each[after] for each in root_step(*distributions, num_drafts, renew))
        kept, lost = (each[after] for each in root_step(*distributions, 1, True))
        fresh, within = fresh * none + within * lost, fresh * chosen + within * kept
    return fresh + within


@pytest.mark.parametrize("renew", [True, False])
def test_batch_bias_equals_the_sum_over_texts(renew: bool) -> None:
    off = 0.0
    for text in itertools.product(range(3), repeat=4):
        wanted = math.prod(TARGET[pair] for pair in itertools.pairwise(text))
        off += abs(_written(text, 4, renew) - wanted) / 3
    assert batch_bias(CHAINS, 4, length=3, renew=renew) == pytest.approx(off / 2, abs=1e-14)


def test_rejects_texts_too_long_to_enumerate() -> None:
    for length in (0, 11):
        with pytest.raises(TheoryError):
            batch_bias(CHAINS, 2, length=length)


distributions = st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4).map(
    lambda each: np.array(each) / sum(each)
)


@given(draft=distributions, target=distributions, num_drafts=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_root_emits_the_target_distribution(
    draft: np.ndarray, target: np.ndarray, num_drafts: int
) -> None:
    chosen, none = root_step(draft, target, num_drafts, True)
    assert np.abs(chosen + none - target).max() < 1e-12


def test_a_draft_equal_to_the_target_is_never_rejected() -> None:
    chosen, none = root_step(TARGET[0], TARGET[0], 3, True)
    assert np.array_equal(chosen, TARGET[0])
    assert not none.any()


# Helpers for verdicts and flips


def test_rounding_keeps_a_flip_at_a_round_number() -> None:
    assert rounded_down(1.09 - 1e-12) == 1.09 == rounded_up(1.09 + 1e-12)
    assert (rounded_down(0.0977), rounded_up(0.0971)) == (0.097, 0.098)
    assert rounded_up(0.571, 2) == 0.58


def test_verdict_for_all_some_and_no_cases() -> None:
    assert verdict_for([True, True]) == "Holds"
    assert verdict_for([True, False]) == "Holds within limits"
    assert verdict_for([False]) == "Does not hold"


@given(where=st.floats(0.01, 0.99))
@settings(max_examples=30, deadline=None)
def test_crossing_finds_a_slope_and_a_step(where: float) -> None:
    assert crossing(lambda x: x - where, 0, 1) == pytest.approx(where, abs=1e-12)
    assert crossing(lambda x: -1.0 if x < where else 1.0, 0, 1) == pytest.approx(where, abs=1e-12)


def test_crossing_and_first_assert_a_solution() -> None:
    with pytest.raises(AssertionError):
        crossing(lambda x: x + 1, 0, 1)
    with pytest.raises(AssertionError):
        first(lambda each: each > 5, 1, 5)
