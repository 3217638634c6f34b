"""Several drafts, trees and block verification on the embedded pair, against recorded expectations.

A wrong expectation must fail clearly.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from specviz.engine import Pair, load_pair, speculate
from specviz.figures.method_checks import (
    DraftsPoint,
    block_check,
    joint_deviations,
    places_of,
    rejections_over_drafts,
)
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import Round, RunConfig, Trace
from tests.traces import make_trace

METHODS = [{"num_drafts": number} for number in (1, 2, 4, 8)]
TREE = {"branching": (3, 2, 1)}


@cache
def the_pair() -> Pair:
    return load_pair(PairSpec(name="tinystories", threads=1))


def written(seed: int, **settings: object) -> Trace:
    given = {"temperature": 1.0, "ignore_eos": True, "max_new_tokens": 200, "record": False}
    config = RunConfig(seed=seed, **(given | settings))  # pyright: ignore[reportArgumentType]
    run = speculate(the_pair(), read_presets()[5 * seed].text, config)
    return make_trace(list(run), config=config, prompt=run.prompt)


@cache
def of_method(place: int) -> tuple[Trace, ...]:
    method = (*METHODS, TREE)[place]
    return tuple(written(seed, **method) for seed in range(2))


def widest(point: DraftsPoint) -> float:
    found = [each.z for each in (point.accepted, point.rejected)]
    return max(abs(each) for each in found if each is not None)


@pytest.mark.thorough
def test_drafts_and_trees_match_their_recorded_expectations() -> None:
    runs = [run for place in range(len(METHODS) + 1) for run in of_method(place)]
    points = rejections_over_drafts(runs)
    assert [each.label for each in points] == [
        *(f"γ 5 × M {number}" for number in (1, 2, 4, 8)), "tree 3x2x1",
    ]  # fmt: skip
    for each in points:
        print(f"{each.label}: τ {each.tau:.3f}, expected {each.tau_expected:.3f}")
        assert min(each.accepted.variance, each.rejected.variance) > 20
    assert max(map(widest, points)) < joint_deviations(2 * len(points))


@pytest.mark.thorough
def test_an_expectation_that_ignores_rejected_siblings_does_not_fit() -> None:
    """As if each sibling were judged against the target alone, ignoring rejected siblings."""
    eight = of_method(METHODS.index({"num_drafts": 8}))
    ignoring = [replace(each, rounds=tuple(map(_ignore_rejected, each.rounds))) for each in eight]
    (point,) = rejections_over_drafts(ignoring)
    assert widest(point) > joint_deviations(10)


def _ignore_rejected(entry: Round) -> Round:
    firsts = [(each, place[0]) for place in places_of(entry) for each in place]
    return replace(
        entry,
        candidates=tuple(
            replace(each, expected_acceptance=first.expected_acceptance) for each, first in firsts
        ),
    )


@pytest.mark.parametrize(
    "gamma",
    [pytest.param(2, marks=pytest.mark.thorough), pytest.param(5, marks=pytest.mark.thorough), 8],
)
def test_block_verification_is_never_worse_in_a_round(gamma: int) -> None:
    check = block_check([written(seed, rule="block", gamma=gamma) for seed in range(3)])
    assert len(check.rounds) > 100
    assert all(each.by_block >= each.by_token - 1e-9 for each in check.rounds)
    assert check.by_block > 1.02 * check.by_token
    assert check.z is not None
    assert abs(check.z) < 4
    print(f"γ {gamma}: {check.by_block / check.by_token:.3f} times as many")
