"""Several drafts, trees and blocks on texts that the embedded pair writes, against their record.

The power is shown: what does not follow the rule lies far outside.
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

WAYS = [{"num_drafts": number} for number in (1, 2, 4, 8)]
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
def several() -> tuple[Trace, ...]:
    return tuple(written(seed, **way) for way in (*WAYS, TREE) for seed in range(2))


def widest(point: DraftsPoint) -> float:
    found = [each.z for each in (point.accepted, point.rejected)]
    return max(abs(each) for each in found if each is not None)


def test_drafts_and_trees_give_what_their_record_expects() -> None:
    points = rejections_over_drafts(several())
    assert [each.label for each in points] == [
        *(f"γ 5 × M {number}" for number in (1, 2, 4, 8)), "tree 3x2x1",
    ]  # fmt: skip
    for each in points:
        print(f"{each.label}: τ {each.tau:.3f}, expected {each.tau_expected:.3f}")
        assert min(each.accepted.variance, each.rejected.variance) > 20
    assert max(map(widest, points)) < joint_deviations(2 * len(points))


def test_an_expectation_that_forgets_who_fell_does_not_fit() -> None:
    """As if each sibling stood by the target's own law, whatever fell before it."""
    eight = [each for each in several() if each.config.num_drafts == 8]
    forgetful = [replace(each, rounds=tuple(map(_forgetful, each.rounds))) for each in eight]
    (point,) = rejections_over_drafts(forgetful)
    assert widest(point) > joint_deviations(10)


def _forgetful(entry: Round) -> Round:
    firsts = [(each, place[0]) for place in places_of(entry) for each in place]
    return replace(
        entry,
        candidates=tuple(
            replace(each, expected_acceptance=first.expected_acceptance) for each, first in firsts
        ),
    )


@pytest.mark.parametrize("gamma", [2, 5, 8])
def test_no_round_does_worse_as_a_block(gamma: int) -> None:
    check = block_check([written(seed, rule="block", gamma=gamma) for seed in range(3)])
    assert len(check.rounds) > 100
    assert all(each.by_block >= each.by_token - 1e-9 for each in check.rounds)
    assert check.by_block > 1.02 * check.by_token
    assert check.z is not None
    assert abs(check.z) < 4
    print(f"γ {gamma}: {check.by_block / check.by_token:.3f} times as many")
