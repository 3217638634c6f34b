"""The interval of a run's speedup: what it is made of, and how often it holds on noisy machines."""

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
TOGETHER = 7  # slices drawn together, the cube root of their number: their dependence stays
SPENT = {"the whole budget": 48, "a comparison's": 12}  # slices that fit
ONE = (make_round("ad", index=0),)  # a round of two tokens


def slice_of(ratio: float, *, noise: float = 0.0, pace: float = 1.0) -> Slice:
    """Of a round of two tokens that is so many times as fast as the target alone."""
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


def test_the_figure_is_the_ratio_of_whole_text_times() -> None:
    """Slices with lucky rounds count no more: here a token always takes 10 ms, a round 20."""
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


def test_a_stalled_slice_does_not_carry_it() -> None:
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
    """Neighbours on opposite sides."""
    return [size * (-1) ** place * (1 + 0.1 * (place % 3)) for place in range(count)]


def test_a_quiet_pilot_is_enough() -> None:
    plan = plan_of(calm(PILOT, 0.005))
    assert plan is not None
    assert (plan.pooled, plan.slices) == (1, PILOT)
    assert plan_of(calm(PILOT - 1, 0.005)) is None
    slices = noisy(calm(PILOT, 0.005))
    assert [is_enough(slices[:count], ONE) for count in (PILOT - 1, PILOT)] == [False, True]


def test_the_pilot_alone_fixes_how_many() -> None:
    pilot = calm(PILOT, 0.1)
    plan = plan_of(pilot)
    assert plan is not None
    assert plan.slices > PILOT
    for rest in (calm(40, 0.0), calm(40, 0.5)):
        assert plan_of([*pilot, *rest]) == plan
    # A quiet rest makes it no narrower than the pilot allows, a loud one wider.
    still = timing(noisy([*pilot, *calm(plan.slices - PILOT, 0.0)]))
    loud = timing(noisy([*pilot, *calm(plan.slices - PILOT, 0.5)]))
    half = math.log(ends(still)[1] / still.speedup)
    assert half == close(plan.error / math.sqrt(plan.slices))
    assert half <= math.log(1.05)
    assert math.log(ends(loud)[1] / loud.speedup) > half


def test_neighbours_that_resemble_each_other_are_pooled() -> None:
    """Waves of four slices up and four down; no slice belongs to two batches."""
    waves = [0.1 * (-1) ** (place // 4) for place in range(64)]
    assert plan_of(waves[: 2 * PILOT]) is None
    plan = plan_of(waves)
    assert plan is not None
    assert plan.pooled == 4
    assert plan.slices % plan.pooled == 0


# How often it holds


def passes(kind: str) -> np.ndarray:  # [num_slices, 4]
    return np.array(KINDS[kind])


def slices_of(rows: np.ndarray, scale: float = 1.0) -> list[Slice]:
    """Of one round and its two tokens; the speculative lane slowed by the scale."""
    return [
        Slice(first=0, last=1, target=(a, d), speculative=(scale * b, scale * c))
        for a, b, c, d in np.exp(rows).tolist()
    ]


def simulated(kind: str, fits: int) -> Iterator[Timing]:
    """Timings by our procedure, of slices as they were recorded, drawn in blocks.

    Scaled so that over all of the record there is no difference between the lanes.
    """
    recorded, draws, begins = passes(kind), np.random.default_rng(14), np.arange(TOGETHER)
    scale = timing(slices_of(recorded)).speedup
    for _ in range(SIMULATIONS):
        starts = draws.integers(len(recorded) - TOGETHER + 1, size=-(-fits // TOGETHER))
        rows = recorded[(starts[:, None] + begins).ravel()[:fits]]
        ratios = np.log(np.exp(rows[:, [0, 3]]).sum(1) / np.exp(rows[:, [1, 2]]).sum(1))
        plan = plan_of(ratios.tolist())
        yield timing(slices_of(rows[: plan.slices if plan else fits], scale))


@pytest.mark.parametrize("spent", SPENT)
@pytest.mark.parametrize("kind", KINDS)
def test_no_difference_is_said_to_be_none_on_noisy_machines(
    kind: str, spent: str, record_property: Callable[[str, object], None]
) -> None:
    assert len(passes(kind)) >= 200
    found = [(each.speedup, *ends(each)) for each in simulated(kind, SPENT[spent])]
    covered = np.mean([low <= 1 <= high for _, low, high in found])
    words = [verdict_words(speed, low, high, "here") for speed, low, high in found]
    open_words = ("Between", "As fast as", "Faster or slower")
    undecided = np.mean([text.startswith(open_words) for text in words])
    width = np.median([high / low for _, low, high in found])
    told = f"{kind}, {spent}: covers {covered:.1%}, undecided {undecided:.1%}, width {width:.2f}"
    print(told)
    record_property("coverage", told)
    assert covered >= 0.93
    assert undecided >= 0.93
