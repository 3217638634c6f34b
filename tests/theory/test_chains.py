"""Pairs of chains: the family of the paper, and invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from specviz.errors import TheoryError
from specviz.theory.chains import Chains, context_free_chains, random_chains, steady_chains


def test_rows_come_from_the_legacy_generator() -> None:
    source = np.random.RandomState(10)
    draft, target = source.rand(50, 7, 7), source.rand(50, 7, 7)
    chains = random_chains(10, 7, 50)
    assert np.array_equal(chains.draft_kernels, draft / draft.sum(-1, keepdims=True))
    assert np.array_equal(chains.target_kernels, target / target.sum(-1, keepdims=True))
    assert chains.start == pytest.approx(np.full(7, 1 / 7))
    assert (chains.horizon, chains.size) == (50, 7)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("stickiness", [0.2, 1.0])
def test_sticky_text_has_an_easy_half_and_a_hard_one(size: int, stickiness: float) -> None:
    plain, sticky = random_chains(3, size, 20), random_chains(3, size, 20, stickiness)
    easy = size // 2
    crossing = sticky.target_kernels[:, :easy, easy:]
    assert crossing == pytest.approx((1 - stickiness) * plain.target_kernels[:, :easy, easy:])
    apart = np.abs(sticky.target_kernels - sticky.draft_kernels).sum(-1)
    if easy:
        assert apart[:, :easy].mean() < (1.01 - stickiness) * apart[:, easy:].mean() + 0.2
    if stickiness == 1.0:
        assert apart[:, :easy] == pytest.approx(0.0, abs=1e-12)


def test_context_free_chains_repeat_the_rows() -> None:
    chains = context_free_chains([0.5, 0.5], [0.1, 0.9], 4)
    assert chains.draft_kernels.shape == (4, 2, 2)
    assert np.all(chains.target_kernels[..., 1] == 0.9)


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], "instead of 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "negative"),
        ([[float("nan"), 0.5], [0.5, 0.5]], "not numbers"),
        ([[0.5, 0.5]], "shape"),
        ([[1.0]], "shape"),
    ],
)
def test_rejects_invalid_kernels(draft: list[list[float]], message: str) -> None:
    with pytest.raises(TheoryError, match=message):
        steady_chains(draft, [[0.5, 0.5], [0.5, 0.5]], 3)


def test_rounding_of_float32_is_divided_out() -> None:
    rows = np.random.default_rng(1).dirichlet([0.5] * 5, 5).astype(np.float32)
    assert np.abs(rows.astype(np.float64).sum(-1) - 1).max() > 1e-9  # so it needs dividing
    chains = steady_chains(rows, rows[::-1], 3)
    for kernels in (chains.draft_kernels, chains.target_kernels):
        assert kernels.sum(-1) == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(TheoryError, match=r"sum to 1\.00001 instead of 1"):
        steady_chains([[0.5, 0.50001], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]], 3)


def test_rejects_a_start_of_another_size() -> None:
    kernels = np.full((2, 3, 3), 1 / 3)
    with pytest.raises(TheoryError, match="same horizon"):
        Chains(draft_kernels=kernels, target_kernels=kernels, start=np.array([1.0]))


@pytest.mark.parametrize("wrong", [(-1, 7, 50, 0), (1, 0, 50, 0), (1, 7, 0, 0), (1, 7, 50, 1.5)])
def test_rejects_settings_out_of_range(wrong: tuple[int, int, int, float]) -> None:
    with pytest.raises(TheoryError, match="Choose a number from"):
        random_chains(*wrong)
