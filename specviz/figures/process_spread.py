"""Estimate how step costs differ between processes, and predict a cost in a new process.

A cost is a time divided by the time of a plain step (one token of the target alone). On the same
machine, the costs of a pair differ between processes by more than the timing error within one
process, because each process has its data at other memory addresses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median

from specviz.record.step_costs import PhaseCost
from specviz.theory.student import t_quantile
from specviz.values import Value

# The usual standard deviation of the log of a cost between processes, from 80 runs in as many
# processes on a quiet machine. Steps of a millisecond depend on what the caches still hold and on
# where the weights are in memory; long ones hardly do.
_SPREAD, _SPREAD_OF_SHORT = 0.012, 0.02
_SHORT = 0.002  # seconds
# Added for a draft phase that is much shorter than a target step, which evicts the draft's weights
# from the caches.
_SPREAD_OF_COLD = 0.07
_SPREAD_OF_LOAD = 0.2  # if other processes begin or end to use all processors
_USUAL_FREEDOM = 8  # degrees of freedom that the usual deviation counts for
_NORMAL = 1.96
_TAIL = 0.975
_ROBUST = 3  # the fewest processes for which medians are used
_MEDIAN_VARIANCE = math.pi / 2  # variance of a median / variance of a mean
_OF_MEDIAN = 1.4826  # standard deviation / median absolute deviation
# By number of values, a further factor for few values (Croux and Rousseeuw 1992).
_OF_FEW = {3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
_EFFICIENCY = 0.37  # statistical efficiency of this estimate


class Cost(Value):
    cost: float
    error: float  # half-width of the 95 % interval of the logarithm, for a new process


def usual_spread(step: float) -> float:
    """Return the usual standard deviation of a cost's logarithm between processes.

    Args:
        step: Seconds of a plain step (one token of the target alone).
    """
    return _SPREAD + _SPREAD_OF_SHORT * min(1.0, _SHORT / step)


def spread_of_drafting(usual: float, cost: float) -> float:
    """Return the standard deviation of the logarithm of a drafting cost between processes.

    The result is ``usual`` for a draft phase that costs at least one plain step. It is larger for
    a shorter draft phase.

    Args:
        cost: The cost of the draft phase in plain steps.
    """
    return usual + _SPREAD_OF_COLD * max(0.0, 1.0 - cost)


def error_of_one_process(usual: float) -> float:
    """Return the error of predicting a cost for a new process from a single other process.

    The error is the half-width of the 95 % prediction interval of the cost's logarithm. The timing
    error within the other process is left out.

    Args:
        usual: The usual standard deviation of the logarithm between processes.
    """
    return t_quantile(_TAIL, _USUAL_FREEDOM) * math.sqrt(2) * usual


def error_of_load(before: float | None, now: float | None) -> float:
    """Return how much a cost's logarithm can change (95 % bound) if the machine's load changes.

    Other processes fill the caches that they share with a run. This slows the phases of the run by
    different factors.

    Args:
        before: How much of the processors other processes used when costs were measured (share).
        now: How much of the processors other processes used during the run (share).

    Returns:
        The largest change of the logarithm, up or down; 0 if a share is unknown.
    """
    return 0.0 if before is None or now is None else _NORMAL * _SPREAD_OF_LOAD * abs(now - before)


def combined_cost(costs: Sequence[tuple[str, PhaseCost]], usual: float) -> Cost:
    """Return the typical cost in these processes, with the error of using it for a new process.

    Each process changes a cost by a random factor. The variance of this factor is estimated from
    these processes and from the usual deviation, because a few processes alone give a poor
    estimate. With three or more processes, medians are used, so that one disturbed process has
    little effect on the cost and on the variance.
    """
    by_process: dict[str, list[PhaseCost]] = defaultdict(list)
    for process, each in costs:
        by_process[process].append(each)
    units = [_weighted([(math.log(c.cost), c.error) for c in each]) for each in by_process.values()]
    means, variances = [mean for mean, _ in units], [error**2 for _, error in units]
    # If timing errors exceed the usual spread, these processes say little about the spread.
    seen = _freedom(len(means)) * (usual**2 / (usual**2 + fmean(variances))) ** 2
    freedom = _USUAL_FREEDOM + seen
    between = (_USUAL_FREEDOM * usual**2 + seen * _between_processes(means, variances)) / freedom
    weights = [1 / (variance + between) for variance in variances]
    middle = (1.0 if len(means) < _ROBUST else _MEDIAN_VARIANCE) / sum(weights)
    half = t_quantile(_TAIL, int(freedom)) * math.sqrt(middle + between)
    return Cost(cost=math.exp(_middle(means, weights)), error=half)


def _freedom(count: int) -> float:
    """Return the degrees of freedom of a standard deviation estimated from ``count`` processes."""
    return (count - 1) * (1.0 if count < _ROBUST else _EFFICIENCY)


def _middle(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean of one or two values, or the weighted median of more values."""
    if len(values) < _ROBUST:
        return math.fsum(w * each for w, each in zip(weights, values, strict=True)) / sum(weights)
    half, passed = sum(weights) / 2, 0.0
    ranked = sorted(zip(values, weights, strict=True))
    for place, (value, weight) in enumerate(ranked):
        passed += weight
        if math.isclose(passed, half):
            return (value + ranked[place + 1][0]) / 2
        if passed > half:
            return value
    raise AssertionError


def _weighted(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean and standard error of the values of one process.

    The standard error is enlarged if the values differ by more than their own errors explain.
    """
    known = [(value, max(error / _NORMAL, 1e-4)) for value, error in values]
    weight = math.fsum(1 / error**2 for _, error in known)
    mean = math.fsum(value / error**2 for value, error in known) / weight
    squares = math.fsum(((value - mean) / error) ** 2 for value, error in known)
    excess = max(1.0, squares / max(1, len(known) - 1))
    return mean, math.sqrt(excess / weight)


def _between_processes(means: Sequence[float], variances: Sequence[float]) -> float:
    """Return the variance of costs between processes; 0 for a single process.

    For two processes, the variance is half the square of their difference. For more processes, it
    comes from the median distance of their costs from the median cost. The variance of timing
    within a process is subtracted.
    """
    count = len(means)
    if count < 2:
        return 0.0
    if count < _ROBUST:
        spread = (means[0] - means[1]) ** 2 / 2
    else:
        middle = median(means)
        distance = median(abs(each - middle) for each in means)
        spread = (_OF_FEW.get(count, count / (count - 0.8)) * _OF_MEDIAN * distance) ** 2
    return max(0.0, spread - fmean(variances))
