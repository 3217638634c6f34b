"""Background jobs that measure chosen cells (γ and temperature) equally often, or in a race.

A race drops slower cells early and spends its time on the fastest ones. It has stages, and each
stage is a comparison with prompts or seeds that no earlier stage used. Measurements of earlier
stages still count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from threading import RLock

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Lane, Plan, PlannedRun
from specviz.measure.background_job import MakerJob
from specviz.measure.run_makers import RunMaker
from specviz.record.prompts import SuiteItem
from specviz.store import Library
from specviz.tune.halving import Stage, fastest, mixed, stages_of
from specviz.tune.measuring import Choice, MeasuredCell, measured_cells, plan_of_cells

_FULL = 12  # measurements of each candidate in a full comparison; a race takes half of them


class CellsJob(ComparisonJob):
    """A job that measures every cell (a candidate's γ and temperature) on every prompt."""

    def __init__(
        self,
        choices: Sequence[Choice],
        items: Sequence[SuiteItem],
        maker: RunMaker,
        library: Library | None,
        *,
        repeats: int = 1,
    ) -> None:
        plan = plan_of_cells(choices, items, repeats=repeats)
        super().__init__(plan, maker, library, name="tune-cells", title="Tune: chosen settings")
        self.choices, self.items = tuple(choices), tuple(items)

    @property
    def cells(self) -> tuple[MeasuredCell, ...]:
        return measured_cells(self.choices, self.plan, self.measured)


class RaceJob(MakerJob):
    """A job that searches for the fastest cell (a candidate's γ and temperature).

    It measures all cells a few times, drops the slower half, and repeats. At the end, ``cells``
    begins with the fastest.
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        items: Sequence[SuiteItem],
        maker: RunMaker,
        library: Library | None,
    ) -> None:
        super().__init__(maker, name="tune-race", label="Tune: racing the best candidates")
        self.choices, self.items = tuple(choices), tuple(items)
        self._items, self._library = mixed(items), library
        budget = len(choices) * _FULL // 2
        self._stages = _with_items(stages_of(len(choices), budget), len(items))
        self._runs: dict[int, list[LaneRun]] = {place: [] for place in range(len(choices))}
        self._left = tuple(range(len(choices)))  # indices of the choices still in the race
        self._lock = RLock()

    @property
    def progress(self) -> tuple[int, int]:
        made = sum(map(len, self._runs.values()))
        return made, sum(each.field * each.measurements for each in self._stages)

    @property
    def cells(self) -> tuple[MeasuredCell, ...]:
        """Return the measured cells: first the cells still in the race, then the dropped cells.

        The dropped cells are in reverse order: the cell dropped last comes first. After the race,
        the fastest cell is first. A cell is a candidate's γ and temperature.
        """
        with self._lock:
            known = [(place, self._cell(place)) for place, runs in self._runs.items() if runs]
            left = self._left
        order = sorted(known, key=lambda row: (row[0] not in left, -row[1].count, -_speed(row[1])))
        return tuple(cell for _, cell in order)

    def _work(self) -> None:
        begun = 0
        for stage in self._stages:
            self._measure(stage, begun)
            begun += stage.measurements
            kept = fastest([self._logs(each) for each in self._left], math.ceil(stage.field / 2))
            with self._lock:
                self._left = tuple(self._left[each] for each in kept)

    def _measure(self, stage: Stage, begun: int) -> None:
        plan = self._plan(stage, begun)
        job = ComparisonJob(plan, self._maker, self._library, title=self.label)
        self._activity = self._begin(job)
        job.prepare()
        for run in chain(job.measured, job.make_missing()):
            self._take(run)

    def _plan(self, stage: Stage, begun: int) -> Plan:
        """Return the comparison for a stage of the race, on prompts that no earlier stage used.

        If too few unused prompts are left, the stage repeats prompts with new seeds.
        """
        number = stage.measurements
        choices = [self.choices[each] for each in self._left]
        if begun + number <= len(self._items):
            return plan_of_cells(choices, self._items[begun : begun + number], repeats=1)
        items = self._items[:number]
        plan = plan_of_cells(choices, items, repeats=number // len(items))
        return replace(plan, lanes=tuple(_shift_seed(each, begun) for each in plan.lanes))

    def _take(self, run: LaneRun) -> None:
        with self._lock:
            place, count = self._left[run.job.lane], len(self._runs[self._left[run.job.lane]])
            job = PlannedRun(
                lane=run.job.lane, item=count, repeat=0
            )  # every measurement counts by itself
            self._runs[place].append(replace(run, job=job))

    def _logs(self, place: int) -> list[float]:
        speeds = (run.figures.speedup_observed for run in self._runs[place])
        return [math.log(each) for each in speeds if each]

    def _cell(self, place: int) -> MeasuredCell:
        candidate, cell = self.choices[place]
        plan = plan_of_cells([(candidate, cell)], self._items[:1], repeats=1)
        runs = [replace(run, job=replace(run.job, lane=0)) for run in self._runs[place]]
        (found,) = measured_cells([(candidate, cell)], plan, runs)
        return found


def _with_items(stages: Sequence[Stage], count: int) -> tuple[Stage, ...]:
    """Increase the measurements of each stage until it uses all its prompts equally often."""
    whole = (
        math.ceil(each.measurements / count) * min(count, each.measurements) for each in stages
    )
    return tuple(
        replace(stage, measurements=number) for stage, number in zip(stages, whole, strict=True)
    )


def _speed(cell: MeasuredCell) -> float:
    return cell.speedup or 0.0


def _shift_seed(lane: Lane, seeds: int) -> Lane:
    return replace(lane, config=replace(lane.config, seed=lane.config.seed + seeds))
