"""The speedup of speculation over a batch, forecast from its step costs and measured acceptance.

The forecast assumes rounds in which all sequences draft and verify the same number of tokens, as if
none ever ended. It knows no scheduler, no prefill between rounds and no ragged acceptance.
"""

from __future__ import annotations

from specviz.record.batch_costs import BatchAcceptance, BatchCosts, BatchForecast
from specviz.values import Value

FORECAST_LABEL = "forecast: no scheduler, no ragged acceptance"


class MapPoint(Value):
    """The best number of candidates at one batch and context; 0 if none is faster than none.

    ``speedup``: with ``gamma`` candidates. ``fixed``: with the forecast's own number of candidates.
    Both are None where the caches do not fit into memory.
    """

    batch: int
    context: int
    gamma: int | None
    speedup: float | None
    fixed: float | None


def batch_speedup(
    costs: BatchCosts, acceptance: BatchAcceptance, batch: int, context: float, gamma: int
) -> float:
    """Return the forecast speedup: tokens per round times a plain step, over a round's time."""
    if gamma == 0:
        return 1.0
    round_seconds = (
        costs.draft_phase(batch, context, gamma, fed_more=acceptance.reached[gamma - 1])
        + costs.verification(batch, context, gamma)
        + batch * acceptance.other
    )
    return acceptance.tokens(gamma) * costs.plain_step(batch, context) / round_seconds


def best_gamma(
    costs: BatchCosts, acceptance: BatchAcceptance, batch: int, context: float
) -> tuple[int, float]:
    """Return the measured number of candidates with the greatest speedup, and the speedup."""
    made = {
        gamma: batch_speedup(costs, acceptance, batch, context, gamma)
        for gamma in (0, *costs.gammas)
    }
    best = max(made, key=made.__getitem__)
    return best, made[best]


def batch_map(found: BatchForecast) -> tuple[tuple[MapPoint, ...], ...]:
    """Return the points of the map, by context and then by batch."""
    return tuple(
        tuple(_point(found, batch, context) for batch in found.costs.batches)
        for context in found.costs.contexts
    )


def _point(found: BatchForecast, batch: int, context: int) -> MapPoint:
    if not found.costs.fits(batch, context):
        return MapPoint(batch=batch, context=context, gamma=None, speedup=None, fixed=None)
    gamma, speedup = best_gamma(found.costs, found.acceptance, batch, context)
    fixed = batch_speedup(found.costs, found.acceptance, batch, context, found.gamma)
    return MapPoint(batch=batch, context=context, gamma=gamma, speedup=speedup, fixed=fixed)


def break_even_batch(points: tuple[MapPoint, ...]) -> int | None:
    """Return the smallest batch of a context at which the fixed number of candidates is slower."""
    return next(
        (each.batch for each in points if each.fixed is not None and each.fixed < 1.0), None
    )


def independent_experts(experts: int, per_token: int, rows: int) -> float:
    """Return the distinct experts of independent, uniform routing: E (1 - (1 - k / E) ** n)."""
    return experts * (1.0 - (1.0 - per_token / experts) ** rows)
