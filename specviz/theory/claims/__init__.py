"""Quotes about speculative decoding from five sources, each checked against the theory.

A claim is a quote with its verdict: whether the quote is true in all, some or none of the tested
cases. Each claim also states at which setting its verdict would change. All numbers are computed
when `claims` is called, except those that papers report.
"""

from __future__ import annotations

from specviz.theory.claims.claim import (
    BLOCKS,
    GUIDE,
    MANUAL,
    OPTIMIZATION,
    OVERVIEW,
    Chart,
    Claim,
    ClaimVerdict,
    Figure,
    RunName,
    Source,
)
from specviz.theory.claims.machines import machine_claims
from specviz.theory.claims.methods import method_claims
from specviz.theory.claims.rates import rate_claims
from specviz.theory.claims.rules import rule_claims
from specviz.theory.claims.texts import text_claims

__all__ = [
    "BLOCKS",
    "GUIDE",
    "MANUAL",
    "OPTIMIZATION",
    "OVERVIEW",
    "Chart",
    "Claim",
    "ClaimVerdict",
    "Figure",
    "RunName",
    "Source",
    "claims",
]  # fmt: skip


def claims() -> tuple[Claim, ...]:
    """Return all claims, grouped by source; the claims of the practical guide come first."""
    made = (*rate_claims(), *rule_claims(), *machine_claims(), *text_claims(), *method_claims())
    order = (GUIDE, OVERVIEW, OPTIMIZATION, MANUAL, BLOCKS)
    return tuple(sorted(made, key=lambda claim: order.index(claim.source)))
