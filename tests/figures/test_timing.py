"""The interval of a run's speedup: its parts, and how often it covers on noisy machines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from specviz.figures.speedup_words import verdict_words
from specviz.figures.timing import PILOT, Timing, is_enough, plan_of, seconds_by_round, timing_of
from specviz.record.trace import Baseline, Round, Slice
from tests.paper_trace import close
from tests.traces import make_round, make_trace

NOISE = Path(__file__).parent.parent / "measure" / "timing_noise.json"
KINDS: dict[str, list[list[float]]] = json.loads(NOISE.read_text())["kinds"]
SIMULATIONS = 2000
BLOCK = 7  # slices drawn together, the cube root of their number: keeps their dependence
BUDGETS = {"the whole budget": 48, "a comparison's": 12}  # slices that fit
OFTEN = (("as it is", "the whole budget"), ("drift", "the whole budget"),
         ("shared cores", "a comparison's"))  # fmt: skip
ONE = (make_round("ad", index=0),)  # a round of two tokens


def slice_of(ratio: float, *, noise: float = 0.0, pace: float = 1.0) -> Slice:
    """Return a slice of a round of two tokens, ``ratio`` times as fast as the target alone."""
    plain = 2 * pace * math.exp(noise)
    return Slice(first=0, last=1, target=(plain, plain), speculative=(plain / ratio,) * 2)


def timing(slices: Sequence[Slice], rounds: Sequence[Round] = ONE) -> Timing:
    found = timing_of(Baseline(slices=tuple(slices), prefill=0.1), rounds)
    assert found is not None
    return found


def noisy(values: Sequence[float]) -> list[Slice]:
    return [slice_of(math.exp(value)) for value in values]


def ends(found: Timing) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_the_speedup_is_the_ratio_of_the_times_of_the_whole_text() -> None:
    """Slices with many accepted candidates do not weigh more: a token takes 10 ms, a round 20."""
    rounds = make_trace(["aaa", "rdd", "rdd", "rdd", make_round("a", cut="eos")]).rounds
    tokens = [len(entry.emitted) for entry in rounds]
    spans = [(0, 1), (1, 2), (2, 4), (0, 1)]
    slices = [
        Slice(
            first=first,
            last=last,
            target=(0.01 * sum(tokens[first:last]),) * 2,
            speculative=(0.02 * (last - first),) * 2,
        )
        for first, last in spans
    ]
    found = timing(slices, rounds)
    assert found.speedup == close(0.01 * sum(tokens[:4]) / (0.02 * 4))
    assert ends(found) == pytest.approx((found.speedup, found.speedup))
    assert (found.target_seconds, found.speculative_seconds) == (close(0.07), close(0.08))
    alone, own = seconds_by_round(Baseline(slices=tuple(slices), prefill=0.1), rounds) or ([], [])
    assert alone == pytest.approx([0.01] * 5)
    assert own == pytest.approx([0.02] * 5)


def test_a_stalled_slice_hardly_matters() -> None:
    calm = [0.01 * math.sin(place) for place in range(16)]
    stalled = [*calm[:5], math.log(30), *calm[6:]]
    assert timing(noisy(stalled)).speedup == pytest.approx(timing(noisy(calm)).speedup, rel=0.01)
    assert ends(timing(noisy(stalled)))[1] < 1.1


def test_two_slices_give_students_interval_with_one_degree_of_freedom() -> None:
    found = timing(noisy([math.log(1.0), math.log(1.21)]))
    half = 12.7062 * (math.log(1.21) / math.sqrt(2)) / math.sqrt(2)
    assert found.speedup == close(1.1)
    assert ends(found) == pytest.approx((1.1 * math.exp(-half), 1.1 * math.exp(half)), rel=1e-4)
    assert (found.pairs, found.needed) == (2, None)


def test_a_lane_timed_once_has_no_interval() -> None:
    once = Slice(first=0, last=1, target=(2.0,), speculative=(1.0,))
    found = timing([once])
    assert (found.speedup, found.low, found.high) == (close(2.0), None, None)
    assert timing_of(Baseline(slices=(), prefill=0.1), ONE) is None
    assert timing_of(None, ONE) is None


# The plan


def calm(count: int, size: float) -> list[float]:
    """Return values whose neighbours have opposite signs."""
    return [size * (-1) ** place * (1 + 0.1 * (place % 3)) for place in range(count)]


def test_a_quiet_pilot_is_enough() -> None:
    plan = plan_of(calm(PILOT, 0.005))
    assert plan is not None
    assert (plan.pooled, plan.slices) == (1, PILOT)
    assert plan_of(calm(PILOT - 1, 0.005)) is None
    slices = noisy(calm(PILOT, 0.005))
    assert [is_enough(slices[:count], ONE) for count in (PILOT - 1, PILOT)] == [False, True]


def test_the_pilot_alone_fixes_the_number_of_slices() -> None:
    pilot = calm(PILOT, 0.1)
    plan = plan_of(pilot)
    assert plan is not None
    assert plan.slices > PILOT
    for rest in (calm(40, 0.0), calm(40, 0.5)):
        assert plan_of([*pilot, *rest]) == plan
    # Quiet slices make the interval no narrower than the pilot allows, noisy ones make it wider.
    quiet = timing(noisy([*pilot, *calm(plan.slices - PILOT, 0.0)]))
    loud = timing(noisy([*pilot, *calm(plan.slices - PILOT, 0.5)]))
    half = math.log(ends(quiet)[1] / quiet.speedup)
    assert half == close(plan.error / math.sqrt(plan.slices))
    assert half <= math.log(1.05)
    assert math.log(ends(loud)[1] / loud.speedup) > half


def test_pools_correlated_neighbours() -> None:
    """Waves of four slices up and four down; no slice is in two batches."""
    waves = [0.1 * (-1) ** (place // 4) for place in range(64)]
    assert plan_of(waves[: 2 * PILOT]) is None
    plan = plan_of(waves)
    assert plan is not None
    assert plan.pooled == 4
    assert plan.slices % plan.pooled == 0


# Coverage


def passes(kind: str) -> np.ndarray:  # [num_slices, 4]
    return np.array(KINDS[kind])


def slices_of(rows: np.ndarray, scale: float = 1.0) -> list[Slice]:
    """Return slices of one round of two tokens; ``scale`` slows the speculative lane."""
    return [
        Slice(first=0, last=1, target=(a, d), speculative=(scale * b, scale * c))
        for a, b, c, d in np.exp(rows).tolist()
    ]


def simulated(kind: str, fits: int) -> Iterator[Timing]:
    """Yield timings by our procedure from recorded slices, drawn in blocks.

    They are scaled so that over the whole record the lanes do not differ.
    """
    recorded, rng, offsets = passes(kind), np.random.default_rng(14), np.arange(BLOCK)
    scale = timing(slices_of(recorded)).speedup
    for _ in range(SIMULATIONS):
        starts = rng.integers(len(recorded) - BLOCK + 1, size=-(-fits // BLOCK))
        rows = recorded[(starts[:, None] + offsets).ravel()[:fits]]
        ratios = np.log(np.exp(rows[:, [0, 3]]).sum(1) / np.exp(rows[:, [1, 2]]).sum(1))
        plan = plan_of(ratios.tolist())
        yield timing(slices_of(rows[: plan.slices if plan else fits], scale))


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        pytest.param(kind, budget, marks=() if (kind, budget) in OFTEN else pytest.mark.thorough)
        for kind in KINDS
        for budget in BUDGETS
    ],
)
def test_reports_no_difference_between_equal_lanes_on_noisy_machines(
    kind: str, budget: str, record_property: Callable[[str, object], None]
) -> None:
    assert len(passes(kind)) >= 200
    found = [(each.speedup, *ends(each)) for each in simulated(kind, BUDGETS[budget])]
    covered = np.mean([low <= 1 <= high for _, low, high in found])
    verdicts = [verdict_words(speed, low, high, "here") for speed, low, high in found]
    undecided_starts = ("Between", "As fast as", "Unknown whether")
    undecided = np.mean([text.startswith(undecided_starts) for text in verdicts])
    width = np.median([high / low for _, low, high in found])
    report = f"{kind}, {budget}: covers {covered:.1%}, undecided {undecided:.1%}, width {width:.2f}"
    print(report)
    record_property("coverage", report)
    assert covered >= 0.93
    assert undecided >= 0.93
