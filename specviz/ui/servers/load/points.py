"""Compute the points of a load sweep's charts from the sweep's metrics."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from specviz.figures.load_blocks import BlockFigures, pooled
from specviz.figures.load_figures import LoadFigures, speculative_lanes
from specviz.figures.load_rows import lane_names
from specviz.figures.load_words import LoadWords, level_words
from specviz.figures.paired import PromptRepeat, Ratio, mean_of
from specviz.load.foreign import ForeignLoad
from specviz.record.load_run import LoadMode, LoadSweep
from specviz.ui.servers.load.charts import (
    ALONE_COLOUR,
    LANE_COLOURS,
    BreakEvenSpan,
    LoadPoint,
    LoadSeries,
    Source,
)
from specviz.ui.widgets.chart_style import COLOURS
from specviz.ui.widgets.error_bars import Reading
from specviz.values import Value

X_TITLES: dict[LoadMode, str] = {"closed": "users at the same time", "open": "requests per second"}


class ShownSweep(Value):
    """A sweep with its metrics and sentences. ``name`` marks a second sweep in the same charts."""

    sweep: LoadSweep
    figures: LoadFigures
    words: LoadWords
    source: Source = "this"
    name: str = ""


def throughput_series(shown: ShownSweep) -> list[LoadSeries]:
    """Return throughput and median time per output token, with one series per lane of the sweep.

    A lane is one way to serve the model: with a kind of speculation, or the target alone.
    """

    def rate(each: BlockFigures) -> float:
        return each.tokens_per_second

    def latency(each: BlockFigures) -> float | None:
        return None if each.tpot is None else 1000 * each.tpot.p50

    return [
        _series(shown, place, _ends(shown, place, rate), _ends(shown, place, latency))
        for place in range(len(shown.sweep.lanes))
    ]


def speedup_series(shown: ShownSweep) -> list[LoadSeries]:
    return [
        _series(
            shown,
            place,
            {
                each.level: _end_of(each.speedup)
                for each in shown.figures.of_lane(place)
                if each.speedup is not None
            },
        )
        for place in speculative_lanes(shown.sweep.lanes)
    ]


def acceptance_series(shown: ShownSweep) -> list[LoadSeries]:
    return [
        _series(shown, place, _taus(shown, place)) for place in speculative_lanes(shown.sweep.lanes)
    ]


def foreign_series(found: ForeignLoad) -> LoadSeries:
    """Return the results of another tool; loads without throughput or latency are left out."""
    return LoadSeries(
        name=f"{found.tool}, {found.source}",
        colour=COLOURS.muted,
        source="foreign",
        points=tuple(
            LoadPoint(
                level=each.level,
                level_text=level_words(each.level, each.mode),
                y=Reading(value=each.tokens_per_second),
                x=Reading(value=1000 * each.chunk_latency.p50),
            )
            for each in found.points
            if each.level and each.tokens_per_second is not None and each.chunk_latency is not None
        ),
    )


def break_evens(shown: ShownSweep) -> list[BreakEvenSpan]:
    names = lane_names(shown.sweep.lanes)
    return [
        BreakEvenSpan(
            name=names[each.lane],
            colour=_colour(shown.sweep, each.lane),
            level=found.value,
            low=found.low,
            high=found.high,
            has_interval=found.has_interval,
        )
        for each in shown.figures.lanes
        if (found := each.break_even) is not None and found.where == "between"
    ]


def _series(
    shown: ShownSweep, place: int, ys: dict[float, Reading], xs: dict[float, Reading] | None = None
) -> LoadSeries:
    sweep = shown.sweep
    name = lane_names(sweep.lanes)[place]
    return LoadSeries(
        name=f"{name} · {shown.name}" if shown.name else name,
        colour=_colour(sweep, place),
        source=shown.source,
        points=tuple(
            LoadPoint(
                level=level,
                level_text=level_words(level, sweep.settings.mode),
                y=y,
                x=None if xs is None else xs.get(level),
            )
            for level, y in sorted(ys.items())
        ),
    )


def _colour(sweep: LoadSweep, place: int) -> str:
    if sweep.lanes[place].kind == "alone":
        return ALONE_COLOUR
    number = speculative_lanes(sweep.lanes).index(place)
    return LANE_COLOURS[number % len(LANE_COLOURS)]


def _end_of(speedup: Ratio) -> Reading:
    return Reading(value=speedup.value, low=speedup.low, high=speedup.high)


def _taus(shown: ShownSweep, place: int) -> dict[float, Reading]:
    """Return a lane's tokens per round at each load, pooled over the measurements at that load."""
    ends = _ends(shown, place, lambda each: each.acceptance.tau)
    found: dict[float, Reading] = {}
    for level, end in ends.items():
        own = [
            each.acceptance
            for each in shown.figures.blocks
            if (each.block.lane, each.block.level) == (place, level) and not each.problem
        ]
        whole = pooled(own).tau
        found[level] = end if whole is None else Reading(value=whole, low=end.low, high=end.high)
    return found


def _ends(
    shown: ShownSweep, place: int, value: Callable[[BlockFigures], float | None]
) -> dict[float, Reading]:
    """Return the mean of ``value`` at each load, for the lane with index ``place``.

    A block measures one lane at one load. A unit measures all lanes in turn, then in reverse order
    (A B B A). First, the lane's blocks in each unit are averaged. The result is the mean of these
    averages, with a Student's t interval.
    """
    units: dict[float, dict[PromptRepeat, list[float]]] = {}
    for each in shown.figures.blocks:
        block, found = each.block, value(each)
        if block.lane == place and not each.problem and found is not None:
            own = units.setdefault(block.level, {})
            own.setdefault((block.repetition, block.unit), []).append(found)
    ends: dict[float, Reading] = {}
    for level, own in units.items():
        mean = mean_of({unit: fmean(each) for unit, each in own.items()})
        if mean is not None:
            ends[level] = Reading(value=mean.value, low=mean.low, high=mean.high)
    return ends
