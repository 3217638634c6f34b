"""The bets: exactly fair under the null, growing under a bias, infinite at a forbidden token."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.evalues import (
    GROUPS,
    SETS,
    STAKES,
    Emitted,
    EmittedDistributionTest,
    Place,
    first_numbers,
    likeliest,
    log_factors,
    preferred,
)
from tests.theory.distributions import Distribution, Pair, pairs

PLACES: tuple[Place, ...] = ("start", "after an acceptance", "after a rejection", "bonus")
DRAFT = np.array([0.5, 0.2, 0.2, 0.1])
TARGET = np.array([0.3, 0.4, 0.1, 0.2])


def factors(draft: Distribution, target: Distribution, place: Place) -> Distribution:
    """Return the factors of every bet for every possible next token: [vocabulary, bets]."""
    marks = np.stack([choose(target[None], draft[None])[0] for choose in SETS.values()])
    chances = np.tile((marks * target).sum(axis=1), (len(target), 1))
    places: list[Place] = [place] * len(target)
    return np.exp(log_factors(chances, marks.T, places))


@given(pairs(), st.sampled_from(PLACES))
def test_every_bet_is_fair_under_the_null(distributions: Pair, place: Place) -> None:
    draft, target = distributions
    found = factors(draft, target, place)
    assert found.shape[1] == len(SETS) * len(GROUPS) * len(STAKES)
    assert found.min() > 0.0
    np.testing.assert_allclose(target @ found, 1.0, atol=1e-12)


@given(pairs(largest=4), st.integers(0, 3))
def test_the_mean_of_all_bets_is_fair_over_several_tokens(distributions: Pair, turn: int) -> None:
    """Over all texts of three tokens with different distributions the expected wealth is 1."""
    draft, target = distributions
    size = len(target)
    rows = [np.roll(target, each) for each in range(3)]
    places: list[Place] = [PLACES[(turn + each) % 4] for each in range(3)]
    expected = 0.0
    for text in product(range(size), repeat=3):
        chance = math.prod(row[token] for row, token in zip(rows, text, strict=True))
        if chance > 0.0:
            test = watched(text, rows, [draft] * 3, places)
            expected += chance * math.exp(test.log_e_now)
    assert expected == pytest.approx(1.0, abs=1e-12)


def watched(
    text: tuple[int, ...],
    target: list[Distribution],
    draft: list[Distribution],
    places: list[Place],
) -> EmittedDistributionTest:
    test = EmittedDistributionTest()
    test.observe(
        Emitted(tokens=text, target=np.array(target), draft=np.array(draft), places=places)
    )
    return test


def test_bets_on_a_kind_of_place_abstain_elsewhere() -> None:
    for place in PLACES:
        found = factors(DRAFT, TARGET, place).reshape(4, len(GROUPS), len(SETS), len(STAKES))
        moved = [bool((found[:, at] != 1.0).any()) for at in range(len(GROUPS))]
        assert moved == [group in ("everywhere", place) for group in GROUPS]


def test_the_sets() -> None:
    target, draft = TARGET[None], DRAFT[None]
    assert preferred(target, draft)[0].tolist() == [False, True, False, True]
    assert likeliest(target, draft)[0].tolist() == [True, True, False, False]
    assert first_numbers(target, draft)[0].tolist() == [True, False, False, False]


def sampled(probs: Distribution, count: int, seed: int) -> EmittedDistributionTest:
    """Test tokens sampled from ``probs`` against the target."""
    tokens = np.random.default_rng(seed).choice(len(probs), count, p=probs)
    test = EmittedDistributionTest(0.01)
    for begin in range(0, count, 500):
        part = tokens[begin : begin + 500].tolist()
        rows = len(part)
        places: list[Place] = ["after an acceptance"] * rows
        test.observe(
            Emitted(
                tokens=part,
                target=np.tile(TARGET, (rows, 1)),
                draft=np.tile(DRAFT, (rows, 1)),
                places=places,
            )
        )
    return test


def test_target_samples_seldom_alarm() -> None:
    alarms = sum(sampled(TARGET, 500, seed).alarm for seed in range(300))
    assert alarms <= 9  # 1 % and three deviations


def test_resampling_from_the_target_after_a_rejection_alarms() -> None:
    overlap = np.minimum(DRAFT, TARGET)
    assert sampled(overlap + (1.0 - overlap.sum()) * TARGET, 2000, 0).alarm
    assert not sampled(overlap + np.maximum(TARGET - DRAFT, 0.0), 2000, 0).alarm


def test_an_alarm_is_permanent() -> None:
    test = sampled(DRAFT, 1000, 0)
    assert test.alarm
    highest = test.log_e
    calm = np.random.default_rng(1).choice(4, 3000, p=TARGET).tolist()
    places: list[Place] = ["start"] * 3000
    distributions = {"target": np.tile(TARGET, (3000, 1)), "draft": np.tile(DRAFT, (3000, 1))}
    test.observe(Emitted(tokens=calm, places=places, **distributions))
    assert test.alarm
    assert test.log_e >= highest
    assert test.log_e_now < test.log_e
    assert test.tokens == 4000


def test_a_wrong_token_at_temperature_0_is_a_certain_alarm() -> None:
    target = np.eye(4)[[2, 0, 1]]
    places: list[Place] = ["start", "after an acceptance", "bonus"]
    right = Emitted(tokens=[2, 0, 1], target=target, draft=target, places=places)
    test = EmittedDistributionTest()
    for _ in range(50):
        test.observe(right)
    assert test.log_e == 0.0
    assert test.p_value == 1.0
    test.observe(Emitted(tokens=[2, 3, 1], target=target, draft=target, places=places))
    assert test.log_e == math.inf
    assert test.p_value == 0.0
    assert test.alarm
    test.observe(right)
    assert test.p_value == 0.0


def test_a_token_possible_by_rounding_is_no_certain_alarm() -> None:
    target = np.eye(4)[[2]]
    possible = np.array([[False, True, True, False]])
    for token, certain in ((1, False), (0, True)):
        test = EmittedDistributionTest()
        distributions = {"target": target, "draft": target, "possible": possible}
        test.observe(Emitted(tokens=[token], places=["start"], **distributions))
        assert test.alarm == certain


def test_a_detectable_bias_is_detected_about_half_the_time() -> None:
    """At that size the expected wealth reaches the limit."""
    count = 3000
    named = sampled(TARGET, count, 0).detectable()
    assert named is not None
    assert named.tokens == "the target's likeliest tokens"
    assert 0.0 < named.bias < 0.1
    shift = named.bias * np.array([0.5, 0.5, -0.5, -0.5])
    found = [sampled(TARGET + factor * shift, count, seed).alarm
             for factor in (0.5, 1.0, 1.5) for seed in range(40)]  # fmt: skip
    half, whole, more = (sum(found[at : at + 40]) for at in (0, 40, 80))
    assert half <= 8
    assert 10 <= whole <= 35
    assert more >= 36


def test_nothing_is_detectable_before_the_first_token() -> None:
    test = EmittedDistributionTest()
    assert (test.p_value, test.alarm, test.detectable()) == (1.0, False, None)
    test.observe(Emitted(tokens=[], target=np.empty((0, 4)), draft=np.empty((0, 4)), places=[]))
    assert test.tokens == 0


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan])
def test_rejects_a_level_outside_0_to_1(level: float) -> None:
    with pytest.raises(TheoryError, match="The level is"):
        EmittedDistributionTest(level)


@pytest.mark.parametrize("row", [[0.5, 0.6], [-0.1, 1.1], [math.nan, 1.0]])
def test_rejects_an_invalid_distribution(row: list[float]) -> None:
    with pytest.raises(TheoryError, match="does not sum to 1"):
        EmittedDistributionTest().observe(
            Emitted(tokens=[0], target=[row], draft=[[0.5, 0.5]], places=["start"])
        )
