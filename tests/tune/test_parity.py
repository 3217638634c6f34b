"""Intervals of an engine's acceptance, and the findings from them."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from specviz.tune.parity_findings import Reference, SettingCounts, report_of
from specviz.tune.parity_statistics import (
    accepted_length,
    at_position,
    distance,
    mean,
    nearer,
    ratio,
    share_interval,
)
from specviz.tune.parity_values import (
    Condition,
    Counts,
    EngineMeasurement,
    EngineText,
    ParityReport,
    Sample,
    Unit,
    parity_verdict,
    total,
)

GAMMA = 3


def counts(drafts: int, *accepted_at: int) -> Counts:
    return Counts(drafts=drafts, drafted=GAMMA * drafts, accepted_at=accepted_at)


def test_a_ratio_is_that_of_the_sums() -> None:
    found = ratio([1, 6, 2], [2, 8, 10])
    assert found is not None
    assert found.value == 9 / 20
    assert found.residuals.sum() == pytest.approx(0)
    assert ratio([0, 0], [0, 0]) is None


def test_the_interval_of_a_mean_is_students() -> None:
    values = [0.3, 0.1, 0.7, 0.4, 0.2]
    low, high = mean(values).interval(0.1)
    expected = stats.t.interval(0.9, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected)
    assert mean([0.3]).interval(0.1) == (-math.inf, math.inf)


def test_the_interval_of_a_ratio_covers_it() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(400):
        under = rng.integers(10, 40, 16)
        found = ratio(rng.binomial(under, 0.4).tolist(), under.tolist())
        assert found is not None
        low, high = found.interval(0.1)
        inside += low < 0.4 < high
    assert 0.86 < inside / 400 < 0.94


@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_the_interval_of_a_share_is_exact(count: int) -> None:
    expected = stats.binomtest(count, 8).proportion_ci(0.99, method="exact")
    assert share_interval(count, 8, 0.01) == pytest.approx((expected.low, expected.high))


def test_a_position_counts_given_the_one_before() -> None:
    found = [counts(10, 6, 3, 0), counts(10, 4, 1, 0)]
    first, second, third = (at_position(found, *each) for each in ((1, 0), (2, 1), (2, 0)))
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.value, second.value, third.value) == (0.5, 0.4, 0.2)
    assert at_position([counts(10, 0, 0, 0)] * 2, 2, 1) is None
    assert accepted_length(found).value == pytest.approx(fmean([math.log(1.9), math.log(1.5)]))


def test_counts_are_summed_by_position() -> None:
    assert total([counts(10, 6), counts(5, 4, 1)]) == counts(15, 10, 1)


def test_distances_of_counts() -> None:
    assert distance(counts(10, 6, 3), counts(10, 6, 3), GAMMA) == 0
    assert distance(counts(10, 6, 3), counts(12, 5, 3, 1), GAMMA) == 0.4


def test_an_engine_is_nearer_to_the_setting_that_it_follows() -> None:
    own = [counts(10 + each, 6, 3, 1) for each in range(6)]
    other = [counts(11 + 2 * each, 5, each % 3, 0) for each in range(6)]
    towards, away = nearer(other, own, other, GAMMA), nearer(own, own, other, GAMMA)
    assert towards is not None
    assert away is not None
    assert towards.interval(0.001) == pytest.approx((1, 1))
    assert away.interval(0.001) == pytest.approx((-1, -1))
    assert nearer(own, own, own, GAMMA) is None


PROMPTS = 12
HEALTHY = tuple(counts(20 + each % 3, 12 + each % 4, 8 - each % 2, 4) for each in range(PROMPTS))


def changed(by: tuple[int, ...], drafts: int = 0) -> tuple[Counts, ...]:
    """Return the healthy counts, changed at each position, by one less for every other prompt."""
    return tuple(
        counts(
            one.drafts + drafts,
            *(max(0, old + new + (new and number % 2))
              for old, new in zip(one.accepted_at, by, strict=True)),
        )
        for number, one in enumerate(HEALTHY)
    )  # fmt: skip


def sample(condition: Condition, found: tuple[Counts, ...], size: int = 1) -> Reference:
    """Return a sample whose units have ``size`` answers, beside the healthy reference."""
    numbers = [range(first, first + size) for first in range(0, PROMPTS, size)]
    units = tuple(
        Unit(
            texts=tuple(
                EngineText(
                    number=each, prompt="", text="", token_ids=(), tokens=0, prompt_tokens=None
                )
                for each in some
            ),
            counts=total([found[each] for each in some]),
        )
        for some in numbers
    )
    return Reference(
        sample=Sample(condition=condition, temperature=0.0, units=units),
        counts=tuple(total([HEALTHY[each] for each in some]) for some in numbers),
    )


def report(
    *references: Reference, departing: int = 0, settings: tuple[SettingCounts, ...] = ()
) -> ParityReport:
    measured = EngineMeasurement(
        address="http://127.0.0.1:1", title="vLLM 0.32.0", gamma=GAMMA, chat=False,
        max_new_tokens=64, samples=tuple(each.sample for each in references),
    )  # fmt: skip
    return report_of(
        measured, references, settings, tried=40, head="head", target="target", notes=(),
        departures=[0.3 * (each < departing) for each in range(PROMPTS)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("by", "kinds", "words"),
    [
        ((0, 0, 0), [], "No difference shown"),
        ((-5, -5, -3), ["lower", "positions"], "lower than the reference's from position 1 on"),
        ((0, -5, -3), ["lower", "positions"], "at position 2; no earlier position shows"),
        ((5, 4, 3), ["higher"], "or another head"),
    ],
)
def test_the_first_position_that_accepts_less_is_named(
    by: tuple[int, ...], kinds: list[str], words: str
) -> None:
    found = report(sample("alone", changed(by)))
    assert [each.kind for each in found.findings] == kinds
    assert found.lower == ("lower" in kinds)
    assert words in " ".join((parity_verdict(found), *(each.sentence for each in found.findings)))
    assert "more causes" not in " ".join(each.sentence for each in found.findings)
    assert all(each.low * each.high > 0 for each in found.findings)


def test_intervals_are_corrected_for_the_number_of_comparisons() -> None:
    alone = sample("alone", changed((-1, 0, 0)))
    for more, number in (([], 2 + GAMMA), ([sample("repeated", HEALTHY)], 3 + GAMMA)):
        found = report(alone, *more)
        low, high = map(math.expm1, alone.difference().interval(0.05 / number))
        assert found.num_comparisons == number
        assert (found.conditions[0].low, found.conditions[0].high) == pytest.approx((low, high))


@pytest.mark.parametrize("size", [1, 3])
def test_a_condition_is_compared_with_the_one_before(size: int) -> None:
    less = changed((-5, -5, -3))
    alone, repeated = sample("alone", HEALTHY), sample("repeated", HEALTHY)
    found = report(alone, repeated, sample("concurrent", less, size))
    assert [each.kind for each in found.findings] == ["condition"]
    assert "when several requests run at once" in found.findings[0].sentence
    cached = report(alone, sample("repeated", less), sample("concurrent", less, size))
    assert ["prefix cache" in each.sentence for each in cached.findings] == [True]


@pytest.mark.parametrize(("departing", "shown"), [(0, False), (2, False), (PROMPTS, True)])
def test_another_target_is_named_if_most_texts_depart(departing: int, shown: bool) -> None:
    found = report(sample("alone", HEALTHY), departing=departing)
    assert [each.kind for each in found.findings] == ["target"] * shown
    assert found.same_text == PROMPTS - departing
    assert not found.lower


def test_settings_with_the_same_counts_are_named_together() -> None:
    engine = changed((-5, -5, -3))
    settings = (
        SettingCounts(words="own", counts=HEALTHY),
        SettingCounts(words="ids + 1", counts=engine),
        SettingCounts(words="alike", counts=engine),
        SettingCounts(words="other", counts=changed((5, 4, 3))),
    )
    found = report(sample("alone", engine), settings=settings)
    assert found.fits == "ids + 1"
    assert found.findings[-1].kind == "setting"
    assert "cannot be ruled out: alike." in found.findings[-1].sentence
