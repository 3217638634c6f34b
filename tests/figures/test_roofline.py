"""The roofline of a run: shares of the bandwidth and the free γ, against values by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specviz.figures.catalogue import CATALOGUE
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.roofline import Pass, Roofline
from specviz.figures.roofline_words import roofline_words
from specviz.record.step_costs import PassBytes, StepCosts
from specviz.record.trace import RunConfig
from tests.traces import BODY, full_trace, make_costs, make_round, make_trace, with_bodies

# At context 16, where the short run's rounds are: 200 MB and 16 · 1 MB; 20 MB and 16 · 0.25 MB.
TARGET = PassBytes(weights=200_000_000, cache=1_000_000)
DRAFT = PassBytes(weights=20_000_000, cache=250_000)
COSTS = replace(make_costs(extra=0.0003), bandwidth=24e9, target_reads=TARGET, draft_reads=DRAFT)


def figures(costs: StepCosts | None, **changes: object) -> Metrics:
    return metrics(replace(full_trace(), step_costs=costs, **changes), intervals=False)


def found(costs: StepCosts) -> Roofline:
    made = figures(costs).roofline
    assert made is not None
    return made


def test_shares_are_bytes_over_what_a_sum_reads_in_that_time() -> None:
    made = figures(COSTS)
    assert made.step_bytes == 216e6
    assert made.bandwidth_share == pytest.approx(216e6 / 24e9 / 0.010)  # 9 ms of 10
    assert made.draft_bandwidth_share == pytest.approx(24e6 / 24e9 / 0.001)
    assert made.verify_bandwidth_share == pytest.approx(0.009 / 0.0109)  # of four tokens
    for name in ("bandwidth_share", "draft_bandwidth_share", "verify_bandwidth_share"):
        assert "24 GB/s)" in CATALOGUE[name].help(made), name
    assert "= 216 MB / (10.9 ms · 24 GB/s)" in CATALOGUE["verify_bandwidth_share"].help(made)
    assert "= 24 MB / (1 ms · 24 GB/s)" in CATALOGUE["draft_bandwidth_share"].help(made)


def test_cache_bytes_are_clamped_to_the_contexts_of_the_step_costs() -> None:
    def read(context: int) -> float | None:
        trace = make_trace(["aaa", "aar"], step_costs=COSTS)
        rounds = tuple(replace(each, context_length=context) for each in trace.rounds)
        return metrics(replace(trace, rounds=rounds), intervals=False).step_bytes

    assert [read(at) for at in (4, 16, 100, 256, 9000)] == [216e6, 216e6, 300e6, 456e6, 456e6]


def test_verification_is_free_up_to_a_tenth_of_a_step() -> None:
    assert figures(COSTS).free_gamma == 3  # 9 more tokens cost as much as 0.27 of a step
    assert figures(make_costs(extra=0.0002)).free_gamma == 5
    assert figures(make_costs(extra=0.002)).free_gamma == 0
    assert figures(make_costs(extra=0.0)).free_gamma == 16
    slow, *fast = make_costs(extra=0.0).target[1:]
    slow_once = (COSTS.target[0], fast[0], tuple(2 * each for each in slow), *fast)
    assert figures(replace(COSTS, target=slow_once)).free_gamma == 1  # stops at the first slow row
    assert figures(replace(COSTS, target=COSTS.target[:1])).free_gamma is None
    assert figures(None).free_gamma is None


def test_the_interval_of_the_free_gamma_follows_from_that_of_v() -> None:
    """v is 1 + 0.02 γ, and the logarithms of both its parts have an error of 0.03."""
    costs = replace(make_costs(extra=0.0002), target_errors=(0.03,) * 17)
    free = found(costs).free
    assert free is not None
    off = math.hypot(0.03, 0.03)
    assert (free.low, free.gamma, free.high, free.last) == (
        math.floor((1.1 * math.exp(-off) - 1) / 0.02),
        5,
        math.floor((1.1 * math.exp(off) - 1) / 0.02),
        16,
    )
    assert CATALOGUE["free_gamma"].note(figures(costs)) == "interval: γ 2 to 7"
    assert roofline_words(found(costs)).endswith("error, this limit is γ 2 to 7.")
    none_free = replace(make_costs(extra=0.0011), target_errors=costs.target_errors)
    assert roofline_words(found(none_free)).endswith("error, it may be free up to γ 1.")
    errors = (0.0, *(0.9 for _ in costs.target[1:]))
    assert found(replace(costs, target_errors=errors)).free is None  # 0 to at least 16
    bare = found(make_costs()).free
    assert bare is not None
    assert bare.low is bare.high is None


def test_each_pass_has_a_time_an_error_and_a_floor() -> None:
    errors = tuple(0.01 * tokens for tokens in range(1, 18))
    made = found(replace(COSTS, target_errors=errors, interpolated=(4,)))
    assert [each.error for each in made.passes] == list(errors)
    assert made.passes[16].seconds == pytest.approx(0.0148)
    assert {each.floor for each in made.passes} == {216e6 / 24e9}
    assert (made.gamma, made.interpolated) == (3, (4,))
    assert made.verification == made.passes[3]


def test_without_a_bandwidth_only_the_free_gamma_is_known() -> None:
    """Older traces have no bandwidth."""
    made = figures(make_costs(extra=0.0003))
    assert (made.step_bytes, made.bandwidth_share, made.draft_bandwidth_share) == (None,) * 3
    assert made.verify_bandwidth_share is None
    assert made.free_gamma == 3
    assert "not measured" in roofline_words(found(make_costs()))


def test_an_older_body_gives_the_bytes_of_a_step() -> None:
    body = replace(BODY, step_bytes=100_000_000)
    made = metrics(with_bodies(full_trace(), target=body, bandwidth=20e9), intervals=False)
    assert made.bandwidth_share == pytest.approx(0.5)
    assert made.draft_bandwidth_share is None
    counted = replace(COSTS, target_reads=TARGET)
    trace = replace(with_bodies(full_trace(), target=body), step_costs=counted)
    assert metrics(trace, intervals=False).step_bytes == 216e6


def test_weights_that_depend_on_the_token_are_not_counted() -> None:
    made = found(replace(COSTS, target_reads=None))
    assert made.target.share is None
    assert made.draft is not None
    assert made.draft.share == pytest.approx(1.0)
    assert roofline_words(found(replace(COSTS, target_reads=None, draft_reads=None))).startswith(
        "The bytes of a target pass are unknown"
    )


def test_without_a_draft_it_has_no_share() -> None:
    rounds = [make_round("aar"), make_round("aaa")]
    trace = make_trace(
        rounds,
        config=RunConfig(gamma=3, drafter="prompt-lookup"),
        step_costs=replace(COSTS, draft=(), draft_reads=None),
    )
    made = metrics(trace, intervals=False)
    assert made.draft_bandwidth_share is None
    assert made.bandwidth_share == pytest.approx(0.9)
    assert made.roofline is not None
    assert "a draft step" not in roofline_words(made.roofline)


def test_the_sentences_have_the_numbers() -> None:
    assert roofline_words(found(COSTS)) == (
        "A target step reaches 90.0 % of the memory bandwidth of 24 GB/s, a draft step 100.0 % and "
        "a verification 82.6 %. Verification is free up to γ 3: a pass takes at most 10 % longer "
        "than a step."
    )
    all_free = roofline_words(found(replace(COSTS, target=make_costs(extra=0.0).target)))
    assert "free up to at least γ 16, where the table ends" in all_free
    none_free = roofline_words(found(replace(COSTS, target=make_costs(extra=0.005).target)))
    assert (
        "As measured, verification is not free at any γ: a pass over two tokens takes 1.50 target "
        "steps." in none_free
    )


def test_a_share_above_one_is_explained_by_caches() -> None:
    cached = replace(COSTS, bandwidth=10e9)
    made = figures(cached)
    assert made.bandwidth_share == pytest.approx(2.16)
    explanation = "processor's caches"
    assert explanation in roofline_words(found(cached))
    assert explanation in CATALOGUE["bandwidth_share"].note(made)
    assert explanation not in roofline_words(found(replace(COSTS, draft_reads=None)))
    assert CATALOGUE["bandwidth_share"].note(figures(COSTS)) == "of 24 GB/s"


def test_a_floor_needs_both_bytes_and_bandwidth() -> None:
    made = Pass(seconds=2.0, error=None, read=10.0, bandwidth=10.0)
    assert (made.floor, made.share) == (1.0, 0.5)
    assert replace(made, read=None).share is None
    assert replace(made, bandwidth=None).floor is None
