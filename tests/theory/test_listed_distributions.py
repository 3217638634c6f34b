"""Partly listed distributions: exact where possible, otherwise bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.listed_distributions import (
    Filters,
    ListedDistribution,
    evidence_against,
    is_raw,
    needed,
    overlap_bounds,
    score,
)

SIZE = 40


def random_logprobs(seed: int, sharpness: float = 1.5) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0.0, sharpness, SIZE)
    return logits - np.log(np.exp(logits).sum())


def listed(logprobs: np.ndarray, count: int, token: int) -> ListedDistribution:
    order = np.argsort(-logprobs)[:count]
    return ListedDistribution(order, logprobs[order], float(logprobs[token]), whole=count == SIZE)


def by_hand(logprobs: np.ndarray, filters: Filters) -> np.ndarray:
    """Return the filtered distribution, computed without lists."""
    probs = np.exp(logprobs / filters.temperature)
    probs /= probs.sum()
    if filters.top_k:
        probs[probs < np.sort(probs)[-filters.top_k]] = 0.0
        probs /= probs.sum()
    if filters.top_p < 1.0:
        order = np.argsort(-probs)
        count = int(np.searchsorted(np.cumsum(probs[order]), filters.top_p)) + 1
        probs[order[count:]] = 0.0
        probs /= probs.sum()
    return probs


@given(st.integers(0, 10**6), st.integers(1, SIZE), st.integers(1, SIZE))
@settings(max_examples=200, deadline=None)
def test_overlap_bounds_meet_if_all_is_listed(seed: int, of_target: int, of_draft: int) -> None:
    target, draft = random_logprobs(seed), random_logprobs(seed + 1)
    exact = np.minimum(np.exp(target), np.exp(draft)).sum()
    low, high = overlap_bounds(listed(target, of_target, 0), listed(draft, of_draft, 0))
    assert low - 1e-12 <= exact <= high + 1e-12
    if of_target == of_draft == SIZE:
        assert low == pytest.approx(exact, abs=1e-12)
        assert high == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (Filters(), 1),
        (Filters(temperature=0.0), 1),
        (Filters(temperature=0.6, top_k=5), 5),
        (Filters(temperature=1.4, top_k=5, top_p=0.7), 5),
        (Filters(temperature=0.6), SIZE),
        (Filters(temperature=1.0, top_p=0.8), SIZE),
        (Filters(temperature=0.6, top_p=0.8), SIZE),
    ],
)
def test_odds_equal_those_of_complete_distributions(filters: Filters, count: int) -> None:
    assert needed(filters) == (None if count == SIZE else count)
    for seed in range(30):
        target, draft = random_logprobs(seed), random_logprobs(seed + 100)
        token = int(np.random.default_rng(seed).integers(SIZE))
        found = score(listed(target, count, token), listed(draft, count, token), token, filters)
        if filters.temperature == 0.0:
            whole = [np.eye(SIZE)[int(each.argmax())] for each in (target, draft)]
        else:
            whole = [by_hand(each, filters) for each in (target, draft)]
        own = whole[0][token], whole[1][token]
        assert found.target_prob == pytest.approx(own[0], abs=1e-12)
        assert found.odds == pytest.approx(min(1.0, own[1] / own[0]) if own[0] else 0.0, abs=1e-9)
        assert found.agrees == (target.argmax() == draft.argmax())
        if not filters.none:
            assert found.exact
            assert found.low == pytest.approx(np.minimum(*whole).sum(), abs=1e-9)


@pytest.mark.parametrize(
    "filters", [Filters(temperature=0.7), Filters(top_p=0.9), Filters(top_k=9)]
)
def test_refuses_lists_that_do_not_determine_the_odds(filters: Filters) -> None:
    target, draft = listed(random_logprobs(1), 8, 3), listed(random_logprobs(2), 8, 3)
    with pytest.raises(TheoryError, match="8 tokens are listed"):
        score(target, draft, 3, filters)


def test_is_raw_detects_modified_log_probabilities() -> None:
    logprobs = random_logprobs(4)
    assert is_raw(listed(logprobs, SIZE, 0))
    assert is_raw(listed(logprobs, 5, 0))
    assert not is_raw(listed(logprobs + 8.0, 5, 0))  # logits
    assert not is_raw(listed(logprobs / 0.5, SIZE, 0))  # another temperature, not normalised


def written(seed: int, count: int, *, sharpness: float) -> list[float]:
    """Return the evidence along a text sampled from the target, or from a flatter distribution."""
    draws = np.random.default_rng(seed)
    rows = []
    for place in range(count):
        target = random_logprobs(1000 * seed + place, 2.5)
        probs = np.exp(sharpness * target)
        token = int(draws.choice(SIZE, p=probs / probs.sum()))
        pair = listed(target, 20, token), listed(random_logprobs(place), 20, token)
        rows.append(score(*pair, token, Filters()))
    return [evidence_against(rows[: place + 1]) for place in range(count)]


def test_little_evidence_against_target_samples() -> None:
    highest = [max(written(seed, 40, sharpness=1.0)) for seed in range(300)]
    assert sum(each >= 20 for each in highest) <= 25  # 15 at most are expected
    assert max(highest) < 1000


def test_strong_evidence_against_other_distributions() -> None:
    assert sum(written(seed, 60, sharpness=0.2)[-1] >= 1000 for seed in range(20)) >= 19
