"""Measure chosen cells (a candidate's γ and temperature) as lanes of a comparison plan.

The jobs in ``confirming`` run the plan. Then measured speedups are compared with expected ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.comparison.lane_results import LaneRun, lane_result
from specviz.comparison.plan import Lane, Plan
from specviz.figures.speedup_words import is_too_wide
from specviz.record.numbers import PERCENT
from specviz.record.prompts import SuiteItem
from specviz.tune.answer import Answer, Candidate
from specviz.tune.surface import Cell
from specviz.values import Value

Choice = tuple[Candidate, Cell]


class MeasuredCell(Value):
    """The expected and the measured speedup at one γ and temperature of a candidate.

    The interval covers the variation between prompts. If there is only one prompt, the interval
    covers the variation between repeated runs.
    """

    label: str
    gamma: int
    temperature: float
    expected: float | None
    speedup: float | None
    low: float | None
    high: float | None
    count: int

    @property
    def error(self) -> float | None:
        """Return the relative error of the expectation: measured / expected - 1."""
        if self.expected is None or self.speedup is None:
            return None
        return self.speedup / self.expected - 1.0


def off_by(cell: MeasuredCell) -> str:
    """Return the signed error in percent; "–" if unknown or if the measurement is too uncertain."""
    if is_too_wide(cell.low, cell.high):
        return PERCENT.signed(None)
    return PERCENT.signed(cell.error)


def best_cells(answer: Answer) -> tuple[Choice, ...]:
    """Return the best candidate and its fastest γ, for each temperature of the question."""
    if answer.best is None:
        return ()
    first, _ = answer.best
    found = (first.surface.best_at(each) for each in answer.question.temperatures)
    return tuple((first, cell) for cell in found if cell is not None)


def plan_of_cells(choices: Sequence[Choice], items: Sequence[SuiteItem], *, repeats: int) -> Plan:
    lanes = tuple(lane_of(candidate, cell) for candidate, cell in choices)
    return Plan(lanes=lanes, items=tuple(items), repeats=repeats)


def lane_of(candidate: Candidate, cell: Cell) -> Lane:
    config = replace(
        candidate.lane.config, gamma=cell.gamma, temperature=cell.temperature, record=False
    )
    return replace(candidate.lane, config=config, name="")


def measured_cells(
    choices: Sequence[Choice], plan: Plan, runs: Sequence[LaneRun]
) -> tuple[MeasuredCell, ...]:
    """Return the expected and measured speedups of the choices that were run."""
    found = list[MeasuredCell]()
    for place, (candidate, cell) in enumerate(choices):
        own = [each for each in runs if each.job.lane == place]
        if not own:
            continue
        ratio = lane_result(plan.labels[place], plan.lanes[place], own).speedup_ratio
        found.append(
            MeasuredCell(
                label=candidate.label,
                gamma=cell.gamma,
                temperature=cell.temperature,
                expected=cell.speedup,
                speedup=ratio.value if ratio else None,
                low=ratio.low if ratio else None,
                high=ratio.high if ratio else None,
                count=len(own),
            )
        )
    return tuple(found)
