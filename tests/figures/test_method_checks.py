"""Several drafts and blocks on traces made by hand, every figure worked out on paper."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import ConfigError
from specviz.figures.method_checks import (
    block_check,
    joint_deviations,
    places_of,
    rejections_over_drafts,
)
from specviz.record.trace import Candidate, Round, RunConfig, Trace
from specviz.theory.rejections import batch_improvement
from specviz.theory.trees import judged_siblings
from tests.traces import make_candidate, make_round, make_trace

DRAFT, TARGET = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])


def side_by_side(verdicts: str, *, expected: list[float], parents: list[int]) -> Round:
    plain = make_round(verdicts, expected=expected)
    drafted = zip(plain.candidates, parents, strict=True)
    return replace(
        plain, candidates=tuple(replace(each, parent=parent) for each, parent in drafted)
    )


def drafts(*rounds: Round, num_drafts: int = 2) -> Trace:
    return make_trace(rounds, config=RunConfig(gamma=2, num_drafts=num_drafts))


def test_siblings_are_one_place() -> None:
    entry = side_by_side("rada", expected=[0.5] * 4, parents=[-1, -1, 0, 1])
    assert [len(place) for place in places_of(entry)] == [2, 1, 1]
    assert [len(place) for place in places_of(make_round("aar"))] == [1, 1, 1]
    assert not list(places_of(make_round("")))


def test_what_falls_is_counted_by_candidate_and_by_place() -> None:
    (point,) = rejections_over_drafts(
        [
            # The second of the root stands, and its child; then both of the root fall.
            drafts(
                side_by_side("rada", expected=[0.6, 0.5, 0.9, 0.7], parents=[-1, -1, 0, 1]),
                side_by_side("rrdd", expected=[0.6, 0.5, 0.9, 0.7], parents=[-1, -1, 0, 1]),
            )
        ]
    )
    assert (point.num_drafts, point.num_runs, point.num_places) == (2, 1, 3)
    assert point.num_tokens == 4
    assert (point.fallen.observed, point.rejected.observed) == (3, 1)
    assert point.fallen.expected == pytest.approx(0.4 + 0.5 + 0.3 + 0.4 + 0.5, abs=1e-12)
    assert point.rejected.expected == pytest.approx(0.5 + 0.3 + 0.5, abs=1e-12)
    spread = math.sqrt(0.25 + 0.21 + 0.25)
    assert point.rejected.z == pytest.approx(-0.3 / spread, abs=1e-12)
    assert point.rejections_a_token == 1 / 4
    assert point.expected_a_token == pytest.approx(1.3 / 4, abs=1e-12)


def test_a_place_whose_first_candidate_stands_tests_no_last_one() -> None:
    entry = side_by_side("adad", expected=[0.6, 0.5, 0.9, 0.7], parents=[-1, -1, 0, 1])
    (point,) = rejections_over_drafts([drafts(entry)])
    assert point.num_places == 2
    assert point.rejected.expected == pytest.approx(0.1, abs=1e-12)  # of the child alone
    assert point.fallen.expected == pytest.approx(0.4 + 0.1, abs=1e-12)


def test_one_draft_is_a_chain_and_numbers_are_in_order() -> None:
    entry = side_by_side("rrdd", expected=[0.5] * 4, parents=[-1, -1, 0, 1])
    one = make_trace(["ar"], config=RunConfig(gamma=2))
    two, first = rejections_over_drafts([drafts(entry), one, one])[::-1]
    assert (first.num_drafts, first.num_runs, two.num_drafts) == (1, 2, 2)
    assert (first.rejected, first.num_places) == (first.fallen, 4)


def test_tokens_a_round_leave_out_what_a_limit_kept_short() -> None:
    rounds = [
        side_by_side("rada", expected=[0.6, 0.5, 0.9, 0.7], parents=[-1, -1, 0, 1]),
        replace(side_by_side("ad", expected=[0.6, 0.5], parents=[-1, -1]), cut="eos"),
        replace(side_by_side("rr", expected=[0.6, 0.5], parents=[-1, -1]), cut="length"),
    ]
    (point,) = rejections_over_drafts([drafts(*rounds)])
    assert (point.num_rounds, point.num_places) == (2, 4)
    assert point.tau == 1 + (2 + 1) / 2
    assert point.tau_expected == pytest.approx(1 + (0.6 + 0.5 + 0.7 + 0.6) / 2, abs=1e-12)
    assert point.accepted.variance == pytest.approx(0.24 + 0.25 + 0.21 + 0.24, abs=1e-12)


def test_a_tree_is_a_point_of_its_own() -> None:
    entry = side_by_side("radd", expected=[0.6, 0.5, 0.9, 0.7], parents=[-1, -1, 1, 1])
    tree = make_trace([entry], config=RunConfig(branching=(2, 2)))
    two, found = rejections_over_drafts([tree, drafts(entry)])
    assert (two.label, found.label) == ("γ 2 × M 2", "tree 2x2")
    assert (two.num_candidates, found.num_candidates) == (4, 6)


def test_another_gamma_is_another_point() -> None:
    runs = [make_trace(["ar"], config=RunConfig(gamma=gamma)) for gamma in (5, 2, 5)]
    points = rejections_over_drafts(runs)
    assert [(each.label, each.num_runs) for each in points] == [("γ 2 × M 1", 1), ("γ 5 × M 1", 2)]


def test_a_joint_band_is_wider_the_more_it_holds() -> None:
    """Tabled: the 0.995 and the 0.99875 point of the normal law."""
    assert joint_deviations(1) == pytest.approx(2.5758, abs=1e-4)
    assert joint_deviations(4) == pytest.approx(3.0233, abs=1e-4)


def test_nothing_to_luck_is_no_z() -> None:
    (point,) = rejections_over_drafts([make_trace([make_round("aaa", expected=1.0)])])
    assert (point.rejected.expected, point.rejected.z) == (0.0, None)
    assert rejections_over_drafts([]) == ()
    assert rejections_over_drafts([make_trace([make_round("")])]) == ()


@pytest.mark.parametrize("replacement", [True, False])
def test_over_many_rounds_it_comes_to_the_theory(replacement: bool) -> None:
    """Rounds of two siblings drawn and judged here; the record's sums against the exact law."""
    rng = np.random.default_rng(3)
    rounds = [_drawn(rng, replacement) for _ in range(3000)]
    config = RunConfig(gamma=1, num_drafts=2, replacement=replacement)
    (point,) = rejections_over_drafts([make_trace(rounds, config=config)])
    exact = judged_siblings(DRAFT, TARGET, 2, replacement=replacement).instead.sum()
    error = 0.5 / math.sqrt(len(rounds))
    assert point.rejected.expected / len(rounds) == pytest.approx(exact, abs=4 * error)
    for count in (point.rejected, point.fallen):
        assert count.variance > 100
        assert abs(count.observed - count.expected) < 4 * math.sqrt(count.variance)
    if replacement:
        saved = batch_improvement(DRAFT, TARGET, 2)
        assert exact == pytest.approx(0.4 - saved, abs=1e-12)


def _drawn(rng: np.random.Generator, replacement: bool) -> Round:
    law, asked, made, open_ = DRAFT, TARGET, list[Candidate](), True
    for _ in range(2):
        token = int(rng.choice(3, p=law))
        stands = rng.random() < asked[token] / law[token]
        letter = ("a" if stands else "r") if open_ else "d"
        chance = float(np.minimum(law, asked).sum())
        made.append(make_candidate(letter, expected_acceptance=chance, parent=-1))
        open_ = open_ and not stands
        left = np.maximum(asked - law, 0.0)
        asked = left / left.sum()
        if not replacement:
            law = np.where(np.arange(3) == token, 0.0, law)
            law = law / law.sum()
    return replace(make_round("a"), candidates=tuple(made))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rule": "block"}, "no rounds"),
        ({"rule": "over-accept", "epsilon": 0.1}, "no rounds"),
        ({"drafter": "prompt-lookup"}, "no rounds"),
        ({"temperature": 0.0}, "greedy"),
    ],
)
def test_what_is_something_else_is_refused(changes: dict[str, object], told: str) -> None:
    config = replace(RunConfig(gamma=2), **changes)
    with pytest.raises(ConfigError, match=told):
        rejections_over_drafts([make_trace(["aa"], config=config)])


# Blocks

BLOCK = RunConfig(gamma=2, rule="block")


def block_round(tokens: list[int], accepted: int, ratios: list[float]) -> Round:
    """Candidates of these ratios target/draft; those behind the accepted ones are cut."""
    candidates: list[Candidate] = []
    weight = 1.0
    for place, (token, ratio) in enumerate(zip(tokens, ratios, strict=True)):
        weight = min(1.0, weight * ratio)
        made = make_candidate(token_id=token, draft_prob=0.25, target_prob=0.25 * ratio)
        verdict = "accepted" if place < accepted else "cut"
        candidates.append(replace(made, verdict=verdict, joint=weight))
    stood = tuple(each.token_id for each in candidates[:accepted])
    return replace(make_round(""), candidates=tuple(candidates), emitted=(*stood, 99))


def test_blocks_and_tokens_on_the_same_drafts() -> None:
    rounds = [block_round([1, 2], 2, [0.5, 2.0]), block_round([3, 4], 0, [0.5, 0.5])]
    check = block_check([make_trace(rounds, config=BLOCK)])
    assert check.by_block == pytest.approx(0.5 + 1.0 + 0.5 + 0.25, abs=1e-12)
    assert check.by_token == pytest.approx(0.5 + 0.5 + 0.5 + 0.25, abs=1e-12)
    assert check.accepted == 2
    assert all(each.by_block >= each.by_token for each in check.rounds)
    assert check.z == pytest.approx(-0.25 / math.sqrt(0.25 + 0.5625), abs=1e-12)


def test_blocks_and_tokens_are_no_other_rule() -> None:
    with pytest.raises(ConfigError, match="block"):
        block_check([make_trace(["aa"])])
    assert block_check([]).z is None
    sure = make_trace([block_round([1, 2], 2, [1.0, 1.0])], config=BLOCK)
    assert block_check([sure]).z is None


def test_what_is_behind_the_end_counts_in_no_round() -> None:
    """Token 7 ends the text: it was drafted and cut before, and stands in the end."""
    rounds = [
        block_round([7, 2], 0, [0.5, 2.0]),
        replace(block_round([7, 2], 1, [0.8, 0.5]), emitted=(7,), cut="eos"),
    ]
    trace = make_trace(rounds, config=BLOCK, finish="eos")
    check = block_check([trace])
    assert [each.by_block for each in check.rounds] == pytest.approx([0.5, 0.8], abs=1e-12)
    assert check.accepted == 1
    stopped = replace(trace, finish="stop", rounds=(rounds[0], replace(rounds[1], cut="stop")))
    assert len(block_check([stopped]).rounds) == 1
