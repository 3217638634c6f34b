"""Figures of a load sweep: speed of each engine at each load, speedups, and causes of changes.

A lane is one of the compared engines: one with speculation, or one with the target alone. A level
is a load: a number of users or of requests per second. A block is one lane measured at one level.
An A B B A unit measures lanes one after another and then again in reverse order, at one level. Each
unit gives one speedup: the ratio of throughputs or, with a fixed rate of requests, of latencies per
token. If the engine was started several times, the interval covers the differences between starts,
because starts differ by more than the units within one start. Otherwise the interval covers the
differences between units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from specviz.figures.load_blocks import (
    Acceptance,
    BlockFigures,
    EngineState,
    Percentiles,
    Totals,
    block_figures,
    gaps_within,
    percentiles,
    pooled,
    tpot_of,
    ttft_of,
)
from specviz.figures.load_break_even import BreakEven, Curves, break_even
from specviz.figures.paired import PromptRepeat, Ratio, ratio_of
from specviz.record.load_run import LoadLane, LoadSweep
from specviz.values import Value

Logs = Mapping[PromptRepeat, float]  # by repetition and unit


class LevelFigures(Value):
    """The figures of one engine (``lane``) under one load (``level``), from its usable blocks.

    ``round_cost`` is the time of a round divided by the time of a step of the target alone under
    the same load. It is computed as the tokens per round divided by the speedup. It includes
    drafting, verification and scheduling, which an engine's counters cannot separate.
    """

    lane: int
    level: float
    blocks: int
    unusable: int
    tokens_per_second: float | None
    tokens_per_second_per_user: float | None
    ttft: Percentiles | None
    tpot: Percentiles | None
    chunk_latency: Percentiles | None
    seconds_per_token: float | None
    acceptance: Acceptance
    engine: EngineState
    requests: int
    failures: int
    mean_in_flight: float | None
    most_in_flight: int
    totals: Totals
    speedup: Ratio | None
    round_cost: float | None


class LaneFigures(Value):
    """The figures of one speculative engine (``lane``) over all loads.

    ``acceptance_change`` is τ at the highest load divided by τ at the lowest load. Both values
    come from a line fitted to all loads.
    """

    lane: int
    break_even: BreakEven | None
    acceptance_change: Ratio | None


class LoadFigures(Value):
    blocks: tuple[BlockFigures, ...]
    levels: tuple[LevelFigures, ...]  # by lane, then by level
    lanes: tuple[LaneFigures, ...]

    def at(self, lane: int, level: float) -> LevelFigures | None:
        return next(
            (each for each in self.levels if each.lane == lane and each.level == level), None
        )

    def of_lane(self, lane: int) -> tuple[LevelFigures, ...]:
        return tuple(each for each in self.levels if each.lane == lane)


def load_figures(sweep: LoadSweep) -> LoadFigures:
    blocks = tuple(block_figures(each, sweep.settings) for each in sweep.blocks)
    logs = _log_speedups(sweep, blocks)
    present = sorted({(each.block.lane, each.block.level) for each in blocks})
    return LoadFigures(
        blocks=blocks,
        levels=tuple(
            _level(
                [each for each in blocks if (each.block.lane, each.block.level) == place],
                logs.get(place, {}),
            )
            for place in present
        ),
        lanes=tuple(
            LaneFigures(
                lane=place,
                break_even=_break_even(logs, place),
                acceptance_change=_acceptance_change(blocks, place),
            )
            for place in speculative_lanes(sweep.lanes)
        ),
    )


def speculative_lanes(lanes: Sequence[LoadLane]) -> tuple[int, ...]:
    return tuple(place for place, each in enumerate(lanes) if each.kind == "speculative")


def log_speedups(sweep: LoadSweep) -> dict[tuple[int, float], Logs]:
    """Return the log-speedups of a load sweep: one for each A B B A unit.

    The keys of the result are (engine, load). Each value is a mapping whose keys are (repetition
    of the sweep, unit) and whose values are the log-speedups of these units.
    """
    return _log_speedups(sweep, [block_figures(each, sweep.settings) for each in sweep.blocks])


def curves_of(sweep: LoadSweep) -> dict[int, Curves]:
    """Return, for each speculative engine (by its index), the log-speedups at all loads."""
    logs = log_speedups(sweep)
    found = {lane: _curves(logs, lane) for lane in speculative_lanes(sweep.lanes)}
    return {lane: each for lane, each in found.items() if each is not None}


def _log_speedups(
    sweep: LoadSweep, blocks: Sequence[BlockFigures]
) -> dict[tuple[int, float], Logs]:
    usable = [each for each in blocks if not each.problem and each.pace > 0]
    alone: dict[tuple[float, int, int, int | None], list[float]] = {}
    for each in usable:
        block = each.block
        if sweep.lanes[block.lane].kind == "alone":
            for start in (block.start, None):
                key = block.level, block.repetition, block.unit, start
                alone.setdefault(key, []).append(math.log(each.pace))
    fast: dict[tuple[int, float, int, int, int], list[float]] = {}
    for each in usable:
        block = each.block
        if sweep.lanes[block.lane].kind == "speculative":
            place = block.lane, block.level, block.repetition, block.unit, block.start
            fast.setdefault(place, []).append(math.log(each.pace))
    found: dict[tuple[int, float], dict[PromptRepeat, float]] = {}
    for (lane, level, repetition, unit, start), logs in fast.items():
        beside = alone.get((level, repetition, unit, start))
        beside = beside or alone.get((level, repetition, unit, None))
        if beside:
            own = found.setdefault((lane, level), {})
            own[repetition, unit] = fmean(logs) - fmean(beside)
    return {place: dict(sorted(each.items())) for place, each in found.items()}


def _level(blocks: Sequence[BlockFigures], logs: Logs) -> LevelFigures:
    usable = [each for each in blocks if not each.problem]
    first = blocks[0].block
    windows = [each.block for each in usable]
    due = [
        request
        for block in windows
        for request in block.requests
        if not request.failed and block.begin <= request.scheduled < block.end
    ]
    gaps = [
        gap
        for block in windows
        for gap in gaps_within(
            [each for each in block.requests if not each.failed], block.begin, block.end
        )
    ]
    acceptance = pooled([each.acceptance for each in usable])
    speedup = ratio_over_units(logs)
    tau = acceptance.tau
    return LevelFigures(
        lane=first.lane,
        level=first.level,
        blocks=len(usable),
        unusable=len(blocks) - len(usable),
        tokens_per_second=_mean([each.tokens_per_second for each in usable]),
        tokens_per_second_per_user=_mean([each.tokens_per_second_per_user for each in usable]),
        ttft=percentiles(ttft_of(each) for each in due),
        tpot=percentiles(tpot_of(each) for each in due),
        chunk_latency=percentiles(gaps),
        seconds_per_token=_mean([each.seconds_per_token for each in usable]),
        acceptance=acceptance,
        engine=_engine([each.engine for each in blocks]),
        requests=len(due),
        failures=sum(each.failures for each in blocks),
        mean_in_flight=_mean([each.mean_in_flight for each in usable]),
        most_in_flight=max(each.most_in_flight for each in blocks),
        totals=_totals([each.totals for each in blocks]),
        speedup=speedup,
        round_cost=tau / speedup.value if tau and speedup else None,
    )


def ratio_over_units(logs: Logs) -> Ratio | None:
    """Return the mean ratio with its interval, from log-ratios; None if there are no log-ratios.

    If the engine was started several times, the interval covers the differences between starts.
    Otherwise it covers the differences between A B B A units.
    """
    found = ratio_of(logs)
    return found and replace(found, over="units" if found.over == "seeds" else "starts")


def _break_even(logs: Mapping[tuple[int, float], Logs], lane: int) -> BreakEven | None:
    curves = _curves(logs, lane)
    return None if curves is None else break_even(curves)


def _curves(logs: Mapping[tuple[int, float], Logs], lane: int) -> Curves | None:
    """Return an engine's log-speedups; None if no A B B A unit was measured at every load.

    If the engine was started several times, the result has one row per start. Otherwise it has
    one row per unit. Units that were not measured at every load are left out.
    """
    own = {level: each for (place, level), each in sorted(logs.items()) if place == lane}
    if not own:
        return None
    keys = sorted(set.intersection(*(set(each) for each in own.values())))
    if not keys:
        return None
    rows = [[own[level][key] for level in own] for key in keys]
    repetitions = sorted({key[0] for key in keys})
    if len(repetitions) > 1:
        rows = [
            [
                fmean(row[at] for key, row in zip(keys, rows, strict=True) if key[0] == each)
                for at in range(len(own))
            ]
            for each in repetitions
        ]
    return Curves(levels=tuple(own), rows=tuple(tuple(row) for row in rows))


def _acceptance_change(blocks: Sequence[BlockFigures], lane: int) -> Ratio | None:
    """Return τ at the highest load divided by τ at the lowest; None without engine counters."""
    by_key: dict[PromptRepeat, dict[float, list[Acceptance]]] = {}
    for each in blocks:
        if each.block.lane == lane and not each.problem:
            own = by_key.setdefault((each.block.repetition, each.block.unit), {})
            own.setdefault(each.block.level, []).append(each.acceptance)
    changes: dict[PromptRepeat, float] = {}
    for key, levels in by_key.items():
        taus = {level: tau for level, own in levels.items() if (tau := pooled(own).tau)}
        if len(taus) > 1:
            changes[key] = _change_along_line(taus)
    return ratio_over_units(changes)


def _change_along_line(taus: Mapping[float, float]) -> float:
    """Return how much log τ changes from the lowest to the highest load, along a fitted line.

    Args:
        taus: τ by load; the line is fitted over the logarithm of the load.
    """
    xs, ys = [math.log(each) for each in taus], [math.log(each) for each in taus.values()]
    mean = fmean(xs)
    slope = sum((x - mean) * y for x, y in zip(xs, ys, strict=True))
    return slope / sum((x - mean) ** 2 for x in xs) * (max(xs) - min(xs))


def _engine(found: Sequence[EngineState]) -> EngineState:
    def most(name: str) -> float | None:
        return max((v for each in found if (v := getattr(each, name)) is not None), default=None)

    preemptions = [each.preemptions for each in found if each.preemptions is not None]
    hits = [each.prefix_hits for each in found if each.prefix_hits is not None]
    return EngineState(
        kv_use=most("kv_use"),
        running=most("running"),
        waiting=most("waiting"),
        preemptions=sum(preemptions) if preemptions else None,
        prefix_hits=fmean(hits) if hits else None,
    )


def _totals(found: Sequence[Totals]) -> Totals:
    """Return the sums of tokens received and counted.

    The sum ``counted`` is None if one of its terms is unknown.
    """
    counted = [each.counted for each in found if each.counted is not None]
    return Totals(
        received=sum(each.received for each in found),
        counted=sum(counted) if len(counted) == len(found) else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if known else None
