"""Step costs of another machine from two numbers: c (draft step) and v (verification).

Acceptance does not depend on the machine, so c and v suffice to compute speedups there. The unit is
one step of the target alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Never

from specviz.errors import ConfigError
from specviz.record.limits import MAX_GAMMA
from specviz.record.trace import StepCosts

_MOST_ROWS = MAX_GAMMA + 1
_HIGHEST = 1000.0


def given_costs(c: float, v: float | Mapping[int, float]) -> StepCosts:
    """Return step costs made from given numbers, in target steps.

    Args:
        c: Cost of a draft step.
        v: One cost for verifying any number of tokens, or a mapping from numbers of tokens to
            costs. Costs between the mapping's numbers are interpolated linearly. Beyond the largest
            number, they are extrapolated, but never decrease.
    """
    _check("c", c, low=0.0)
    known = {1: 1.0, **v} if isinstance(v, Mapping) else {1: 1.0, 2: v, _MOST_ROWS: v}
    for rows, cost in known.items():
        _check(f"v({rows})", cost, low=1e-6)
    target = tuple((_between(known, rows),) for rows in range(1, _MOST_ROWS + 1))
    return StepCosts(contexts=(1,), draft=((c,), (c,)), target=target, draft_next=(c,))


def read_verify_costs(text: str, source: str) -> dict[int, float]:
    """Parse a JSON object; return the verification cost for each number of tokens in a pass."""
    try:
        record = json.loads(text, parse_int=float)  # float accepts any number of digits
    except (ValueError, RecursionError):
        _refuse(source)
    if not isinstance(record, dict) or not record:
        _refuse(source)
    made: dict[int, float] = {}
    for name, cost in record.items():
        rows = int(name) if name.isascii() and name.isdigit() and len(name) < 4 else 0
        if not 2 <= rows <= _MOST_ROWS or not isinstance(cost, float):
            _refuse(source)
        made[rows] = cost
    return made


def _between(known: Mapping[int, float], rows: int) -> float:
    places = sorted(known)
    if rows in known:
        return known[rows]
    right = next((at for at, each in enumerate(places) if each > rows), len(places) - 1)
    left, right = places[max(0, right - 1)], places[right]
    slope = (known[right] - known[left]) / (right - left) if right > left else 0.0
    if rows > right:
        return known[right] + max(0.0, slope) * (rows - right)
    return known[left] + slope * (rows - left)


def _check(name: str, cost: float, *, low: float) -> None:
    if not (math.isfinite(cost) and low <= cost <= _HIGHEST):
        raise ConfigError(
            f"{name} is {cost:g}.", remedy=f"Give a cost in target steps, up to {_HIGHEST:g}."
        )


def _refuse(source: str) -> Never:
    raise ConfigError(
        f"{source} contains no verification costs.",
        remedy=f'Write the costs as {{"2": 1.02, "6": 1.1}}: the number of tokens verified at '
        f"once, from 2 to {_MOST_ROWS}, and the cost in target steps.",
    )
