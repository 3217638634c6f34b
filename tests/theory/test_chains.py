"""Pairs of chains: the family of the paper, and settings out of range."""

from __future__ import annotations

import numpy as np
import pytest

from specviz.errors import TheoryError
from specviz.theory.chains import random_chains


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


@pytest.mark.parametrize("wrong", [(-1, 7, 50, 0), (1, 0, 50, 0), (1, 7, 0, 0), (1, 7, 50, 1.5)])
def test_rejects_settings_out_of_range(wrong: tuple[int, int, int, float]) -> None:
    with pytest.raises(TheoryError, match="Choose a number from"):
        random_chains(*wrong)
