"""Student's t distribution."""

from __future__ import annotations

import functools
import math


@functools.cache
def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile at ``probability`` (0.5 or more) for ``freedom`` degrees of freedom."""
    assert 0.5 <= probability < 1
    assert freedom >= 1
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_cdf(middle, freedom) < probability else (low, middle)
    return high


def _t_cdf(t: float, freedom: int) -> float:
    """Return the CDF at ``t``; ``t`` must be at least 0."""
    return 1 - 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by a continued fraction.

    Uses I_x(a, b) = 1 - I_(1-x)(b, a) where the fraction converges slowly.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = a * math.log(x) + b * math.log1p(-x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front + scale) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of I_x(a, b); 300 terms suffice for ``a`` up to 10^4."""
    fraction = 1.0
    for m in range(300, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        fraction = 1 + even / fraction
        n = m - 1
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        fraction = 1 + odd / fraction
    return fraction
