"""The surface: τ and speedups by hand, and the coverage of its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from specviz.record.scores import ScoredText
from specviz.record.trace import StepCosts
from specviz.theory.along import rounds_along
from specviz.tune.surface import Cell, enough_texts, surface
from tests.tune.scored import (
    copied_text,
    costs,
    draft_phase,
    scores_of,
    target_step,
    text_of,
    verification,
)

ODDS = tuple(np.random.default_rng(2).beta(3, 1, 60).tolist())
OTHER = tuple(np.random.default_rng(3).beta(1, 2, 33).tolist())
GAMMAS = (1, 2, 5, 16)


def one_cell(texts: Sequence[ScoredText], table: StepCosts | None, gamma: int = 3) -> Cell:
    (cell,) = surface(texts, lambda _: table, (gamma,)).cells
    return cell


def seconds(text: ScoredText, gamma: int) -> tuple[float, float]:
    """Return the seconds of the target alone and of speculation along one text."""
    context = text.num_prompt + len(text.token_ids) / 2
    assert text.scores is not None
    walk = rounds_along(text.scores.odds, gamma, ends=text.ends)
    share = walk.bonuses / walk.rounds
    cost = verification(context, gamma + 1) + draft_phase(context, gamma, share)
    return walk.tokens * target_step(context), walk.rounds * cost


# By hand


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("ends", [False, True])
def test_cell_of_one_text(gamma: int, ends: bool) -> None:
    text = text_of(ODDS, prompt=40, ends=ends)
    cell = one_cell([text], costs(), gamma)
    walk = rounds_along(ODDS, gamma, ends=ends)
    alone, drafted = seconds(text, gamma)
    assert (cell.gamma, cell.temperature, cell.num_texts) == (gamma, 0.7, 1)
    assert cell.tau == pytest.approx(walk.tokens / walk.rounds, rel=1e-12)
    assert cell.speedup == pytest.approx(alone / drafted, rel=1e-12)


def test_speedup_by_hand() -> None:
    """Every candidate accepted, gamma 3: rounds of 4 tokens in 12.5 + 2.9 steps of one."""
    cell = one_cell([text_of([1.0] * 12, prompt=0)], costs())
    assert cell.tau == 4.0
    assert cell.speedup == pytest.approx(40 / (11.5 + 1.0 + 0.3 + 1.6))
    cell = one_cell([text_of([0.0] * 12, prompt=494)], costs())
    assert cell.tau == 1.0
    assert cell.speedup == pytest.approx(10 / (11.5 + 1.0 + 1.6))  # twice as long in both lanes


@pytest.mark.parametrize("gamma", GAMMAS)
def test_adds_the_seconds_of_two_texts(gamma: int) -> None:
    """Not the mean of two speedups, nor one mean context."""
    texts = [text_of(ODDS, prompt=8), text_of(OTHER, prompt=900)]
    cell = one_cell(texts, costs(), gamma)
    walks = [rounds_along(each, gamma) for each in (ODDS, OTHER)]
    (alone, drafted), (alone_too, drafted_too) = (seconds(each, gamma) for each in texts)
    assert cell.num_texts == 2
    assert cell.tau == pytest.approx(
        sum(walk.tokens for walk in walks) / sum(walk.rounds for walk in walks), rel=1e-12
    )
    assert cell.speedup == pytest.approx((alone + alone_too) / (drafted + drafted_too), rel=1e-12)


def test_counts_a_text_that_ends_within_a_round_like_the_engine() -> None:
    """Two tokens, γ 3. At a limit there is no whole round. At EOS a round is whole unless its last
    token is an accepted candidate: if the first is rejected (1/2), a round of one token, then a
    round of EOS alone if that is rejected (3/4); if only EOS is rejected (3/8), a round of two."""
    odds = [0.5, 0.25]
    assert surface([text_of(odds)], lambda _: costs(), (3,)).cells == ()
    cell = one_cell([text_of(odds, ends=True)], costs())
    rounds = 0.5 + 0.5 * 0.75 + 0.5 * 0.75
    assert cell.tau == pytest.approx((0.5 + 0.5 * 0.75 + 0.5 * 0.75 * 2) / rounds)


def test_ignores_impossible_texts() -> None:
    probs = (0.5,) * 20 + (0.0,) + (0.5,) * 12
    impossible = text_of(OTHER, own=False, scores=scores_of(OTHER, text_probs=probs))
    alone, both = (
        surface(texts, lambda _: costs(), GAMMAS)
        for texts in ([text_of(ODDS)], [text_of(ODDS), impossible])
    )
    assert both == alone
    assert surface([impossible], lambda _: costs(), GAMMAS).cells == ()


def test_short_text_counts_for_small_gammas() -> None:
    found = surface([text_of(ODDS), text_of(OTHER[:5])], lambda _: costs(), (2, 4, 5))
    assert [each.num_texts for each in found.cells] == [2, 2, 1]
    assert found.cells[2] == one_cell([text_of(ODDS)], costs(), 5)


def test_each_temperature_has_its_own_texts_and_costs() -> None:
    texts = [text_of(ODDS, temperature=1.0), text_of(OTHER, temperature=0.0)]
    tables = {0.0: costs(), 1.0: None}
    found = surface(texts, tables.get, (2, 4))
    assert (found.gammas, found.temperatures) == ((2, 4), (0.0, 1.0))
    at_zero, at_one = found.cell(2, 0.0), found.cell(2, 1.0)
    assert at_zero == replace(one_cell(texts[1:], costs(), 2), temperature=0.0)
    assert at_one is not None
    assert at_one.tau == pytest.approx(one_cell(texts[:1], None, 2).tau)
    assert (at_one.speedup, at_one.low, at_one.high) == (None, None, None)
    assert found.cell(3, 0.0) is None
    assert found.best_at(0.0) is not None
    assert found.best_at(1.0) is None


def test_only_tau_without_costs() -> None:
    cell = one_cell([text_of(ODDS)], None)
    walk = rounds_along(ODDS, 3)
    assert cell.tau == pytest.approx(walk.tokens / walk.rounds)
    assert (cell.speedup, cell.low, cell.high) == (None, None, None)
    assert surface([text_of(ODDS)], lambda _: None, GAMMAS).best_at(0.0) is None


def test_best_cell_is_the_fastest() -> None:
    found = surface([text_of(ODDS)], lambda _: costs(), range(1, 17))
    best = max(found.cells, key=lambda each: each.speedup or 0.0)
    assert found.best_at(best.temperature) is best
    assert 1 < best.gamma < 16


def test_only_long_cost_tables_are_extrapolated() -> None:
    text = text_of([0.9] * 60, prompt=0)
    inside, outside = (one_cell([text], costs(rows=5), gamma) for gamma in (4, 5))
    assert inside.speedup is not None
    assert (outside.speedup, outside.low) == (None, None)
    assert outside.tau > inside.tau
    # The formula is a line, so the line beyond ten rows gives what the whole table does.
    long = one_cell([text], costs(rows=10), 16)
    assert long.speedup == pytest.approx(one_cell([text], costs(), 16).speedup)


def test_copied_rounds_cost_only_verification() -> None:
    rounds = [(0, 3, 4), (4, 0, 1), (5, 2, 1), (6, 3, 2)]
    bare = costs(draft=(), draft_next=())
    cell = one_cell([copied_text(9, rounds, 3, prompt=100)], bare)
    assert cell.tau == 2.0
    context = 104.5
    checked = sum(verification(context, rows) for rows in (4, 1, 3, 4))
    assert cell.speedup == pytest.approx(8 * target_step(context) / checked)
    nothing = copied_text(2, [], 3)
    assert surface([nothing], lambda _: bare, (3,)).cells == ()


# Intervals


T_95 = {4: 2.776445, 7: 2.364624, 9: 2.262157}  # Student's, by degrees of freedom


def half(cell: Cell) -> float:
    """Return half the interval of the logarithm, which is symmetric."""
    assert cell.speedup is not None
    assert cell.low is not None
    assert cell.high is not None
    upper, lower = math.log(cell.high / cell.speedup), math.log(cell.speedup / cell.low)
    assert upper == pytest.approx(lower)
    return upper


@pytest.mark.parametrize("count", [5, 8, 10])
def test_interval_over_five_texts_is_students(count: int) -> None:
    draws = np.random.default_rng(count)
    texts = [
        text_of(
            draws.beta(2, 1, int(draws.integers(20, 90))).tolist(), prompt=int(draws.integers(300))
        )
        for _ in range(count)
    ]
    cell = one_cell(texts, costs())
    alone, drafted = np.array([seconds(each, 3) for each in texts]).T
    ratio = alone.sum() / drafted.sum()
    # By linearisation: the residuals of a ratio of two means.
    residuals = (alone - ratio * drafted) / alone.mean()
    error = residuals.std(ddof=1) / math.sqrt(count)
    assert residuals.mean() == pytest.approx(0.0, abs=1e-12)
    assert half(cell) == pytest.approx(T_95[count - 1] * error, rel=1e-6)


def test_cost_errors_remain_with_identical_texts() -> None:
    texts = [text_of(ODDS)] * 6
    assert half(one_cell(texts, costs())) == pytest.approx(0.0, abs=1e-7)
    errors = {"draft_errors": (0.04, 0.03, 0.01), "target_errors": (0.02,) * 17}
    found = half(one_cell(texts, costs(**errors)))
    context = 4 + 30
    drafting, checking = draft_phase(context, 3, 0.0), verification(context, 4)
    of_round = math.hypot(0.04 * drafting, 0.02 * checking) / (drafting + checking)
    assert found == pytest.approx(math.hypot(of_round, 0.02), rel=1e-6)


def test_cost_errors_widen_the_interval() -> None:
    texts = [text_of(np.random.default_rng(seed).beta(3, 1, 50).tolist()) for seed in range(7)]
    errors = {"draft_errors": (0.04, 0.03, 0.01), "target_errors": (0.02,) * 17}
    narrow, of_costs = (
        half(one_cell(texts, costs())),
        half(one_cell([texts[0]] * 7, costs(**errors))),
    )
    wide = one_cell(texts, costs(**errors))
    assert half(wide) == pytest.approx(math.hypot(narrow, of_costs), rel=1e-6)
    assert wide.speedup == one_cell(texts, costs()).speedup


@pytest.mark.parametrize(
    ("high", "from_texts", "count"),
    [
        (1.3, 1.0, 38),  # 5 (log 1.3 / log 1.1)²
        (1.3, 0.9, 141),  # the costs, ± 8.7 %, leave little room
        (1.3, 0.7, 59),  # the costs, ± 15 %, leave none
        (1.3, 0.1, 3),  # the costs cause the width
        (1.2, 1.0, 19),
        (1.05, 1.0, 2),
        (1.3, None, 5),
        (None, None, 5),
    ],
)
def test_enough_texts(high: float | None, from_texts: float | None, count: int) -> None:
    cell = Cell(
        gamma=3, temperature=0.7, tau=2.0, speedup=1.0, low=high and 1 / high, high=high,
        num_texts=5, from_texts=from_texts,
    )  # fmt: skip
    assert enough_texts(cell) == count


def test_few_texts_have_an_interval_over_segments() -> None:
    even, uneven = [0.7] * 64, [0.95] * 32 + [0.3] * 32
    assert (
        half(one_cell([text_of(even)], costs())) < 0.12 < half(one_cell([text_of(uneven)], costs()))
    )
    four = one_cell([text_of(each) for each in (even, uneven, ODDS, OTHER)], costs())
    assert 0.0 < half(four) < 0.5
    short = one_cell([text_of(uneven[:20])], costs())
    assert short.speedup is not None
    assert (short.low, short.high) == (None, None)


# Coverage


def sticky_odds(draws: np.random.Generator, length: int, easy: float) -> list[float]:
    """Easy and hard segments of some five tokens; ``easy``: the share of the easy ones.

    Neighbours correlate by about 0.25; those of the embedded pair's texts, by 0.1 to 0.15.
    """
    fresh = draws.random(length) < 0.2
    fresh[0] = True
    states = np.where(fresh, draws.random(length) < easy, False)
    states = states[np.maximum.accumulate(np.where(fresh, np.arange(length), 0))]
    return np.where(states, draws.beta(5, 1, length), draws.beta(1.2, 1, length)).tolist()


def coverage(groups: Sequence[Sequence[ScoredText]], record: Callable[..., None]) -> float:
    """Return the share of groups whose interval contains the ratio of all of them together."""
    cells = [one_cell(texts, costs()) for texts in groups]
    units = np.array([seconds(text, 3) for texts in groups for text in texts])
    truth = units[:, 0].sum() / units[:, 1].sum()
    held = [cell.low <= truth <= cell.high for cell in cells if cell.low and cell.high]
    assert len(held) == len(groups)
    share = float(np.mean(held))
    width = np.median([(cell.high or 0.0) / (cell.low or 1.0) for cell in cells])
    output = f"{len(groups[0])} texts: covers {share:.1%}, width {width:.2f}"
    print(output)
    record("coverage", output)
    return share


DRAWS = 250


def test_interval_over_eight_texts_has_its_coverage(
    record_property: Callable[..., None],
) -> None:
    """Texts differ in length and difficulty, each with easy and hard segments."""
    draws = np.random.default_rng(15)
    groups = [
        [
            text_of(sticky_odds(draws, int(draws.integers(30, 70)), draws.beta(3, 2)))
            for _ in range(8)
        ]
        for _ in range(DRAWS)
    ]
    assert 0.92 <= coverage(groups, record_property) <= 0.98


def test_interval_over_segments_has_nearly_its_coverage(
    record_property: Callable[..., None],
) -> None:
    """One text cannot show its own difference from other texts."""
    draws = np.random.default_rng(16)
    groups = [[text_of(sticky_odds(draws, 128, 0.6))] for _ in range(DRAWS)]
    assert coverage(groups, record_property) >= 0.85
