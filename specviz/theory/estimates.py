"""What counts of a run say about alpha, and how surely.

Accepted over *tested* estimates alpha; accepted over *drafted*, the rate that serving
engines report, does not: discarded candidates were drafted and never tested.
"""

from __future__ import annotations

import math

from specviz.errors import ConfigError
from specviz.theory.speed import expected_accepted, least_reaching

_NORMAL_95 = 1.959964


def alpha_from_tested(accepted: int, tested: int) -> float:
    """The maximum-likelihood estimate of alpha: each tested candidate is one coin.

    Of the capped geometric law of Leviathan et al. 2023, section 3.1 (worked out here).
    """
    _check_counts(accepted, tested)
    return accepted / tested


def drafted_share(alpha: float, gamma: int) -> float:
    """What accepted / drafted tends to: (tau - 1) / gamma, below alpha for gamma above 1.

    tau is Leviathan et al. 2023, eq. 1; worked out here.
    """
    assert gamma >= 1, gamma
    return expected_accepted(alpha, gamma) / gamma


def alpha_from_drafted(share: float, gamma: int) -> float:
    """The alpha that an accepted / drafted of ``share`` implies: `drafted_share` inverted.

    By bisection, for it rises with alpha (worked out here).
    """
    if not 0.0 <= share <= 1.0:
        raise ConfigError(
            f"Accepted / drafted is {share:g}.", remedy="Give a share between 0 and 1."
        )
    alpha = least_reaching(lambda alpha: drafted_share(alpha, gamma), share)
    assert alpha is not None  # at alpha 1 the share is 1
    return alpha


def wilson_interval(accepted: int, tested: int, z: float = _NORMAL_95) -> tuple[float, float]:
    """Wilson's score interval for a share of independent coins (Wilson 1927); 95 % by default."""
    _check_counts(accepted, tested)
    share, weight = accepted / tested, z * z / tested
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / tested + weight / (4 * tested)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def hoeffding_half_width(tested: int, confidence: float = 0.95) -> float:
    """Half the width that holds whatever the law of the coins (Hoeffding 1963)."""
    assert tested >= 1, tested
    assert 0.0 < confidence < 1.0, confidence
    return math.sqrt(math.log(2 / (1 - confidence)) / (2 * tested))


def _check_counts(accepted: int, tested: int) -> None:
    if tested < 1:
        raise ConfigError("No candidate was tested.", remedy="Run with a gamma of at least 1.")
    if not 0 <= accepted <= tested:
        raise ConfigError(
            f"{accepted} of {tested} tested candidates accepted.",
            remedy="Count accepted ones among the tested ones.",
        )
