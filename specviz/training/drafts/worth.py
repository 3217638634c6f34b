"""Tokens per round and speedups that follow from a draft's acceptance by position.

``accepted[k]`` is the acceptance at position k + 1 if all candidates before it were accepted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from specviz.theory.speed import break_even_alpha
from specviz.values import Value

MOST_CANDIDATES = 8
_FEWEST_POINTS = 4  # points that a curve needs to be extrapolated
_LEAST_GROWTH = 2.0  # tokens of its last point / tokens of its first
_RECENT = 0.5  # share of the points that the line is fitted to
MORE = 2.0  # further training: this many times the tokens


class RoundCosts(Value):
    """Costs of a round on this machine, in target steps.

    ``verify[k]`` is the cost of verifying k + 1 candidates, with the overhead of the round.
    ``measured``: whether ``verify`` was measured; ``c`` is always predicted from bytes.
    """

    c: float
    verify: tuple[float, ...]
    measured: bool


class Gain(Value):
    """The expected speedup with ``gamma`` candidates per round.

    ``break_even``: the acceptance, equal at all positions, at which the speedup is 1; None if the
    speedup stays below 1 even with an acceptance of 1.
    """

    gamma: int
    tokens: float  # per round
    speedup: float
    break_even: float | None
    assumed: bool  # positions beyond the trained ones count like the last of them


class Worth(Value):
    gains: tuple[Gain, ...]

    @property
    def best(self) -> Gain:
        return max(self.gains, key=lambda each: each.speedup)


class CurvePoint(Value):
    """Acceptance by position on held-out texts, after training on ``tokens`` tokens."""

    tokens: int
    accepted: tuple[float, ...]


def tokens_per_round(accepted: Sequence[float], gamma: int) -> float:
    """Return the expected tokens of a round with ``gamma`` candidates.

    The recovered or bonus token is included. Positions beyond ``accepted`` get the last value in
    ``accepted``.
    """
    return 1.0 + sum(accumulate(_chances(accepted, gamma), mul))


def worth(accepted: Sequence[float], costs: RoundCosts, *, limited: bool) -> Worth:
    """Return the expected speedup for each number of candidates per round.

    Args:
        accepted: Acceptance by position.
        costs: The costs of a round for each number of candidates.
        limited: Whether the number of trained positions limits the number of candidates.
    """
    most = min(len(costs.verify), len(accepted) if limited else MOST_CANDIDATES)
    return Worth(gains=tuple(_gain(accepted, costs, gamma) for gamma in range(1, most + 1)))


def _gain(accepted: Sequence[float], costs: RoundCosts, gamma: int) -> Gain:
    verify, tokens = costs.verify[gamma - 1], tokens_per_round(accepted, gamma)
    return Gain(
        gamma=gamma,
        tokens=tokens,
        speedup=tokens / (gamma * costs.c + verify),
        break_even=break_even_alpha(costs.c, verify, gamma=gamma),
        assumed=gamma > len(accepted),
    )


def _chances(accepted: Sequence[float], gamma: int) -> list[float]:
    known = list(accepted[:gamma])
    return known + [accepted[-1]] * (gamma - len(known))


def more_training(curve: Sequence[CurvePoint], costs: RoundCosts, *, limited: bool) -> float | None:
    """Return the expected gain in speedup from training on ``MORE`` times as many tokens.

    For each position, a line is fitted to the later half of the curve (acceptance plotted against
    the logarithm of the tokens) and extended. Return None if the curve is too short for a fit.
    """
    points = [each for each in curve if each.tokens > 0]
    if len(points) < _FEWEST_POINTS or points[-1].tokens < _LEAST_GROWTH * points[0].tokens:
        return None
    recent = points[-max(_FEWEST_POINTS, math.ceil(_RECENT * len(points))) :]
    now, later = zip(
        *(_along_line(recent, place) for place in range(len(recent[-1].accepted))), strict=True
    )
    gain = (
        worth(later, costs, limited=limited).best.speedup
        - worth(now, costs, limited=limited).best.speedup
    )
    return max(0.0, gain)


def _along_line(points: Sequence[CurvePoint], place: int) -> tuple[float, float]:
    """Return one position's acceptance now and after more training, both on a fitted line."""
    xs = [math.log(each.tokens) for each in points]
    ys = [each.accepted[place] for each in points]
    x_mean, y_mean = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    square = math.fsum((x - x_mean) ** 2 for x in xs)
    shared = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    slope = shared / square if square else 0.0
    now = y_mean + slope * (xs[-1] - x_mean)
    return _chance(now), _chance(now + slope * math.log(MORE))


def _chance(value: float) -> float:
    return min(1.0, max(0.0, value))
