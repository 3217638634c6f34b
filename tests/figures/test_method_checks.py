"""Checks of several drafts and block verification, on handmade traces with known values."""

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
from tests.oracles.trees import sibling_outcome
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


def test_counts_rejections_by_candidate_and_by_place() -> None:
    (point,) = rejections_over_drafts(
        [
            # The root's second candidate and its child are accepted; then both of the root's
            # candidates are rejected.
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


def test_accepting_the_first_candidate_leaves_the_last_untested() -> None:
    entry = side_by_side("adad", expected=[0.6, 0.5, 0.9, 0.7], parents=[-1, -1, 0, 1])
    (point,) = rejections_over_drafts([drafts(entry)])
    assert point.num_places == 2
    assert point.rejected.expected == pytest.approx(0.1, abs=1e-12)  # of the child alone
    assert point.fallen.expected == pytest.approx(0.4 + 0.1, abs=1e-12)


def test_one_draft_is_a_chain_and_points_are_ordered() -> None:
    entry = side_by_side("rrdd", expected=[0.5] * 4, parents=[-1, -1, 0, 1])
    one = make_trace(["ar"], config=RunConfig(gamma=2))
    two, first = rejections_over_drafts([drafts(entry), one, one])[::-1]
    assert (first.num_drafts, first.num_runs, two.num_drafts) == (1, 2, 2)
    assert (first.rejected, first.num_places) == (first.fallen, 4)


def test_tau_leaves_out_rounds_cut_by_a_limit() -> None:
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


def test_a_joint_band_is_wider_for_more_deviates() -> None:
    """Tabulated: the 0.995 and the 0.99875 quantile of the normal distribution."""
    assert joint_deviations(1) == pytest.approx(2.5758, abs=1e-4)
    assert joint_deviations(4) == pytest.approx(3.0233, abs=1e-4)


def test_no_z_without_randomness() -> None:
    (point,) = rejections_over_drafts([make_trace([make_round("aaa", expected=1.0)])])
    assert (point.rejected.expected, point.rejected.z) == (0.0, None)
    assert rejections_over_drafts([]) == ()
    assert rejections_over_drafts([make_trace([make_round("")])]) == ()


@pytest.mark.parametrize("replacement", [True, False])
def test_many_rounds_approach_the_theory(replacement: bool) -> None:
    """Draw and judge rounds of two siblings; compare their sums with the exact distribution."""
    rng = np.random.default_rng(3)
    rounds = [_drawn(rng, replacement) for _ in range(3000)]
    config = RunConfig(gamma=1, num_drafts=2, replacement=replacement)
    (point,) = rejections_over_drafts([make_trace(rounds, config=config)])
    exact = sibling_outcome(DRAFT, TARGET, 2, replacement=replacement).recovered.sum()
    error = 0.5 / math.sqrt(len(rounds))
    assert point.rejected.expected / len(rounds) == pytest.approx(exact, abs=4 * error)
    for count in (point.rejected, point.fallen):
        assert count.variance > 100
        assert abs(count.observed - count.expected) < 4 * math.sqrt(count.variance)
    if replacement:
        saved = batch_improvement(DRAFT, TARGET, 2)
        assert exact == pytest.approx(0.4 - saved, abs=1e-12)


def _drawn(rng: np.random.Generator, replacement: bool) -> Round:
    draft, target, made, open_ = DRAFT, TARGET, list[Candidate](), True
    for _ in range(2):
        token = int(rng.choice(3, p=draft))
        accepted = rng.random() < target[token] / draft[token]
        letter = ("a" if accepted else "r") if open_ else "d"
        overlap = float(np.minimum(draft, target).sum())
        made.append(make_candidate(letter, expected_acceptance=overlap, parent=-1))
        open_ = open_ and not accepted
        residual = np.maximum(target - draft, 0.0)
        target = residual / residual.sum()
        if not replacement:
            draft = np.where(np.arange(3) == token, 0.0, draft)
            draft = draft / draft.sum()
    return replace(make_round("a"), candidates=tuple(made))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "block"}, "number of candidates varies"),
        ({"rule": "over-accept", "epsilon": 0.1}, "number of candidates varies"),
        ({"drafter": "prompt-lookup"}, "number of candidates varies"),
        ({"temperature": 0.0}, "greedy"),
    ],
)
def test_rejects_other_runs(changes: dict[str, object], message: str) -> None:
    config = replace(RunConfig(gamma=2), **changes)
    with pytest.raises(ConfigError, match=message):
        rejections_over_drafts([make_trace(["aa"], config=config)])


# Blocks

BLOCK = RunConfig(gamma=2, rule="block")


def block_round(tokens: list[int], accepted: int, ratios: list[float]) -> Round:
    """Return candidates with these ratios target/draft; those after the accepted ones are cut."""
    candidates: list[Candidate] = []
    weight = 1.0
    for place, (token, ratio) in enumerate(zip(tokens, ratios, strict=True)):
        weight = min(1.0, weight * ratio)
        made = make_candidate(token_id=token, draft_prob=0.25, target_prob=0.25 * ratio)
        verdict = "accepted" if place < accepted else "cut"
        candidates.append(replace(made, verdict=verdict, joint=weight))
    kept = tuple(each.token_id for each in candidates[:accepted])
    return replace(make_round(""), candidates=tuple(candidates), emitted=(*kept, 99))


def test_compares_block_and_token_verification_on_the_same_drafts() -> None:
    rounds = [block_round([1, 2], 2, [0.5, 2.0]), block_round([3, 4], 0, [0.5, 0.5])]
    check = block_check([make_trace(rounds, config=BLOCK)])
    assert check.by_block == pytest.approx(0.5 + 1.0 + 0.5 + 0.25, abs=1e-12)
    assert check.by_token == pytest.approx(0.5 + 0.5 + 0.5 + 0.25, abs=1e-12)
    assert check.accepted == 2
    assert all(each.by_block >= each.by_token for each in check.rounds)
    assert check.z == pytest.approx(-0.25 / math.sqrt(0.25 + 0.5625), abs=1e-12)


def test_block_check_needs_block_verification() -> None:
    with pytest.raises(ConfigError, match="block"):
        block_check([make_trace(["aa"])])
    assert block_check([]).z is None
    sure = make_trace([block_round([1, 2], 2, [1.0, 1.0])], config=BLOCK)
    assert block_check([sure]).z is None


def test_candidates_after_the_end_count_in_no_round() -> None:
    """Token 7 ends the text: first it is drafted and cut, then accepted."""
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
