"""Every figure against numbers worked out by hand from a trace made by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specviz.analysis import (
    Metrics,
    candidates_frame,
    kind_interval,
    metrics,
    rounds_frame,
    verdict_sentence,
)
from specviz.trace import (
    Alternatives,
    Baseline,
    Block,
    Forecast,
    Insight,
    RunConfig,
    StepCosts,
    Trace,
)
from tests.traces import make_baseline, make_costs, make_round, make_trace

LOOKUP = RunConfig(gamma=4, drafter="prompt-lookup")
NEEDS_TIME = ("tokens_per_second", "ttft_ms", "wasted_share")
NEEDS_BASELINE = (
    "baseline_tokens_per_second", "speedup_observed", "speedup_end_to_end", "baseline_ttft_ms",
    "noisy", "drift",
)  # fmt: skip
NEEDS_COSTS = ("gamma", "c", "v", "speedup_ideal", "speedup_accounted")

# Contexts 4, 7, 11 (mean 22/3), then the cut round at 12. Tokens 3 + 4 + 1, then 1.
ROUNDS = (
    make_round("aar", expected=(0.9, 0.8, 0.7), times=(0.003, 0.010, 0.002)),
    make_round("aaa", expected=0.5, times=(0.003, 0.011, 0.001)),
    make_round("rdd", expected=(0.2, 0.6, 0.6), times=(0.003, 0.010, 0.002)),
    make_round("ad", expected=(0.4, 0.4), cut="eos", times=(0.5, 0.5, 0.5)),
)
# A third of the way from context 4 to 14: draft 4/3 ms, target 12 ms, verify of 4 tokens 14 ms.
COSTS = StepCosts(
    contexts=(4, 14),
    draft=((0.001, 0.002), (0.005, 0.005)),
    target=((0.010, 0.016), (0.5, 0.5), (0.5, 0.5), (0.012, 0.018), (0.5, 0.5)),
)
# Whole rounds: 80.0 and 81.6 ms; 46 and 47 ms. The cut round's times are absurd on purpose.
BASELINE = make_baseline(
    target=([0.0100] * 8 + [9.0], [0.0102] * 8 + [7.0]),
    speculative=([0.015, 0.015, 0.016, 5.0], [0.016, 0.015, 0.016, 3.0]),
    prefill=0.02,
)


def paper_trace(**fields: Any) -> Trace:
    return make_trace(
        ROUNDS, **({"step_costs": COSTS, "baseline": BASELINE, "finish": "eos"} | fields)
    )


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


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


def test_tau_leaves_out_the_cut_round(figures: Metrics) -> None:
    assert figures.tau == close(8 / 3)


def test_step_costs_at_the_mean_context(figures: Metrics) -> None:
    assert figures.gamma == 3
    assert figures.c == close((4 / 3) / 12)
    assert figures.v == close(14 / 12)


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
    # Of 3 ms of drafting each: a third of the first round's, nothing, all of the third's.
    assert figures.wasted_share == close((1 + 0 + 3) / (15 + 15 + 15))


def test_drift_is_that_of_the_worse_lane(figures: Metrics) -> None:
    assert figures.drift == close(47 / 46 - 1)
    assert figures.noisy is False


def test_forecast_is_only_passed_on() -> None:
    forecast = Forecast(speedup=1.4, tau=2.5, kind="story", num_texts=4)
    assert metrics(paper_trace(forecast=forecast)).speedup_forecast == 1.4


def test_a_prompt_without_a_verdict_still_has_a_rate() -> None:
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
def test_nothing_is_known_of_no_whole_round(rounds: tuple[Any, ...], config: RunConfig) -> None:
    count = len(rounds)
    blocks = make_baseline(target=([0.1] * count,) * 2, speculative=([0.1] * count,) * 2)
    trace = make_trace(rounds, config=config, step_costs=make_costs(), baseline=blocks)
    figures = metrics(trace)
    unknown = ("tau", "tokens_per_second", "wasted_share", *NEEDS_COSTS, *NEEDS_BASELINE)
    assert {name: getattr(figures, name) for name in unknown} == dict.fromkeys(unknown)
    assert (figures.num_rounds, figures.num_whole_rounds) == (count, 0)
    assert (figures.alpha_observed is None) == (count == 0)
    assert (figures.ttft_ms is None) == (count == 0)
    assert figures.intervals.prompt is None
    assert verdict_sentence(figures, trace) == "No whole round was timed, so no verdict."
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


def test_a_hair_above_one_is_one() -> None:
    trace = make_trace([make_round("aaa", expected=1 + 1e-7)], step_costs=make_costs())
    figures = metrics(trace)
    assert figures.alpha_expected == 1.0
    assert figures.speedup_ideal == close(4 / 1.3)


def test_prompt_lookup_takes_the_mean_number_drafted() -> None:
    # Drafted 0, 4 and 2 (mean 2): no draft model to pay, three tokens to verify.
    rounds = [make_round(""), make_round("aaar", expected=0.25), make_round("aa", expected=0.25)]
    figures = metrics(make_trace(rounds, config=LOOKUP, step_costs=make_costs()))
    assert (figures.gamma, figures.c, figures.v) == (2, 0.0, close(1.2))
    assert figures.tau == close((1 + 4 + 3) / 3)
    assert figures.speedup_ideal == close(1 + 0.25 + 0.0625)
    assert figures.speedup_accounted == close((8 / 3) / 1.2)
    assert figures.alpha_by_position == (1.0, 1.0, 1.0, 0.0)


@pytest.mark.parametrize(("drafted", "gamma"), [((0, 1), 1), ((2, 3), 3), ((0, 0, 1), 0)])
def test_prompt_lookup_rounds_to_the_nearest(drafted: tuple[int, ...], gamma: int) -> None:
    rounds = ["a" * count for count in drafted]
    assert metrics(make_trace(rounds, config=LOOKUP, step_costs=make_costs())).gamma == gamma


def test_prompt_lookup_that_never_drafted() -> None:
    figures = metrics(make_trace(["", ""], config=LOOKUP, step_costs=make_costs()))
    assert (figures.tau, figures.alpha_observed, figures.alpha_expected) == (1.0, None, None)
    assert (figures.draft_acceptance_rate, figures.speedup_ideal) == (None, None)
    assert (figures.speedup_accounted, figures.wasted_share) == (1.0, 0.0)


# Noise


def timed(plain: tuple[float, ...], spec: tuple[float, ...]) -> Metrics:
    """One round of three tokens; seconds a token, and a round, of every block."""
    baseline = make_baseline(
        target=[[seconds] * 3 for seconds in plain], speculative=[[each] for each in spec]
    )
    return metrics(make_trace(["aar"], baseline=baseline))


def test_noise_in_either_lane() -> None:
    for figures in (timed((0.01, 0.0109), (0.02, 0.02)), timed((0.01, 0.01), (0.0218, 0.02))):
        assert figures.drift == close(0.09)
        assert figures.noisy is True
        assert figures.speedup_observed is not None


def test_noise_up_to_the_limit_is_none() -> None:
    assert timed((0.01, 0.010499), (0.02, 0.02)).noisy is False
    assert timed((0.01, 0.010501), (0.02, 0.02)).noisy is True


@pytest.mark.parametrize(
    ("plain", "spec"), [((0.01,), (0.02, 0.02)), ((0.01, 0.01), ()), ((0.0, 0.0), (0.0, 0.0))]
)
def test_noise_is_unknown_without_two_blocks_a_lane(
    plain: tuple[float, ...], spec: tuple[float, ...]
) -> None:
    figures = timed(plain, spec)
    assert (figures.drift, figures.noisy) == (None, None)


def test_a_baseline_without_blocks() -> None:
    trace = make_trace(baseline=Baseline(blocks=(), prefill=0.1))
    figures = metrics(trace)
    assert [getattr(figures, name) for name in NEEDS_BASELINE] == [None] * 6
    assert figures.tokens_per_second is not None


def test_lanes_are_told_by_name_not_by_order() -> None:
    spec, plain = (
        Block(lane="speculative", seconds=(0.02,)),
        Block(lane="target", seconds=(0.01,) * 3),
    )
    blocks = (spec, spec, plain, plain)
    figures = metrics(make_trace(["aar"], baseline=Baseline(blocks=blocks, prefill=0.0)))
    assert figures.speedup_observed == close(1.5)


# Intervals


def test_coins_by_hand(figures: Metrics) -> None:
    coins = figures.intervals.coins
    assert coins is not None
    half = 1.96 * math.sqrt(0.09 + 0.16 + 0.21 + 3 * 0.25 + 0.16 + 0.24) / 8
    assert (coins.low, coins.high) == (close(0.5625 - half), close(0.5625 + half))
    assert coins.label == "this run's coins"


def test_coins_stay_within_zero_and_one() -> None:
    coins = metrics(make_trace([make_round("a", expected=0.9)])).intervals.coins
    assert coins is not None
    assert (coins.low, coins.high) == (close(0.9 - 1.96 * 0.3), 1.0)


def drawn_trace(rng: np.random.Generator, alpha: float, rounds: int = 60) -> Trace:
    runs = [min(int(rng.geometric(1 - alpha)) - 1, 3) for _ in range(rounds)]
    spelt = ["a" * run + "r" * (run < 3) + "d" * max(0, 2 - run) for run in runs]
    return make_trace([make_round(each, expected=alpha) for each in spelt])


def test_coins_and_prompt_cover_as_they_claim() -> None:
    rng = np.random.default_rng(7)
    runs = [metrics(drawn_trace(rng, 0.7)) for _ in range(200)]
    coins = prompt = 0
    for figures in runs:
        within, around = figures.intervals.coins, figures.intervals.prompt
        assert within is not None
        assert around is not None
        assert figures.alpha_observed is not None
        coins += within.low <= figures.alpha_observed <= within.high
        prompt += around.low <= 0.7 <= around.high
    assert 182 <= coins <= 199
    assert 172 <= prompt <= 199


def test_prompt_interval_is_wider_where_acceptance_clusters() -> None:
    def width(spelt: list[str]) -> float:
        found = metrics(make_trace(spelt)).intervals.prompt
        assert found is not None
        assert found.label == "this prompt"
        return found.high - found.low

    clustered = width(["aaa"] * 32 + ["rdd"] * 32)
    assert clustered > 1.5 * width(["aaa", "rdd"] * 32)
    assert width(["aar"] * 20) == 0.0


def test_prompt_interval_needs_rounds_and_repeats_itself() -> None:
    assert metrics(make_trace(["aar"] * 5 + ["rdd"] * 4)).intervals.prompt is None
    trace = make_trace(["aar"] * 5 + ["rdd"] * 5)
    first = metrics(trace).intervals.prompt
    assert first is not None
    assert first == metrics(trace).intervals.prompt
    assert first.low < 10 / 20 < first.high


def test_kind_interval() -> None:
    half, all_of_it = make_trace(["ar"] * 3), make_trace(["aa"] * 3)
    untested = make_trace([""], config=LOOKUP)
    found = kind_interval([half, all_of_it, untested])
    assert found is not None
    # Two prompts: a quarter of the resamples is all the one, a quarter all the other.
    assert (found.low, found.high, found.label) == (0.5, 1.0, "this kind of prompt")
    assert kind_interval([]) is None
    assert kind_interval([half]) is None
    assert kind_interval([half, untested]) is None


# In words


def said(figures: Metrics, trace: Trace | None = None) -> str:
    return verdict_sentence(figures, trace or paper_trace())


def test_sentences(figures: Metrics) -> None:
    assert said(figures) == "1.7 times as fast as the target alone."
    assert said(replace(figures, speedup_observed=1.04)) == (
        "1.04 times as fast as the target alone."
    )
    assert said(replace(figures, speedup_observed=1.004)) == "As fast as the target alone."
    noisy = replace(figures, noisy=True, drift=0.09)
    assert said(noisy) == ("Noisy machine: blocks of the same work drift by 9 %, so no verdict.")
    assert said(replace(figures, noisy=None, drift=None)) == (
        "A lane was timed only once, so no verdict."
    )
    alone = paper_trace(baseline=None)
    assert said(metrics(alone), alone) == "The target alone was not measured."


def test_sentences_when_slower(figures: Metrics) -> None:
    slow = replace(figures, speedup_observed=0.82, gamma=8, c=0.15, v=1.05, tau=1.9)
    start = "Slower than the target alone (0.82 times)"
    assert said(slow) == (
        f"{start}, because drafting 8 tokens costs 1.2 target steps "
        "and only 1.9 tokens come out of a round."
    )
    assert said(replace(slow, v=1.4)) == (
        f"{start}, because drafting 8 tokens costs 1.2 target steps, verifying 9 costs 1.4, "
        "and only 1.9 tokens come out of a round."
    )
    assert said(replace(slow, c=0.0, v=2.3)) == (
        f"{start}, because verifying 9 tokens costs 2.3 target steps "
        "and only 1.9 tokens come out of a round."
    )
    assert said(replace(slow, tau=3.0)) == (
        f"{start}, though by their step costs the two models should gain: the rest is overhead."
    )
    assert said(replace(slow, c=None)) == f"{start}."


# As data


def test_as_dict_is_json(figures: Metrics) -> None:
    record = json.loads(json.dumps(figures.as_dict(), allow_nan=False))
    assert record["alpha_by_position"] == [0.75, 1.0, 0.5]
    assert record["intervals"]["coins"]["label"] == "this run's coins"
    assert record["intervals"]["prompt"] is None
    assert record["noisy"] is False
    assert {
        "num_rounds", "num_drafted", "num_tested", "num_accepted", "alpha_observed",
        "alpha_expected", "draft_acceptance_rate", "tau", "alpha_by_position", "c", "v",
        "tokens_per_second", "baseline_tokens_per_second", "speedup_observed",
        "speedup_end_to_end", "speedup_ideal", "speedup_accounted", "speedup_forecast",
        "ttft_ms", "noisy",
    } <= record.keys()  # fmt: skip


def test_as_dict_holds_no_infinity(figures: Metrics) -> None:
    assert replace(figures, c=math.inf, v=math.nan).as_dict()["c"] is None
    assert replace(figures, c=math.inf, v=math.nan).as_dict()["v"] is None


def test_rounds_frame() -> None:
    frame = rounds_frame(paper_trace())
    assert frame["round"].tolist() == [0, 1, 2, 3]
    assert frame["context_length"].tolist() == [4, 7, 11, 12]
    assert frame["drafted"].tolist() == [3, 3, 3, 2]
    assert frame["tested"].tolist() == [3, 3, 1, 1]
    assert frame["accepted"].tolist() == [2, 3, 0, 1]
    assert frame["emitted"].tolist() == [3, 4, 1, 1]
    assert frame["alpha_expected"].tolist() == pytest.approx([0.8, 0.5, 0.2, 0.4])
    assert frame["extra_kind"].tolist()[:3] == ["recovered", "bonus", "recovered"]
    assert frame["extra_kind"].isna().tolist() == [False, False, False, True]
    assert frame["cut"].tolist()[3] == "eos"
    assert frame["whole"].tolist() == [True, True, True, False]
    assert frame["decode_seconds"].tolist() == pytest.approx([0.015, 0.015, 0.015, 1.5])
    assert frame["verify_seconds"].tolist() == [0.010, 0.011, 0.010, 0.5]


def test_candidates_frame() -> None:
    frame = candidates_frame(paper_trace())
    assert len(frame) == 11
    assert frame["round"].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 2
    assert frame["position"].tolist() == [1, 2, 3] * 3 + [1, 2]
    third = frame.to_dict("records")[2]
    assert (third["verdict"], third["tested"], third["text"]) == ("rejected", True, " w12")
    assert (third["odds"], third["uniform"], third["expected_acceptance"]) == (0.5, 0.75, 0.7)
    assert frame["draft_entropy"].isna().tolist() == [True] * 11


def test_candidates_frame_with_the_record_on() -> None:
    top = Alternatives(token_ids=(), texts=(), probs=())
    insight = Insight(
        draft_prob=0.5, target_prob=0.25, draft_entropy=1.5, target_entropy=0.0,
        draft_top=top, target_top=top, residual_top=top,
    )  # fmt: skip
    plain = make_round("ar")
    watched = replace(plain.candidates[0], insight=insight)
    trace = make_trace([replace(plain, candidates=(watched, plain.candidates[1]))])
    frame = candidates_frame(trace)
    assert frame["draft_entropy"].tolist()[0] == 1.5
    assert frame["target_entropy"].tolist()[0] == 0.0
    assert frame["draft_entropy"].isna().tolist() == [False, True]


def test_frames_of_nothing_have_their_columns() -> None:
    empty, full = make_trace([]), make_trace()
    assert rounds_frame(empty).columns.tolist() == rounds_frame(full).columns.tolist()
    assert candidates_frame(empty).columns.tolist() == candidates_frame(full).columns.tolist()
    assert len(rounds_frame(empty)) == len(candidates_frame(empty)) == 0
