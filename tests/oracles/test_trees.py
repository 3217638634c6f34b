"""Several drafts and trees: exact by enumeration, equal to brute force, and bugs detected."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory import multidraft
from specviz.theory.claims.batches import root_step
from specviz.theory.examples import REF5
from specviz.theory.rounds import (
    Emitted,
    Kernel,
    Text,
    chain_distribution,
    mean_accepted,
    round_bias,
)
from tests.oracles.trees import multi_draft_distribution, sibling_outcome, tree_distribution
from tests.theory.distributions import Distribution, Pair, pairs
from tests.theory.kernels import ROUNDING, both, kernel, seeds, sizes

COUNTS = st.integers(1, 4)
SHAPES = [(3, 2, 1), (2, 2, 2, 2), (4, 1, 2), (1, 3)]


@given(pairs(2, 6), COUNTS, st.booleans())
@settings(max_examples=80, deadline=None)
def test_siblings_emit_the_target_distribution(pair: Pair, count: int, replacement: bool) -> None:
    found = sibling_outcome(*pair, count, replacement=replacement)
    assert found.emitted == pytest.approx(pair[1], abs=ROUNDING)


@given(seeds, sizes, COUNTS, st.booleans())
@settings(max_examples=20, deadline=None)
def test_several_drafts_are_exact(
    seed: int, size: tuple[int, int], count: int, replacement: bool
) -> None:
    draft, target = both(seed, *size)
    emitted = multi_draft_distribution(draft, target, count, size[1], replacement=replacement)
    assert sum(emitted.values()) == pytest.approx(1.0, abs=ROUNDING)
    assert round_bias(emitted, target) < ROUNDING
    assert (
        mean_accepted(emitted)
        >= mean_accepted(chain_distribution(draft, target, size[1])) - ROUNDING
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("replacement", [False, True])
def test_trees_are_exact(shape: tuple[int, ...], replacement: bool) -> None:
    for seed in range(3):
        draft, target = both(seed, 3, len(shape))
        emitted = tree_distribution(draft, target, shape, replacement=replacement)
        assert round_bias(emitted, target) < ROUNDING


def test_one_draft_is_a_chain() -> None:
    draft, target = both(3, 3, 3)
    assert multi_draft_distribution(draft, target, 1, 3) == pytest.approx(
        chain_distribution(draft, target, 3)
    )


# Brute force over every tree and every verdict


def drawn(
    probs: Distribution, count: int, replacement: bool
) -> list[tuple[tuple[int, ...], float]]:
    """Return every order in which siblings can be drawn, and its probability."""
    orders: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for _ in range(count):
        grown = []
        for order, chance in orders:
            left = (
                probs
                if replacement
                else np.where(np.isin(np.arange(len(probs)), order), 0.0, probs)
            )
            if left.sum() == 0.0:
                grown.append((order, chance))
                continue
            grown += [
                ((*order, int(token)), chance * left[token] / left.sum())
                for token in np.flatnonzero(left)
            ]
        orders = grown
    return orders


def walked(
    draft: Kernel, target: Kernel, shape: tuple[int, ...], replacement: bool, text: Text = ()
) -> Emitted:
    """Return what is emitted below a node: draw all siblings first, then test each."""
    found: Emitted = defaultdict(float)
    if not shape:
        return {(token,): odds for token, odds in enumerate(np.asarray(target(text)).tolist())}
    below = {
        token: walked(draft, target, shape[1:], replacement, (*text, token))
        for token in np.flatnonzero(draft(text)).tolist()
    }
    for order, chance in drawn(np.asarray(draft(text)), shape[0], replacement):
        drawn_from, asked, reached = np.array(draft(text)), np.array(target(text)), chance
        for token in order:
            odds = min(1.0, asked[token] / drawn_from[token])
            for behind, share in below[token].items():
                found[token, *behind] += reached * odds * share
            reached *= 1.0 - odds
            rest = np.maximum(asked - drawn_from, 0.0)
            asked = rest / rest.sum() if rest.sum() > 0.0 else asked
            if not replacement:
                drawn_from[token] = 0.0
                drawn_from = drawn_from / max(drawn_from.sum(), 1e-300)
        for token, share in enumerate(asked.tolist()):
            found[token,] += reached * share
    return found


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("shape", [(2, 1, 1), (3, 2), (2, 2, 1)])
def test_tree_distribution_equals_brute_force(shape: tuple[int, ...], replacement: bool) -> None:
    draft, target = both(7, 3, len(shape))
    wanted = walked(draft, target, shape, replacement)
    emitted = tree_distribution(draft, target, shape, replacement=replacement)
    for key in set(wanted) | set(emitted):
        assert emitted.get(key, 0.0) == pytest.approx(wanted[key], abs=ROUNDING), key


# Acceptance against other formulas


@given(pairs(2, 6), COUNTS)
@settings(max_examples=60, deadline=None)
def test_with_replacement_equals_recursive_rejection(pair: Pair, count: int) -> None:
    found = sibling_outcome(*pair, count, replacement=True)
    assert found.accepted.sum() == pytest.approx(multidraft.recursive(*pair, count), abs=ROUNDING)
    chosen, none = root_step(*pair, count, True)
    assert found.accepted == pytest.approx(chosen, abs=ROUNDING)
    assert found.recovered == pytest.approx(none, abs=ROUNDING)


def test_without_replacement_equals_sequoia_while_the_draft_has_tokens() -> None:
    curve = multidraft.without_replacement(REF5.draft, REF5.target, 4)
    found = [sibling_outcome(REF5.draft, REF5.target, k).accepted.sum() for k in (1, 2, 3, 4)]
    assert found == pytest.approx(list(curve), abs=ROUNDING)


def test_a_draft_that_has_run_out_has_fewer_children() -> None:
    draft, target = [0.5, 0.5, 0.0], [0.2, 0.2, 0.6]
    two, four = (sibling_outcome(draft, target, count) for count in (2, 4))
    assert four.accepted == pytest.approx(two.accepted, abs=0.0)
    assert four.emitted == pytest.approx(target, abs=ROUNDING)


# Bugs


def test_testing_siblings_against_the_draft_is_biased() -> None:
    """Without replacement, earlier siblings are removed from the distribution it is drawn from."""
    worst = 0.0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        draft, target = rng.dirichlet(np.full(3, 0.6)), rng.dirichlet(np.full(3, 0.6))
        if min(draft.min(), target.min()) > 1e-3:
            found = sibling_outcome(draft, target, 2, own=False).emitted
            worst = max(worst, 0.5 * float(np.abs(found - target).sum()))
    assert worst > 0.2
    draft, target = kernel(1, 0, 3, 3), kernel(1, 1, 3, 3)
    for shape in SHAPES[:1]:
        assert round_bias(tree_distribution(draft, target, shape, own=False), target) > 0.01
    emitted = multi_draft_distribution(draft, target, 3, 3, replacement=False, own=False)
    assert round_bias(emitted, target) > 0.01


def test_with_replacement_siblings_are_drawn_from_the_draft() -> None:
    draft, target = both(2, 3, 2)
    emitted = multi_draft_distribution(draft, target, 3, 2, own=False)
    assert round_bias(emitted, target) < ROUNDING


def test_refuses_too_many_orders() -> None:
    rng = np.random.default_rng(4)
    with pytest.raises(TheoryError, match="fewer"):
        sibling_outcome(rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40)), 9)
    with pytest.raises(TheoryError, match="smaller"):
        tree_distribution(lambda text: [0.5, 0.5], lambda text: [0.5, 0.5], [1] * 40)


def test_drawn_enumerates_all_orders() -> None:
    probs = np.array([0.5, 0.3, 0.2])
    assert len(drawn(probs, 2, False)) == len(list(itertools.permutations(range(3), 2)))
    assert sum(chance for _, chance in drawn(probs, 3, False)) == pytest.approx(1.0)
