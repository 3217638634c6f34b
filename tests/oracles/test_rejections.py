"""Rejections along a text: the recursion against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.oracles.rejections import rejections_along


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5, 7, 8, 11])
def test_rejections_equal_enumeration(gamma: int) -> None:
    odds = np.random.default_rng(6).random(8).tolist()
    mean = square = 0.0
    for coins in itertools.product((True, False), repeat=len(odds)):
        chance = math.prod(o if coin else 1 - o for o, coin in zip(odds, coins, strict=True))
        place = rejected = 0
        while place < len(odds):
            left = coins[place : place + gamma]
            run = next((i for i, coin in enumerate(left) if not coin), len(left))
            rejected += run < len(left)
            place += run + 1
        mean, square = mean + chance * rejected, square + chance * rejected**2
    found = rejections_along(odds, gamma)
    assert found == pytest.approx((mean, square - mean**2), rel=1e-12, abs=1e-12)
