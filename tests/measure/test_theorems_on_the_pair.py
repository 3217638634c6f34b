"""Theorems 1, 2 and 5 of Yin et al. 2024 on texts of the embedded pair.

For each check, a rule that deviates from its record must fail.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from torch import Tensor

from specviz.engine import load_pair
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.decoding.verify import Lossless, OverAccept, Rule
from specviz.engine.model.pair import Pair
from specviz.figures.theorem_checks import lazier, measured_bias, pareto, rejection_count
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.run_config import ResidualName
from specviz.record.trace import RunConfig, Trace
from tests.traces import make_trace

EPSILONS = (0.02, 0.1, 0.3)
RESIDUALS: tuple[ResidualName, ...] = ("leftover", "target")
EACH_EPSILON = pytest.mark.parametrize(
    "epsilon", [*(pytest.param(each, marks=pytest.mark.thorough) for each in (0.02, 0.1)), 0.3]
)
LIMIT = 4.0  # standard deviations


@cache
def the_pair() -> Pair:
    return load_pair(PairSpec(name="tinystories", threads=1))


def written(
    seed: int, *, broken: Rule | None = None, tokens: int = 400, **settings: object
) -> Trace:
    """Return a run at temperature 1, with another prompt for each seed."""
    given = {"temperature": 1.0, "ignore_eos": True, "max_new_tokens": tokens, "seed": seed}
    config = RunConfig(**(given | settings))  # pyright: ignore[reportArgumentType]
    run = Speculation(the_pair(), read_presets()[seed].text, config, rule=broken)
    return make_trace(list(run), config=config, prompt=run.prompt)


@cache
def lossless_run(seed: int) -> Trace:
    return written(seed)


def lossless_runs() -> tuple[Trace, ...]:
    return tuple(map(lossless_run, range(6)))


@cache
def lossy_run(epsilon: float, residual: ResidualName) -> Trace:
    seed = EPSILONS.index(epsilon) + 3 * RESIDUALS.index(residual)
    return written(seed, rule="over-accept", epsilon=epsilon, residual=residual)


class Hasty(Lossless):
    """Over-accepts but is recorded as lossless."""

    def accepts(
        self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
    ) -> Tensor:
        del distributions
        return uniforms * draft_probs < target_probs + 0.2


class Strict(OverAccept):
    """Verifies losslessly but is recorded as over-acceptance."""

    def accepts(
        self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
    ) -> Tensor:
        del distributions
        return uniforms * draft_probs < target_probs


def z_of(value: float | None) -> float:
    assert value is not None
    return value


@pytest.mark.thorough
def test_expected_rejections_equal_the_sum_of_distances() -> None:
    check = rejection_count(lossless_runs())
    assert check.num_tested >= 2_000
    assert check.num_tokens >= check.num_tested
    assert 0.1 < check.expected / check.num_tested < 0.9
    assert abs(z_of(check.z)) < LIMIT


def test_a_rule_that_accepts_more_than_recorded_fails() -> None:
    assert z_of(rejection_count([written(9, broken=Hasty())]).z) < -LIMIT


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_lazier_unbiased_rule_rejects_more_on_the_same_positions(share: float) -> None:
    check = lazier(lossless_runs(), share)
    accepted = rejection_count(lossless_runs()).num_tested - check.bound
    assert check.expected - check.bound == pytest.approx((1 - share) * accepted)
    assert check.observed < check.expected
    assert z_of(check.z) < -LIMIT  # the runs did not use that rule


@pytest.mark.parametrize("residual", RESIDUALS)
@EACH_EPSILON
def test_over_acceptance_has_the_recorded_rejections_and_bias(
    epsilon: float, residual: ResidualName
) -> None:
    run = [lossy_run(epsilon, residual)]
    assert pareto(run).num_tested > 300
    assert abs(z_of(pareto(run).z)) < LIMIT
    shown = measured_bias(run)
    assert shown.num_tokens == pareto(run).num_tested
    assert 0.0 < shown.standard_error < 0.03
    assert abs(z_of(shown.z)) < LIMIT


@pytest.mark.parametrize("epsilon", [pytest.param(0.1, marks=pytest.mark.thorough), 0.3])
def test_an_expectation_without_epsilon_does_not_fit(epsilon: float) -> None:
    run = lossy_run(epsilon, "leftover")
    rounds = [
        replace(
            entry,
            candidates=tuple(
                replace(each, expected_acceptance=each.overlap) for each in entry.candidates
            ),
        )
        for entry in run.rounds
    ]
    assert z_of(pareto([replace(run, rounds=tuple(rounds))]).z) < -LIMIT


@EACH_EPSILON
def test_rejection_and_bias_add_up_to_the_distance_at_every_token(epsilon: float) -> None:
    """Up to float32 rounding: a softmax over 4,096 tokens sums to 1 within 4e-6."""
    check = pareto([lossy_run(epsilon, "leftover")])
    assert check.largest_gap < 1e-5
    assert abs(check.gap.mean()) < 3e-6
    assert check.distance.max() > 0.5
    lossless_share = rejection_count([lossless_run(0)])
    assert check.mean_reject < 0.8 * lossless_share.expected / lossless_share.num_tested


@EACH_EPSILON
def test_the_target_as_residual_is_above_the_pareto_front(epsilon: float) -> None:
    check = pareto([lossy_run(epsilon, "target")])
    assert check.gap.min() > -1e-5
    assert check.gap.mean() > 1e-3


@pytest.mark.thorough
def test_at_the_same_positions_the_leftover_residual_is_less_biased() -> None:
    """Rejections depend on epsilon alone, so the gap is the bias that decoding-UNO adds."""
    gaps = [pareto([lossy_run(epsilon, "target")]).gap.mean() for epsilon in EPSILONS]
    assert gaps == sorted(gaps, reverse=True)  # it shrinks with the rejections
    together = [lossy_run(0.02, residual) for residual in RESIDUALS]
    best, uno = (measured_bias([run]) for run in together)
    assert uno.measured > best.measured


def test_a_rule_that_ignores_epsilon_fails() -> None:
    rule = Strict(0.3, "leftover")
    run = [written(9, broken=rule, rule="over-accept", epsilon=0.3, residual="leftover")]
    assert z_of(pareto(run).z) > LIMIT
    assert z_of(measured_bias(run).z) < -LIMIT
