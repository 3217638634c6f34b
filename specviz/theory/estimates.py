"""Estimates of alpha from a run's counts, with confidence intervals.

The ratio accepted / *tested* estimates alpha. The ratio accepted / *drafted*, which serving engines
report, does not estimate alpha: discarded candidates were drafted but never tested.
"""

from __future__ import annotations

import math

from specviz.errors import ConfigError
from specviz.theory.speed import expected_accepted, least_reaching

_NORMAL_95 = 1.959964


def alpha_from_tested(accepted: int, tested: int) -> float:
    """Return the maximum-likelihood estimate of alpha, accepted / tested.

    Each tested candidate is one Bernoulli trial. Accepted candidates per round have the capped
    geometric distribution of Leviathan et al. 2023, section 3.1; the estimate is derived here.
    """
    _check_counts(accepted, tested)
    return accepted / tested


def drafted_share(alpha: float, gamma: int) -> float:
    """Return the long-run share accepted / drafted, (tau - 1) / gamma.

    The share is below alpha if gamma is above 1. tau is eq. 1 of Leviathan et al. 2023; the formula
    for the share is derived here.
    """
    assert gamma >= 1, gamma
    return expected_accepted(alpha, gamma) / gamma


def alpha_from_drafted(share: float, gamma: int) -> float:
    """Return the alpha at which accepted / drafted is ``share``: the inverse of `drafted_share`.

    The inverse is found by bisection, because `drafted_share` increases with alpha (derived here).
    """
    if not 0.0 <= share <= 1.0:
        raise ConfigError(
            f"Accepted / drafted is {share:g}.", remedy="Give a value between 0 and 1."
        )
    alpha = least_reaching(lambda alpha: drafted_share(alpha, gamma), share)
    assert alpha is not None  # the share at alpha 1 is 1
    return alpha


def wilson_interval(accepted: int, tested: int) -> tuple[float, float]:
    """Return Wilson's (1927) 95 % score interval of accepted / tested for independent trials."""
    _check_counts(accepted, tested)
    share, weight = accepted / tested, _NORMAL_95**2 / tested
    middle = (share + weight / 2) / (1 + weight)
    half = (
        _NORMAL_95 * math.sqrt(share * (1 - share) / tested + weight / (4 * tested)) / (1 + weight)
    )
    return max(0.0, middle - half), min(1.0, middle + half)


def hoeffding_half_width(tested: int) -> float:
    """Return the half-width of Hoeffding's (1963) 95 % interval for independent trials."""
    assert tested >= 1, tested
    return math.sqrt(math.log(2 / 0.05) / (2 * tested))


def _check_counts(accepted: int, tested: int) -> None:
    if tested < 1:
        raise ConfigError("No candidate was tested.", remedy="Run with γ of at least 1.")
    if not 0 <= accepted <= tested:
        raise ConfigError(
            f"{accepted} of {tested} tested candidates were accepted.",
            remedy="Give an accepted count from 0 to the tested count.",
        )
