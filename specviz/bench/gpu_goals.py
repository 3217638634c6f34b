"""The goals of the engine on a GPU, compared with the measurements.

If something was measured with several simulated sizes, contexts or γ, the worst value counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specviz.values import Value


class GpuFigure(Value):
    """A measured value with its interval, simulated sizes (``bodies``), context and γ.

    If ``bodies``, ``context`` or ``gamma`` is None, the value does not depend on it. If ``low`` and
    ``high`` are None, there is no interval.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    bodies: str | None = None
    context: int | None = None
    gamma: int | None = None


class Goal(Value):
    """The limits of a measured value, at all simulated sizes or only at ``bodies``."""

    name: str
    least: float | None = None
    most: float | None = None
    bodies: str | None = None

    def missing(self, figure: GpuFigure) -> float:
        """Return by what share of a limit the value misses the limit, such as 0.1 for 10 %.

        The result is at most 0 if the value meets all limits. If the value has an interval, the
        worse end of the interval counts.
        """
        assert figure.value is not None
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        beyond = [] if self.least is None else [1.0 - low / self.least]
        beyond += [] if self.most is None else [high / self.most - 1.0]
        return max(beyond)


MAX_RECORD_COST = 0.03  # extra time for recording, as a share of the time without it
GOALS = (
    Goal(name="share_plain", least=0.85),
    Goal(name="speculative_vs_hf_assisted_same_gamma", least=4.0, bodies="1B/8B"),
    Goal(name="speculative_vs_hf_assisted_best", least=4.0, bodies="1B/8B"),
    Goal(name="accounting", least=0.97),
    Goal(name="record_cost", least=1.0 / (1.0 + MAX_RECORD_COST)),
    Goal(name="c_over_bytes", least=0.85, most=1.15, bodies="1B/8B"),
    Goal(name="first_visit_seconds", most=60.0),
)


def judge_goals(asked: Sequence[Goal], figures: Iterable[GpuFigure]) -> list[dict[str, Any]]:
    """Return a row per goal: the worst value, where it was measured, and whether the goal is met.

    For a goal without measured values, these entries are None.
    """
    known = [each for each in figures if each.value is not None]
    rows: list[dict[str, Any]] = []
    for each in asked:
        own = [
            figure
            for figure in known
            if figure.name == each.name and each.bodies in (None, figure.bodies)
        ]
        worst = max(own, key=each.missing, default=None)
        rows.append(
            {
                "asked": each.name,
                "at_least": each.least,
                "at_most": each.most,
                "for_bodies": each.bodies,
                "measured": worst and worst.value,
                "low": worst and worst.low,
                "high": worst and worst.high,
                "bodies": worst and worst.bodies,
                "context": worst and worst.context,
                "gamma": worst and worst.gamma,
                "met": None if worst is None else each.missing(worst) <= 0.0,
            }
        )
    return rows
