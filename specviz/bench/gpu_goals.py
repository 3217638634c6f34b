"""What is asked of the engine on a GPU, held against what was measured.

Asked is a table; of the places where a figure was measured the worst one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure by name, and where it was measured: with which bodies, at which context and γ.
    None is everywhere, or that it has no interval."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    bodies: str | None = None
    context: int | None = None
    gamma: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The ends that a figure has to keep; ``bodies``: where alone it is asked for."""

    name: str
    least: float | None = None
    most: float | None = None
    bodies: str | None = None

    def missing(self, figure: Figure) -> float:
        """How far it is beyond an end, as a share of that end; below 0 where it is within. Where
        there is an interval its worse end is judged."""
        assert figure.value is not None
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        beyond = [] if self.least is None else [1.0 - low / self.least]
        beyond += [] if self.most is None else [high / self.most - 1.0]
        return max(beyond)


MOST_RECORD_COST = 0.03  # of the time without
ASKED = (
    Asked(name="share_plain", least=0.85),
    Asked(name="speculative_vs_hf_assisted_same_gamma", least=4.0, bodies="1B/8B"),
    Asked(name="speculative_vs_hf_assisted_best", least=4.0, bodies="1B/8B"),
    Asked(name="accounting", least=0.97),
    Asked(name="record_cost", least=1.0 / (1.0 + MOST_RECORD_COST)),
    Asked(name="c_over_bytes", least=0.85, most=1.15, bodies="1B/8B"),
    Asked(name="first_visit_seconds", most=60.0),
)


def judged(asked: Sequence[Asked], figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """A row for each: the worst figure, where that was, and whether it is met; None for all of
    these where it was not measured."""
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
