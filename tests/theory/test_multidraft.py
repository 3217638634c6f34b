"""Several drafts for one position: the printed table, bounds, and limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory import multidraft
from specviz.theory.examples import REF5
from specviz.theory.multidraft import acceptance_curves
from tests.theory.distributions import Pair, pairs

# k: naive, recursive, k-SEQ and its rho, optimal, without replacement, top-k.
TABLE = {
    1: (0.23, 0.70, 0.70, 1.0, 0.70, 0.70, 0.25),
    2: (0.3805, 0.805, 0.84, 1.4, 0.9275, 0.87892157, 0.55),
    3: (0.48575, 0.87325, 0.90133905, 1.6756, 1.0, 0.93690476, 0.65),
    4: (0.56381875, 0.8932625, 0.93405352, 1.8937, 1.0, 0.98333333, 0.90),
    5: (0.62451238, 0.90927313, 0.95587919, 2.0588, 1.0, 1.0, 1.0),
    8: (0.74748389, 0.94428236, 0.98664206, 2.3664, 1.0, 1.0, 1.0),
}


def test_the_table_as_printed() -> None:
    curves = acceptance_curves(REF5.draft, REF5.target, 8)
    for k, (naive, recursive, sequential, rho, optimal, without, top) in TABLE.items():
        at = k - 1
        assert curves.naive[at] == pytest.approx(naive, abs=5e-9)
        assert curves.recursive[at] == pytest.approx(recursive, abs=5e-9)
        assert curves.k_sequential[at] == pytest.approx(sequential, abs=5e-9)
        assert curves.optimal[at] == pytest.approx(optimal, abs=5e-9)
        assert curves.without_replacement[at] == pytest.approx(without, abs=5e-9)
        assert curves.top[at] == pytest.approx(top, abs=5e-9)
        assert multidraft.k_sequential(REF5.draft, REF5.target, k)[1] == pytest.approx(
            rho, abs=5e-5
        )


@given(pairs(2, 5), st.integers(1, 5))
@settings(max_examples=80)
def test_optimal_bounds_every_rule(pair: Pair, k: int) -> None:
    draft, target = pair
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(len(draft)), size) for size in range(len(draft) + 1)
    )
    least = min(target[list(each)].sum() - min(1.0, draft[list(each)].sum()) ** k for each in sets)
    best = multidraft.optimal(draft, target, k)
    assert best == pytest.approx(1.0 + least, abs=1e-9)
    overlap = float(np.minimum(draft, target).sum())
    for rule in (multidraft.recursive(*pair, k), multidraft.k_sequential(*pair, k)[0]):
        assert overlap - 1e-9 <= rule <= best + 1e-9
    sequential = multidraft.k_sequential(*pair, k)[0]
    assert sequential >= (1.0 - (1.0 - 1.0 / k) ** k) * best - 1e-9
    assert multidraft.naive(*pair, k) <= best + 1e-9


@given(pairs(2, 5))
@settings(max_examples=60)
def test_without_replacement_reaches_1(pair: Pair) -> None:
    curve = multidraft.without_replacement(*pair, len(pair[0]))
    assert curve[0] == pytest.approx(float(np.minimum(*pair).sum()), abs=1e-9)
    assert curve[-1] == pytest.approx(1.0, abs=1e-9)
    assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(curve))


def test_without_replacement_by_simulation() -> None:
    rng = np.random.default_rng(1)
    draft, target = np.array(REF5.draft), np.array(REF5.target)
    hits, trials = 0, 6000
    for _ in range(trials):
        rest, left = target, draft
        for _ in range(2):
            token = rng.choice(5, p=left)
            if rng.random() < rest[token] / left[token]:
                hits += 1
                break
            rest = np.maximum(rest - left, 0.0)
            rest = rest / rest.sum()
            left = np.where(np.arange(5) == token, 0.0, left)
            left = left / left.sum()
    assert hits / trials == pytest.approx(0.87892157, abs=4 * 0.33 / trials**0.5)


def test_equal_models_need_one_draft() -> None:
    curves = acceptance_curves(REF5.draft, REF5.draft, 3)
    for curve in (curves.recursive, curves.k_sequential, curves.optimal):
        assert curve == pytest.approx((1.0, 1.0, 1.0), abs=1e-12)


def test_refuses_too_many_orders() -> None:
    rng = np.random.default_rng(4)
    with pytest.raises(TheoryError, match="fewer"):
        multidraft.without_replacement(rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40)), 9)
