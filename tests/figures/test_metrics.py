"""Every figure of a handmade trace against values computed by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from specviz.figures.metrics import Metrics, metrics, resampled
from specviz.figures.speedup_words import speedup_sentence
from specviz.record.step_costs import ShapeCosts
from specviz.record.trace import Baseline, Forecast, RunConfig
from tests.paper_trace import COSTS, LOOKUP, ROUNDS, close, paper_trace
from tests.traces import Passes, make_costs, make_round, make_trace

NEEDS_BASELINE = (
    "baseline_tokens_per_second", "speedup_observed", "speedup_end_to_end", "baseline_ttft_ms",
    "speedup_low", "speedup_high",
)  # fmt: skip
NEEDS_COSTS = ("gamma", "c", "v", "speedup_ideal", "speedup_accounted")


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def test_counts(figures: Metrics) -> None:
    assert (figures.num_rounds, figures.num_whole_rounds) == (4, 3)
    assert figures.num_drafted == 3 + 3 + 3 + 2
    assert figures.num_tested == 3 + 3 + 1 + 1
    assert figures.num_accepted == 2 + 3 + 0 + 1
    assert figures.num_emitted == 3 + 4 + 1 + 1


def test_acceptance(figures: Metrics) -> None:
    assert figures.alpha_observed == close(6 / 8)
    assert figures.alpha_expected == close((0.9 + 0.8 + 0.7 + 1.5 + 0.2 + 0.4) / 8)
    assert figures.draft_acceptance_rate == close(6 / 11)
    assert figures.alpha_by_position == (close(3 / 4), close(2 / 2), close(1 / 2))
    assert figures.acceptance_by_position == (close(3 / 4), close(2 / 4), close(1 / 3))


def test_alpha_is_the_expected_one_where_it_is_recorded(figures: Metrics) -> None:
    assert figures.alpha == figures.alpha_expected
    assert replace(figures, alpha_expected=None).alpha == figures.alpha_observed


def test_tau_leaves_out_the_cut_round(figures: Metrics) -> None:
    assert figures.tau == close(8 / 3)


def test_step_costs_at_the_mean_context(figures: Metrics) -> None:
    assert figures.gamma == 3
    assert figures.c == close((4 / 3) / 12)
    assert figures.v == close(14 / 12)


def test_a_tree_has_the_costs_of_its_own_rounds_or_none() -> None:
    """3 ms to draft two levels, 22 ms to verify ten rows, steps of 10 ms."""
    shape = ShapeCosts(
        shape=(3, 2), draft=(0.003,) * 3, verify=(0.022,) * 3, draft_error=0.03, verify_error=0.04
    )
    costs = replace(make_costs(), target_errors=(0.0,), shape=shape)
    trace = make_trace(["ar", "ra", "rr"], config=RunConfig(branching=(3, 2)), step_costs=costs)
    figures = metrics(trace)
    assert (figures.gamma, figures.c, figures.v) == (2, close(0.15), close(2.2))
    assert figures.tau is not None
    assert figures.speedup_accounted == close(figures.tau / 2.5)
    assert figures.round_cost_error == close(math.hypot(3 * 0.03, 22 * 0.04) / 25)
    for wrong in (make_costs(), replace(costs, shape=replace(shape, shape=(2, 3)))):
        other = metrics(replace(trace, step_costs=wrong))
        assert (other.gamma, other.c, other.v, other.speedup_accounted) == (None,) * 4


def test_speedups(figures: Metrics) -> None:
    alpha = 0.5625
    assert figures.speedup_observed == close(80.8 / 46.5)
    assert figures.speedup_end_to_end == close((20 + 80.8) / (20 + 5 + 46.5))
    assert figures.speedup_ideal == close((1 + alpha + alpha**2 + alpha**3) / (3 / 9 + 1))
    assert figures.speedup_accounted == close((8 / 3) / (3 / 9 + 7 / 6))
    assert figures.speedup_forecast is None


def test_rates_and_first_token(figures: Metrics) -> None:
    assert figures.tokens_per_second == close(8 / 0.0465)
    assert figures.baseline_tokens_per_second == close(8 / 0.0808)
    assert figures.ttft_ms == close(20 + 5 + 15)
    assert figures.baseline_ttft_ms == close(20 + 10.1)


def test_wasted_share(figures: Metrics) -> None:
    # Each round drafts for 3 ms: a third is wasted, nothing, everything.
    assert figures.wasted_share == close((1 + 0 + 3) / (15 + 15 + 15))


def test_the_interval_of_a_single_slice_comes_from_its_halves(figures: Metrics) -> None:
    low, high = figures.speedup_low, figures.speedup_high
    assert low is not None
    assert high is not None
    apart = math.log((0.0800 / 0.046) / (0.0816 / 0.047))
    assert math.log(high / low) == pytest.approx(12.706 * apart, rel=1e-3)
    assert (figures.speedup_pairs, figures.speedup_pairs_needed) == (1, None)


def test_forecast_is_taken_from_the_trace() -> None:
    forecast = Forecast(speedup=1.4, tau=2.5, kind="story", num_texts=4)
    assert metrics(paper_trace(forecast=forecast)).speedup_forecast == 1.4


def test_a_run_without_a_baseline_still_has_a_rate() -> None:
    figures = metrics(paper_trace(baseline=None))
    assert figures.tokens_per_second == close(8 / 0.045)
    assert [getattr(figures, name) for name in NEEDS_BASELINE] == [None] * 6
    assert figures.speedup_accounted is not None


def test_without_step_costs() -> None:
    figures = metrics(paper_trace(step_costs=None))
    assert [getattr(figures, name) for name in NEEDS_COSTS] == [None] * 5
    assert figures.speedup_observed is not None


def test_without_a_draft_row_in_the_table() -> None:
    figures = metrics(paper_trace(step_costs=replace(COSTS, draft=())))
    assert (figures.c, figures.speedup_ideal, figures.speedup_accounted) == (None, None, None)
    assert figures.v == close(14 / 12)


def test_a_table_too_short_for_gamma_gives_no_v() -> None:
    costs = replace(COSTS, target=COSTS.target[:3])
    figures = metrics(paper_trace(step_costs=costs))
    assert (figures.v, figures.speedup_accounted) == (None, None)
    assert figures.c == close(1 / 9)


@pytest.mark.parametrize("rounds", [(), ROUNDS[3:]], ids=["no rounds", "cut rounds only"])
@pytest.mark.parametrize("config", [RunConfig(gamma=3), LOOKUP], ids=["model", "lookup"])
def test_figures_are_none_without_a_whole_round(rounds: tuple[Any, ...], config: RunConfig) -> None:
    count = len(rounds)
    passes = Passes(target=([0.1] * count,) * 2, speculative=([0.1] * count,) * 2)
    trace = make_trace(rounds, config=config, step_costs=make_costs(), baseline=passes)
    figures = metrics(trace)
    unknown = ("tau", "tokens_per_second", "wasted_share", *NEEDS_COSTS, *NEEDS_BASELINE)
    assert {name: getattr(figures, name) for name in unknown} == dict.fromkeys(unknown)
    assert (figures.num_rounds, figures.num_whole_rounds) == (count, 0)
    assert (figures.alpha_observed is None) == (count == 0)
    assert (figures.ttft_ms is None) == (count == 0)
    assert figures.intervals.prompt is None
    assert speedup_sentence(figures, trace).startswith("No whole round was timed")
    json.dumps(figures.as_dict(), allow_nan=False)


def test_positions_never_reached() -> None:
    figures = metrics(make_trace(["r", "r"], config=RunConfig(gamma=3)))
    assert figures.alpha_by_position == (0.0, None, None)
    assert figures.acceptance_by_position == (0.0, None, None)


def test_greedy() -> None:
    rounds = [make_round("ar", expected=(1.0, 0.0)), make_round("aa", expected=1.0)]
    figures = metrics(make_trace(rounds, config=RunConfig(gamma=2, temperature=0.0)))
    assert figures.alpha_observed == figures.alpha_expected == 0.75
    assert figures.intervals.coins is None


def test_an_expected_acceptance_slightly_above_one_is_one() -> None:
    trace = make_trace([make_round("aaa", expected=1 + 1e-7)], step_costs=make_costs())
    figures = metrics(trace)
    assert figures.alpha_expected == 1.0
    assert figures.speedup_ideal == close(4 / 1.3)


def test_prompt_lookup_uses_the_mean_number_drafted() -> None:
    # Drafted 0, 4 and 2 (mean 2): no draft steps, three tokens to verify.
    rounds = [make_round(""), make_round("aaar", expected=0.25), make_round("aa", expected=0.25)]
    figures = metrics(make_trace(rounds, config=LOOKUP, step_costs=make_costs()))
    assert (figures.gamma, figures.c, figures.v) == (2, 0.0, close(1.2))
    assert figures.tau == close((1 + 4 + 3) / 3)
    assert figures.speedup_ideal == close(1 + 0.25 + 0.0625)
    assert figures.speedup_accounted == close((8 / 3) / 1.2)
    assert figures.alpha_by_position == (1.0, 1.0, 1.0, 0.0)


def test_costs_of_varied_rounds_are_averaged_over_the_rounds() -> None:
    """Two rounds verify one token, two verify five; from three tokens on, a pass costs double."""
    costs = make_costs(extra=0.0)
    plain, *more = costs.target
    doubled = tuple(tuple(2 * each for each in row) for row in more[1:])
    costs = replace(costs, target=(plain, more[0], *doubled), overhead_each=0.001)
    lookup = metrics(make_trace(["", "", "aaaa", "aaaa"], config=LOOKUP, step_costs=costs))
    assert (lookup.gamma, lookup.c, lookup.v) == (2, 0.0, close(1.5))  # not 2, the cost of γ 2
    assert lookup.overhead == close(0.2)
    stopping = RunConfig(gamma=4, draft_until="confidence:0.4")
    drafted = metrics(make_trace(["", "", "aaaa", "aaaa"], config=stopping, step_costs=costs))
    assert drafted.c == close(0.1)
    uneven = metrics(make_trace(["", "", "", "aaaa", "aaaa"], config=LOOKUP, step_costs=costs))
    assert uneven.speedup_limit == close((8 / 5 + 1) / (7 / 5 + 0.16))
    assert drafted.speedup_accounted == close((12 / 4) / (0.2 + 1.5 + 0.2))


@pytest.mark.parametrize(("drafted", "gamma"), [((0, 1), 1), ((2, 3), 3), ((0, 0, 1), 0)])
def test_prompt_lookup_rounds_to_the_nearest(drafted: tuple[int, ...], gamma: int) -> None:
    rounds = ["a" * count for count in drafted]
    assert metrics(make_trace(rounds, config=LOOKUP, step_costs=make_costs())).gamma == gamma


def test_prompt_lookup_that_never_drafted() -> None:
    figures = metrics(make_trace(["", ""], config=LOOKUP, step_costs=make_costs()))
    assert (figures.tau, figures.alpha_observed, figures.alpha_expected) == (1.0, None, None)
    assert (figures.draft_acceptance_rate, figures.speedup_ideal) == (None, None)
    assert (figures.speedup_accounted, figures.wasted_share) == (1.0, 0.0)


# Timing


@pytest.mark.parametrize(("plain", "spec"), [((0.01,), (0.02,)), ((0.0, 0.0), (0.0, 0.0))])
def test_no_interval_without_two_passes_per_lane(
    plain: tuple[float, ...], spec: tuple[float, ...]
) -> None:
    passes = Passes(target=[[each] * 3 for each in plain], speculative=[[each] for each in spec])
    figures = metrics(make_trace(["aar"], baseline=passes))
    assert (figures.speedup_low, figures.speedup_high) == (None, None)
    assert (figures.speedup_observed is not None) == (len(plain) == len(spec) == 1)


def test_a_baseline_without_slices() -> None:
    trace = make_trace(baseline=Baseline(slices=(), prefill=0.1))
    figures = metrics(trace)
    assert [getattr(figures, name) for name in NEEDS_BASELINE] == [None] * 6
    assert figures.tokens_per_second is not None


def test_errors_of_costs_carry_over_to_figures() -> None:
    known = replace(make_costs(), draft_errors=(0.03, 0.5, 0.03), target_errors=(0.04,) * 17)
    figures = metrics(make_trace(step_costs=known))
    assert figures.c_error == close(0.05)
    assert figures.v_error == close(math.hypot(0.04, 0.04))
    drafting, verifying = 3 * 0.001, 0.013
    round_error = math.hypot(drafting * 0.03, verifying * 0.04) / (drafting + verifying)
    assert figures.round_cost_error == close(math.hypot(round_error, 0.04))
    assert metrics(make_trace(step_costs=make_costs())).v_error is None


def test_figures_follow_from_what_help_shows(figures: Metrics) -> None:
    seconds, alone = figures.seconds or 0, figures.target_seconds or 0
    assert figures.tokens_per_second == figures.num_tokens / seconds
    assert figures.baseline_tokens_per_second == figures.num_tokens / alone
    assert figures.speedup_observed == alone / seconds
    assert figures.alpha_expected == figures.expected_accepted / figures.num_tested
    assert figures.wasted_share == figures.wasted_seconds / figures.decode_seconds


def test_intervals_can_be_added_later() -> None:
    trace = make_trace(["aar", "aaa"] * 10)
    assert resampled(metrics(trace, intervals=False)) == metrics(trace)
