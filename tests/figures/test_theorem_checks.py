"""The checks of theorems on handmade traces, against values computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import ConfigError, SpecvizError, TraceError
from specviz.figures.theorem_checks import (
    emitted_distribution,
    lazier,
    measured_bias,
    pareto,
    rejection_count,
)
from specviz.record.run_config import ResidualName
from specviz.record.trace import Extra, Round, RunConfig, Trace
from tests.engine import oracle
from tests.test_houses import MODELS, PAGE, loaded_by
from tests.traces import make_candidate, make_round, make_trace

RESIDUALS: tuple[ResidualName, ...] = ("leftover", "target", "draft")
REF5_DRAFT = np.array([0.50, 0.20, 0.15, 0.10, 0.05])
REF5_TARGET = np.array([0.25, 0.30, 0.10, 0.25, 0.10])
# At epsilon 0.1 the reference example rejects 0.15; overlap 0.7; these biases.
REF5_BIAS: dict[ResidualName, float] = {"leftover": 0.15, "target": 0.2025, "draft": 0.2475}


def ref5_round(verdicts: str, tokens: list[int], bias: float, **changes: Any) -> Round:
    """Return a round of over-acceptance by 0.1 on the reference example; it emits ``tokens``."""
    facts: dict[str, Any] = {"expected_acceptance": 0.85, "overlap": 0.7, "bias": bias} | changes
    candidates = tuple(
        make_candidate(
            letter,
            draft_prob=float(REF5_DRAFT[tokens[i] if letter == "a" else 0]),
            target_prob=float(REF5_TARGET[tokens[i] if letter == "a" else 0]),
            **facts,
        )
        for i, letter in enumerate(verdicts)
    )
    last, recovered = tokens[-1], "r" in verdicts
    extra = Extra(
        token_id=last,
        text="",
        kind="recovered" if recovered else "bonus",
        target_prob=float(REF5_TARGET[last]),
        draft_prob=float(REF5_DRAFT[last]) if recovered else None,
        uniform=0.5,
    )
    return replace(make_round(verdicts), candidates=candidates, extra=extra)


def lossy(*rounds: Round, residual: ResidualName = "leftover", **changes: Any) -> Trace:
    config = RunConfig(rule="over-accept", epsilon=0.1, residual=residual, **changes)
    return make_trace(rounds, config=config)


def test_counts_rejections_at_tested_positions_only() -> None:
    check = rejection_count([make_trace(("aar", "aaa", "rdd"))])  # probabilities of 0.5
    assert (check.num_tested, check.observed, check.expected) == (7, 2, 3.5)
    assert check.num_tokens == 8
    assert check.z == pytest.approx(-1.5 / math.sqrt(7 / 4), abs=1e-12)


def test_runs_add_up() -> None:
    one = make_trace([make_round("ar", expected=[0.9, 0.2])])
    other = make_trace([make_round("rdd", expected=[0.6, 0.0, 0.0])])
    check = rejection_count([one, other])
    assert (check.num_tested, check.observed) == (3, 2)
    assert check.expected == pytest.approx(0.1 + 0.8 + 0.4, abs=1e-12)
    assert check.z == pytest.approx(0.7 / math.sqrt(0.09 + 0.16 + 0.24), abs=1e-12)


def test_equal_models_have_no_z() -> None:
    check = rejection_count([make_trace([make_round("aaa", expected=1.0 + 1e-6)])])
    assert (check.observed, check.expected, check.z) == (0, 0.0, None)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1))
def test_no_share_of_the_odds_rejects_less_than_the_bound(probs: list[float], share: float) -> None:
    check = lazier([make_trace([make_round("a" * len(probs), expected=probs)])], share)
    assert check.bound == pytest.approx(sum(1 - each for each in probs), abs=1e-12)
    assert check.expected == pytest.approx(sum(1 - share * each for each in probs), abs=1e-12)
    assert check.expected >= check.bound - 1e-12


def test_the_whole_share_is_the_lossless_rule() -> None:
    trace = make_trace(("aar", "aaa", "rdd"))
    check, lossless = lazier([trace], 1.0), rejection_count([trace])
    assert (check.expected, check.bound, check.z) == (3.5, 3.5, lossless.z)
    assert (check.share, check.observed) == (1.0, 2)
    nothing = lazier([trace], 0.0)
    assert (nothing.expected, nothing.z) == (7.0, None)


@pytest.mark.parametrize("residual", RESIDUALS)
def test_the_reference_example_for_each_residual(residual: ResidualName) -> None:
    bias = REF5_BIAS[residual]
    check = pareto([lossy(ref5_round("aar", [0, 1, 3], bias), residual=residual)])
    assert check.num_tested == 3
    assert check.mean_reject == pytest.approx(0.15, abs=1e-12)
    assert check.mean_bias == pytest.approx(bias, abs=1e-12)
    assert check.mean_distance == pytest.approx(0.30, abs=1e-12)
    assert check.gap.mean() == pytest.approx(bias - 0.15, abs=1e-12)
    assert check.largest_gap == pytest.approx(bias - 0.15, abs=1e-12)
    assert (check.observed, check.expected) == (1, pytest.approx(0.45, abs=1e-12))
    assert check.z == pytest.approx(0.55 / math.sqrt(3 * 0.15 * 0.85), abs=1e-12)


def test_a_position_off_the_line_is_not_averaged_away() -> None:
    above, below = ref5_round("a", [0, 1], 0.25), ref5_round("a", [0, 1], 0.05)
    check = pareto([lossy(above, below)])
    assert check.gap.mean() == pytest.approx(0.0, abs=1e-12)
    assert check.largest_gap == pytest.approx(0.1, abs=1e-12)


def test_emitted_tokens_show_the_bias() -> None:
    """Emitted: token 0, over-accepted (0.35 for 0.25), then token 1, emitted too rarely."""
    check = measured_bias([lossy(ref5_round("ard", [0, 1], 0.15))])
    assert check.num_tokens == 2
    shown = (1 - 0.25 / 0.35, 0.0)
    assert check.measured == pytest.approx(sum(shown) / 2, abs=1e-12)
    assert check.expected == pytest.approx(0.15, abs=1e-12)
    spread = math.hypot(shown[0] - 0.15, shown[1] - 0.15)
    assert check.standard_error == pytest.approx(spread / 2, abs=1e-12)
    assert check.z == pytest.approx((sum(shown) - 0.30) / spread, abs=1e-12)


def test_a_bonus_token_does_not_count() -> None:
    check = measured_bias([lossy(ref5_round("aa", [0, 0, 4], 0.15))])
    assert check.num_tokens == 2
    assert check.measured == pytest.approx(1 - 0.25 / 0.35, abs=1e-12)


WEIGHTS = st.lists(st.integers(0, 20), min_size=5, max_size=5).filter(any)


@settings(max_examples=200)
@given(WEIGHTS, WEIGHTS, st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0]), st.sampled_from(RESIDUALS))
def test_the_mean_estimate_is_the_bias(
    draft_weights: list[int], target_weights: list[int], epsilon: float, residual: ResidualName
) -> None:
    """An identity over all tokens that can be emitted, for each residual."""
    draft, target = (np.array(each) / sum(each) for each in (draft_weights, target_weights))
    reject = 1.0 - np.minimum(draft, target + epsilon).sum()
    overlap = np.minimum(draft, target).sum()
    emitted = emitted_distribution(draft, target, epsilon, residual, reject.clip(0, 1), overlap)
    np.testing.assert_allclose(
        emitted, oracle.emitted_distribution(draft, target, epsilon, residual), rtol=0, atol=1e-12
    )
    mean = sum(x * max(0.0, 1.0 - t / x) for x, t in zip(emitted, target, strict=True) if x > 0)
    assert mean == pytest.approx(oracle.total_variation(emitted, target), abs=1e-12)


def test_does_not_divide_by_a_probability_of_zero() -> None:
    entry = ref5_round("r", [2], 0.0, expected_acceptance=1.0, overlap=1.0)
    assert entry.extra is not None
    entry = replace(entry, extra=replace(entry.extra, draft_prob=0.0))
    check = measured_bias([lossy(entry)])
    assert (check.measured, check.expected, check.z) == (0.0, 0.0, None)


CHECKS: tuple[Callable[[list[Trace]], object], ...] = (
    rejection_count,
    lambda traces: lazier(traces, 0.5),
    pareto,
    measured_bias,
)


@pytest.mark.parametrize("check", CHECKS[:2])
def test_theorem_1_rejects_other_runs(check: Callable[[list[Trace]], object]) -> None:
    with pytest.raises(ConfigError, match="Theorem 1"):
        check([make_trace(), lossy(ref5_round("a", [0, 1], 0.15))])
    with pytest.raises(ConfigError, match="greedy"):
        check([make_trace(config=RunConfig(temperature=0.0))])


@pytest.mark.parametrize("check", CHECKS[2:])
def test_theorem_5_rejects_other_runs(check: Callable[[list[Trace]], object]) -> None:
    with pytest.raises(ConfigError, match="does not use over-acceptance"):
        check([make_trace()])
    with pytest.raises(ConfigError, match="bias"):
        check([lossy(make_round("aar"))])


@pytest.mark.parametrize("check", CHECKS)
def test_rejects_runs_without_a_tested_candidate(check: Callable[[list[Trace]], object]) -> None:
    empty = [lossy(make_round("")), lossy(make_round(""))] if check in CHECKS[2:] else []
    for traces in ([], empty):
        with pytest.raises(SpecvizError, match="No candidate was tested"):
            check(traces)


def test_rejects_a_share_out_of_range() -> None:
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(ConfigError, match="share"):
            lazier([make_trace()], share)


def test_a_rejection_without_a_recovered_token_is_a_trace_error() -> None:
    entry = replace(ref5_round("r", [1], 0.15), extra=None)
    with pytest.raises(TraceError, match="Round 1"):
        measured_bias([lossy(entry)])


def test_needs_neither_models_nor_a_page() -> None:
    assert not loaded_by("specviz.figures.theorem_checks") & (MODELS | PAGE)
