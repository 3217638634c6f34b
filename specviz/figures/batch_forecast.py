"""Forecast the speedup of speculation in a batch, from step costs and measured acceptance.

The forecast assumes that no sequence ends, and that all sequences draft and verify the same number
of tokens in every round. It leaves out the scheduler, the prefill between rounds, and differences
in acceptance between sequences.
"""

from __future__ import annotations

from specviz.record.batch_costs import BatchAcceptance, BatchCosts, BatchForecast
from specviz.values import Value

FORECAST_LABEL = "forecast: no scheduler, no ragged acceptance"


class MapPoint(Value):
    """The best number of candidates at one batch size and context.

    ``gamma`` is the best number. It is 0 where every number of candidates in
    ``BatchForecast.costs`` would be slower than the target alone. ``speedup`` is the speedup with
    ``gamma`` candidates. ``fixed`` is the speedup with ``BatchForecast.gamma`` candidates. All
    three are None where the caches do not fit into memory.
    """

    batch: int
    context: int
    gamma: int | None
    speedup: float | None
    fixed: float | None


def batch_speedup(
    costs: BatchCosts, acceptance: BatchAcceptance, batch: int, context: float, gamma: int
) -> float:
    """Return the forecast speedup: tokens per round · time of a plain step / time of a round."""
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
    """Return the number of candidates with the greatest forecast speedup, and that speedup.

    Only 0 and the numbers of candidates in ``costs`` are compared.
    """
    made = {
        gamma: batch_speedup(costs, acceptance, batch, context, gamma)
        for gamma in (0, *costs.gammas)
    }
    best = max(made, key=made.__getitem__)
    return best, made[best]


def batch_map(found: BatchForecast) -> tuple[tuple[MapPoint, ...], ...]:
    """Return the best number of candidates at each context (rows) and batch size (columns)."""
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
    """Return the smallest batch at which speculation is slower than the target alone, or None.

    Speculation uses ``BatchForecast.gamma`` candidates at every batch size, so ``MapPoint.fixed``
    is compared with 1.

    Args:
        points: One row of `batch_map`: the points of one context, by batch size.
    """
    return next(
        (each.batch for each in points if each.fixed is not None and each.fixed < 1.0), None
    )


def independent_experts(experts: int, per_token: int, rows: int) -> float:
    """Return the expected number of distinct experts that a pass over ``rows`` tokens uses.

    Each token uses ``per_token`` of the ``experts``; routing is assumed to be independent and
    uniform. The number is E (1 - (1 - k / E) ** n), with E = ``experts``, k = ``per_token`` and
    n = ``rows``.
    """
    return experts * (1.0 - (1.0 - per_token / experts) ** rows)
