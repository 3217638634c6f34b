"""Plan how often a load test repeats its measurements, from its budget and from a pilot.

A lane is a server with its settings. One repetition (unit) measures all lanes in the order A B B A
at one level of load. The budget is the time limit of the whole sweep. The pilot is the first units
of the sweep; it shows how much the speedups vary.

The number of units is decided once, after the pilot. If a sweep ended as soon as an interval is
narrow, the interval would contain the true value too rarely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

from specviz.errors import ConfigError
from specviz.load.order import LoadOrder, lanes_of, seconds_of_unit, stages_of
from specviz.theory.student import t_quantile

PILOT = 3  # units at every level; with several fresh starts, one of each is enough
MOST_UNITS = 12
AIM = 0.05  # half the width of the interval of a speedup, relative


def pilot_units(order: LoadOrder) -> int:
    return PILOT if order.starts == 1 else 1


def pilot_seconds(order: LoadOrder) -> float:
    """Return the expected seconds of a sweep with only ``pilot_units`` units, without restarts."""
    stages = stages_of(order, lanes_of(order))
    seconds = sum(seconds_of_unit(order.settings, each) for each in stages)
    return seconds * order.starts * pilot_units(order)


def check_budget(order: LoadOrder) -> None:
    """Raise ConfigError if the budget is too short for ``pilot_units`` units in every stage."""
    seconds = pilot_seconds(order)
    if seconds > order.settings.budget:
        raise ConfigError(
            f"The budget is {order.settings.budget:,.0f} s, but {pilot_units(order)} × A B B A at "
            f"{len(order.settings.levels)} levels takes {seconds:,.0f} s.",
            remedy=f"Give a budget of {math.ceil(seconds)} s, fewer levels, or a shorter window.",
        )


def units_planned(
    order: LoadOrder, logs: Sequence[Sequence[float]], seconds_each: float, restart: float
) -> int:
    """Return how many units (A B B A) to measure at every level between two restarts.

    The result is at least the number of units in the pilot.

    Args:
        logs: For each level and lane, the logarithm of the speedup in each unit of the pilot.
        seconds_each: The total seconds of one unit at every level.
        restart: The seconds of one restart.
    """
    pilot = pilot_units(order)
    stages = order.starts * len(stages_of(order, lanes_of(order)))
    affordable = math.floor((order.settings.budget / stages - restart) / max(seconds_each, 1e-9))
    return max(pilot, min(affordable, MOST_UNITS, units_needed(logs, pilot)))


def units_needed(logs: Sequence[Sequence[float]], pilot: int) -> int:
    """Return how many units (A B B A) narrow the widest interval of a speedup to ± ``AIM``.

    ``logs`` has the log speedups in the pilot, as for ``units_planned``.
    """
    spread = max((stdev(each) for each in logs if len(each) > 1), default=0.0)
    for units in range(max(2, pilot), MOST_UNITS):
        if t_quantile(0.975, units - 1) * spread / math.sqrt(units) <= AIM:
            return units
    return MOST_UNITS if pilot > 1 else pilot


def words_of_most(order: LoadOrder) -> str:
    """Return, as a phrase, how many requests and tokens are sent at most, and where to."""
    settings = order.settings
    servers = {each.address for each in order.servers} | (
        {order.alone.address} if order.alone else set()
    )
    return (
        f"at most {settings.most_requests:,} requests for at most {settings.max_new_tokens:,} "
        f"tokens each ({settings.most_requests * settings.max_new_tokens:,} tokens in total) to "
        f"{' and '.join(sorted(servers))}"
    )
