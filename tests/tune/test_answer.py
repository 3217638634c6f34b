"""Ranking, gains from a better draft, the advice, and the JSON of an answer."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from specviz.cli.terminal_text import Painter
from specviz.cli.tune import render_tune
from specviz.comparison.plan import parse_lane
from specviz.errors import ConfigError
from specviz.record.numbers import STEPS, UNKNOWN
from specviz.record.prompts import SuiteItem
from specviz.theory.along import rounds_along
from specviz.theory.speed import expected_tokens
from specviz.tune.advice import advice, confirmation, reason
from specviz.tune.answer import (
    Answer,
    Candidate,
    gain_from_acceptance,
    gain_from_speed,
    matches_of,
)
from specviz.tune.given_costs import given_costs
from specviz.tune.measuring import MeasuredCell, off_by
from specviz.tune.methods import ShortRun
from specviz.tune.question import Question
from specviz.tune.recorded_answer import answer_from_record, answer_to_record
from specviz.tune.surface import Cell
from specviz.tune.to_json import answer_to_json, scored_to_json
from tests.tune.fakes import best_of, candidate_of
from tests.tune.scored import copied_text, costs, scores_of, text_of

ITEMS = (SuiteItem(prompt="Once"),)
EASY, HARD = [0.9] * 40, [0.3] * 40


def question(*candidates: Candidate, **changes: Any) -> Question:
    asked: dict[str, Any] = {"items": ITEMS, "temperatures": (0.0, 0.7)}
    lanes = tuple(each.lane for each in candidates) or (candidate_of("x").lane,)
    return Question(lanes=lanes, **(asked | changes))


def answer(*candidates: Candidate, complete: bool = True) -> Answer:
    return Answer(question=question(*candidates), candidates=candidates, complete=complete)


def drafting(label: str, odds: list[float], **changes: Any) -> Candidate:
    texts = tuple(text_of(odds, temperature=each) for each in (0.0, 0.7))
    return replace(candidate_of(label), texts=texts, **changes)


def lookup(label: str, rounds: list[tuple[int, int, int]]) -> Candidate:
    texts = (copied_text(200, rounds, 4),)
    found = candidate_of(label, gammas=(4,), drafter="prompt-lookup")
    return replace(found, texts=texts)


# Ranking


def test_ranks_candidates_by_their_best_cell_at_the_requested_temperature() -> None:
    good, bad = drafting("good", EASY), drafting("bad", HARD)
    unscored = replace(drafting("new", EASY), texts=())
    uncosted = drafting("free", EASY, costs={})
    found = answer(bad, unscored, good, uncosted)
    assert [each.label for each, _ in found.ranked] == ["good", "bad"]
    assert found.best == best_of(good)
    for candidate, cell in found.ranked:
        speeds = [each.speedup for each in candidate.surface.cells if each.temperature == 0.7]
        assert cell.speedup == max(speeds, key=lambda each: each or 0.0)
    assert found.ranked[0][1].gamma > found.ranked[1][1].gamma


def test_uses_the_first_temperature_if_the_requested_one_is_missing() -> None:
    candidate = drafting("good", EASY)
    other = Answer(
        question=question(candidate, temperatures=(0.0, 1.0)), candidates=(), complete=True
    )
    assert (answer(candidate).temperature, other.temperature) == (0.7, 0.0)


# Odds


def test_alpha_is_the_mean_over_tokens_of_possible_texts() -> None:
    probs = (0.5,) * 39 + (0.0,)
    texts = (
        text_of([0.9] * 30),
        text_of([0.5] * 10),
        text_of(HARD, scores=scores_of(HARD, text_probs=probs)),
        text_of(EASY, temperature=0.0),
    )
    found = replace(candidate_of("x"), texts=texts)
    assert found.alpha(0.7) == pytest.approx(0.8)
    assert found.alpha(0.0) == pytest.approx(0.9)
    assert found.alpha(1.0) is None
    assert lookup("copies", [(0, 4, 5)]).alpha(0.7) is None


def test_cumulative_shares_cover_all_rounds_and_never_rise() -> None:
    """Texts are pooled, so a text with more rounds counts more."""
    odds = [[0.9, 0.2, 0.8, 0.7] * 5, [0.4, 0.95] * 30, [0.99] * 3]
    found = replace(candidate_of("x"), texts=tuple(map(text_of, odds)))
    cell = next(each for each in found.surface.cells if each.gamma == 4)
    for matching in (False, True):
        shares = found.cumulative(cell, matching=matching)
        assert len(shares) == 4
        assert all(later <= before for before, later in itertools.pairwise(shares))
        read = [
            matches_of(each) if matching else each.scores.odds
            for each in found.texts
            if each.scores
        ]
        walks = [rounds_along(each, 4) for each in read]
        tau = sum(each.tokens for each in walks) / sum(each.rounds for each in walks)
        assert 1.0 + sum(shares) == pytest.approx(tau)
    assert 1.0 + sum(found.cumulative(cell)) == pytest.approx(cell.tau)
    assert lookup("copies", [(0, 4, 5)]).cumulative(cell) == ()


def test_greedy_drafting_accepts_exactly_the_matching_tokens() -> None:
    odds = [0.9, 0.2, 0.6, 0.45] * 10
    found = replace(candidate_of("x"), texts=(text_of(odds),))
    matching = {each.gamma: each.tau for each in found.matching.cells}
    for gamma, tau in matching.items():
        walk = rounds_along([1.0, 0.0, 1.0, 0.0] * 10, gamma)
        assert tau == pytest.approx(walk.tokens / walk.rounds)
    assert lookup("copies", [(0, 4, 5)]).matching.cells == ()


# Gains from a better draft


@pytest.mark.parametrize("odds", [EASY, HARD, [0.05] * 40, [0.9, 0.2] * 20, [1.0, 0.4] * 20])
@pytest.mark.parametrize("table", [costs(), given_costs(0.4, 1.5), given_costs(0.0, 1.0)])
def test_faster_and_better_drafts_never_lose_speed(odds: list[float], table: Any) -> None:
    found = drafting("x", odds, costs={0.7: table})
    quicker, better = gain_from_speed(found, 0.7), gain_from_acceptance(found, 0.7)
    assert quicker is not None
    assert better is not None
    assert better > 0.0
    drafted = table.draft_step(20) > 0
    assert (quicker > 0.0) if drafted else (quicker == 0.0)


def test_gains_by_hand() -> None:
    found = drafting("x", [0.0] * 40, costs={0.7: given_costs(0.5, 1.0)}, gammas=(1,))
    assert gain_from_speed(found, 0.7) == pytest.approx(1 / 1.25 - 1 / 1.5)
    assert gain_from_acceptance(found, 0.7) == pytest.approx(1.1 / 1.5 - 1 / 1.5, rel=1e-2)


def test_no_gain_where_nothing_can_improve() -> None:
    sure = drafting("x", [1.0] * 40)
    assert gain_from_acceptance(sure, 0.7) is None
    assert gain_from_speed(sure, 0.4) is None  # no such temperature
    assert gain_from_speed(replace(sure, costs={}), 0.7) is None
    copies = lookup("copies", [(0, 4, 5), (5, 4, 5)])
    assert gain_from_speed(copies, 0.7) is None
    assert gain_from_acceptance(copies, 0.7) is None


# Advice


def with_ends(speedup: float, low: float | None, high: float | None) -> Answer:
    """Return an answer with this best cell."""
    candidate = drafting("good", EASY)
    cell = Cell(gamma=3, temperature=0.7, tau=2.0, speedup=speedup, low=low, high=high, num_texts=4)
    found = answer(candidate)
    object.__setattr__(found, "ranked", ((candidate, cell),))
    return found


@pytest.mark.parametrize(
    ("speedup", "low", "high", "expected"),
    [
        (1.5, 1.3, 1.7, "Use this draft with γ 3: 1.30 to 1.70 times the target's speed on"),
        (1.5, None, None, "Use this draft with γ 3: 1.50 times the target's speed on texts"),
        (0.8, 0.7, 0.9, "Do not speculate at temperature 0.7: even the best settings, this draft "
         "with γ 3, give only 0.70 to 0.90 times the speed of the target alone"),
        (0.8, None, None, "Do not speculate at temperature 0.7: even the best settings, this draft "
         "with γ 3, give only 0.80 times the speed of the target alone"),
        (1.1, 0.8, 1.4, "Whether speculation pays at temperature 0.7 is too close to call"),
        (0.9, 0.6, 1.2, "Whether speculation pays at temperature 0.7 is too close to call"),
        (1.0, 0.98, 1.02, "Speculation makes no difference at temperature 0.7"),
        (1.03, 1.01, 1.05, "Use this draft"),
    ],
)  # fmt: skip
def test_verdict_follows_from_the_interval(
    speedup: float, low: float | None, high: float | None, expected: str
) -> None:
    text = advice(with_ends(speedup, low, high))
    assert text.startswith(expected)
    assert "A draft twice as fast would change the speedup by +" in text
    assert "10 percentage points more acceptance would change it by +" in text


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.2, 9.0, "Whether speculation pays at temperature 0.7 is too uncertain"),
        (1.2, 9.0, "Speculation pays at temperature 0.7, but the factor is too uncertain"),
        (0.1, 0.9, "Speculation does not pay at temperature 0.7, but the factor is too uncertain"),
    ],
)
def test_an_interval_that_is_too_wide_gives_no_numbers(
    low: float, high: float, expected: str
) -> None:
    uncertain = with_ends(1.5, low, high)
    assert uncertain.best is not None
    text, (_, cell) = advice(uncertain), uncertain.best
    assert text.startswith(expected)
    assert "9.00" not in text
    assert "would change" not in text
    limit = f"at most {cell.tau:.2f} times the speed of the target alone"
    assert (limit in text) == (low < 1 < high)


def test_names_a_drafter_without_a_model_and_reports_no_gains() -> None:
    copies = lookup("copies", [(place, 4, 5) for place in range(0, 195, 5)])
    text = advice(answer(copies))
    assert text.startswith("Use prompt lookup with γ 4: ")
    assert "twice as fast" not in text
    ((candidate, cell),) = answer(copies).ranked
    assert cell.speedup is not None
    mean = f"a round costs {STEPS.bare(cell.tau / cell.speedup)} target steps on average"
    assert mean in reason(candidate, cell)
    two = answer(drafting("good", EASY), drafting("bad", HARD))
    assert advice(two).startswith("Use good with γ ")
    candidate, cell = two.ranked[0]
    why, times = reason(candidate, cell), candidate.costs_of(cell)
    assert why.startswith("acceptance probability 0.900 (break-even at ")
    even = float(why.partition("break-even at ")[2].partition(")")[0])
    assert times is not None
    assert expected_tokens(even, cell.gamma) == pytest.approx(times.round_cost, abs=0.01)


def test_longer_runs_confirm_the_advice_or_correct_it() -> None:
    found = answer(drafting("good", EASY), drafting("bad", HARD))
    (best, cell), (other, slower) = found.ranked
    assert cell.speedup is not None

    def measured(label: str, at: Cell, factor: float, width: float = 1.02) -> MeasuredCell:
        speedup = factor * (cell.speedup or 0.0)
        return MeasuredCell(
            label=label, gamma=at.gamma, temperature=at.temperature, expected=at.speedup,
            speedup=speedup, low=speedup / width, high=speedup * width, count=6,
        )  # fmt: skip

    def text(factor: float, width: float, *others: MeasuredCell) -> str:
        return confirmation(found, [*others, measured(best.label, cell, factor, width)])

    won, close = (measured(other.label, slower, factor) for factor in (2.0, 1.03))
    assert confirmation(found, [won]) == confirmation(found, ()) == ""
    for factor, width, words in (
        (1.0, 1.02, ""),
        (0.5, 1.02, ", less than expected"),
        (2.0, 1.02, ", more than expected"),
        (0.9, 1.5, ""),  # the intervals overlap
        (0.01, 90.0, ""),  # too uncertain
    ):
        assert re.fullmatch(rf"In 6 runs with this setting: [^,]*{words}\.", text(factor, width))
    assert text(1.0, 1.02, won).endswith(f". bad with γ {slower.gamma} was faster.")
    assert text(1.0, 1.02, close) == text(1.0, 1.02)
    assert text(1.0, 1.02, replace(won, temperature=0.0)) == text(1.0, 1.02)


def test_advice_names_what_is_missing() -> None:
    nothing, short = replace(drafting("x", EASY), texts=()), drafting("x", [0.5])
    assert advice(answer(nothing, complete=False)).startswith("The texts are still being written")
    assert advice(answer(short)) == "No text is long enough for a whole round."
    assert "step costs" in advice(answer(drafting("x", EASY, costs={})))
    scores = scores_of(EASY, text_probs=(0.0,) * 40)
    impossible = replace(nothing, texts=(text_of(EASY, scores=scores),))
    assert advice(answer(impossible)).startswith("The target cannot write this text")


# JSON


def test_a_recorded_answer_is_the_same_after_reading() -> None:
    run = ShortRun(gamma=2, temperature=0.7, rounds=4, tokens=9, speedup=1.5)
    found = answer(replace(drafting("good", EASY), runs=(run,)), drafting("bad", HARD))
    assert answer_from_record(answer_to_record(found)) == found


def test_json_has_the_surface_the_best_and_the_measurements() -> None:
    found = answer(drafting("bad", HARD), drafting("good", EASY))
    measured = MeasuredCell(
        label="good", gamma=4, temperature=0.7, expected=2.0, speedup=1.9, low=1.8, high=2.0,
        count=6,
    )  # fmt: skip
    record = json.loads(json.dumps(answer_to_json(found, (measured,)), allow_nan=False))
    good = found.candidates[1].surface
    assert [row["speedup"] for row in record["surface"]] == [each.speedup for each in good.cells]
    for row in record["surface"]:
        assert {"gamma", "temperature", "speedup", "low", "high"} <= row.keys()
    assert record["best"]["label"] == "good"
    assert record["best"]["gamma"] == best_of(found.candidates[1])[1].gamma
    assert record["advice"] == advice(found)
    assert [row["label"] for row in record["ranking"]] == ["good", "bad"]
    assert [row["label"] for row in record["candidates"]] == ["bad", "good"]
    (row,) = record["measured"]
    assert row["error"] == pytest.approx(-0.05)
    assert record["complete"] is True


def test_json_of_an_empty_answer_is_complete() -> None:
    record = answer_to_json(answer(complete=False))
    assert (record["surface"], record["best"], record["ranking"]) == ([], None, [])
    assert (record["measured"], record["complete"]) == ([], False)
    bare = answer_to_json(answer(drafting("x", EASY, costs={})))
    assert bare["best"] is None
    assert all(row["speedup"] is None and row["tau"] > 1 for row in bare["surface"])


def test_scored_text_lists_every_token() -> None:
    record = json.loads(json.dumps(scored_to_json(text_of([0.25, 0.5, 1.0]))))
    assert [row["odds"] for row in record["tokens"]] == [0.25, 0.5, 1.0]
    assert record["odds"] == pytest.approx(1.75 / 3)
    assert record["greedy_agreement"] == pytest.approx(2 / 3)
    assert record["impossible_at"] is None
    assert [row["count"] for row in record["token_kinds"]] == [3]


# Invalid questions


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"items": ()}, "number of texts is 0"),
        ({"items": ITEMS * 2001}, "number of texts is 2001"),
        ({"temperatures": ()}, "number of temperatures is 0"),
        ({"temperatures": tuple(n / 10 for n in range(17))}, "number of temperatures is 17"),
        ({"temperatures": (0.7, float("nan"))}, "temperature is nan"),
        ({"temperatures": (-0.5,)}, "temperature is -0.5"),
        ({"gammas": (1, 0)}, "gamma is 0"),
        ({"gammas": (65,)}, "gamma is 65"),
        ({"lanes": ()}, "number of candidates is 0"),
        ({"lanes": (drafting("x", EASY).lane,) * 10}, "number of candidates is 10"),
    ],
)
def test_rejects_an_invalid_question(changes: dict[str, Any], culprit: str) -> None:
    asked = {"lanes": (drafting("x", EASY).lane,), "items": ITEMS, "temperatures": (0.7,)}
    with pytest.raises(ConfigError, match=culprit):
        Question(**(asked | changes))


@pytest.mark.parametrize(
    ("typed", "culprit"),
    [
        ("rule=over-accept,epsilon=0.1", "rule=over-accept changes"),
        ("stop=END", "without forks and stop strings"),
        ("forks=1:1:5=0.5", "without forks and stop strings"),
        ("gamma=8", "a different gamma"),
        ("temperature=0", "a different temperature"),
        ("top-k=40", "a different top_k"),
        ("max-new-tokens=9", "a different max_new_tokens"),
        ("seed=9", "a different seed"),
        ("chat=yes", "a different chat"),
    ],
)
def test_rejects_candidates_that_differ_in_more_than_the_method(typed: str, culprit: str) -> None:
    default = drafting("x", EASY).lane
    with pytest.raises(ConfigError, match=culprit):
        Question(lanes=(default, parse_lane(typed, default)), items=ITEMS)
    drafts = parse_lane("drafter=prompt-lookup", default), parse_lane("draft-body=10M", default)
    asked = Question(lanes=(default, *drafts), items=ITEMS)
    assert len(set(asked.labels)) == 3
    assert asked.num_texts == 4
    assert replace(asked, continuations=5).num_texts == 5 + 3  # at the ranked temperature


@pytest.mark.parametrize(("low", "high", "has_map"), [(1.3, 1.7, True), (0.2, 9.0, False)])
def test_the_terminal_shows_a_map_only_of_certain_speedups(
    low: float, high: float, *, has_map: bool
) -> None:
    text = render_tune(Painter(colour=False, width=100), with_ends(1.5, low, high), given=False)
    assert ("T 0.7" in text) == has_map
    assert ("★" in text) == has_map


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(1.8, 2.0, "−5.0 %"), (0.2, 9.0, UNKNOWN), (None, None, "−5.0 %")]
)
def test_the_error_of_an_uncertain_measurement_is_not_stated(
    low: float | None, high: float | None, expected: str
) -> None:
    measured = MeasuredCell(
        label="good", gamma=4, temperature=0.7, expected=2.0, speedup=1.9, low=low, high=high,
        count=6,
    )  # fmt: skip
    assert off_by(measured) == expected
