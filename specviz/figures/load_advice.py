"""Advise which γ to use at each load, from the speedups of all engines in a load sweep.

A lane is one of the compared engines: one with speculation at some γ, or one with the target alone.
A level is a number of users or of requests per second. Between the measured levels, the speedups
are interpolated (`load_break_even`). The advice is the lane with the highest speedup if this
speedup is above 1. Otherwise the advice is to turn speculation off (γ 0).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from specviz.figures.load_break_even import Curves, log_speedup_along
from specviz.record.load_run import LEVEL_UNITS, LoadLane, LoadMode
from specviz.values import Value

OFF = 0
VLLM_SETTING = "num_speculative_tokens_per_batch_size"
_POINTS = 400


class Advised(Value):
    """The advice for one range of load: ``gamma`` candidates per round; None if γ is unknown.

    The range ends at the load ``until``, which is None for the last range. ``lane`` is the index
    of the advised engine among the compared engines. ``certain``: whether, at all measured loads
    in the range, the interval of this engine's speedup excludes 1. If the advice is "off",
    ``certain`` says whether the intervals of all engines exclude 1.
    """

    lane: int | None  # None: off
    gamma: int | None
    label: str
    until: float | None
    certain: bool = True


def advice(
    lanes: Sequence[LoadLane],
    curves: Mapping[int, Curves],
    certain: Mapping[tuple[int, float], bool],
) -> tuple[Advised, ...]:
    """Return the best γ for each range of load; empty if fewer than two loads have speedups.

    Args:
        lanes: The compared engines.
        curves: The log-speedups of each engine, by its index in ``lanes``.
        certain: For each engine and load, whether the interval of the speedup excludes 1.
    """
    levels = _common_levels(curves)
    if len(levels) < 2:
        return ()
    grid = np.exp(np.linspace(math.log(levels[0]), math.log(levels[-1]), _POINTS))
    grid[0], grid[-1] = levels[0], levels[-1]
    places = sorted(curves)
    logs = np.array([log_speedup_along(curves[each], grid.tolist()) for each in places])
    best = np.where(logs.max(axis=0) > 0, logs.argmax(axis=0), len(places))
    changes = np.flatnonzero(best[1:] != best[:-1])
    ends = [float(math.sqrt(grid[at] * grid[at + 1])) for at in changes]
    chosen = [int(best[at]) for at in (*changes, len(best) - 1)]
    found, begin = list[Advised](), 0.0
    for index, end in zip(chosen, (*ends, None), strict=True):
        lane = places[index] if index < len(places) else None
        inside = [each for each in levels if begin <= each and (end is None or each <= end)]
        found.append(_advised(lanes, lane, places, inside, end, certain))
        begin = end or begin
    return tuple(found)


def advice_words(found: Sequence[Advised], mode: LoadMode) -> str:
    """Return the advice in one sentence, such as "γ 4 up to 6 users, off at higher loads."."""
    unit, parts, before = LEVEL_UNITS[mode], list[str](), ""
    for each in found:
        if each.until is None:
            parts.append(f"{each.label}{' at higher loads' if before else ''}")
        else:
            shown = f"{each.until:.2g}" if mode == "open" else f"{_whole(each.until)}"
            if shown == before:
                continue  # a range without a whole number of users
            noun = unit.removesuffix("s") if shown == "1" and mode == "closed" else unit
            parts.append(f"{each.label} up to {shown} {noun}")
            before = shown
    if not before and len(found) == 1:
        verb = "No speculation" if found[0].lane is None else f"Use {found[0].label}"
        return f"{verb} at every level of load."
    words = ", ".join(parts)
    return f"{words if words.startswith('γ') else words[:1].upper() + words[1:]}."


def vllm_schedule(found: Sequence[Advised], most: int) -> str | None:
    """Return the advice as JSON for a setting of vLLM (`VLLM_SETTING`); None if a γ is unknown.

    Args:
        most: The largest number of requests in the schedule.
    """
    rows, begin = list[list[int]](), 1
    for each in found:
        if each.gamma is None:
            return None
        end = most if each.until is None else min(most, _whole(each.until))
        if end >= begin:
            rows.append([begin, end, each.gamma])
            begin = end + 1
    return json.dumps({VLLM_SETTING: rows}) if rows else None


def _whole(level: float) -> int:
    """Return the largest whole number of users that is at most ``level``, a load."""
    return math.floor(level + 1e-9)


def _advised(
    lanes: Sequence[LoadLane],
    lane: int | None,
    places: Sequence[int],
    inside: Sequence[float],
    until: float | None,
    certain: Mapping[tuple[int, float], bool],
) -> Advised:
    compared = places if lane is None else [lane]
    sure = all(certain.get((each, level), False) for each in compared for level in inside)
    if lane is None:
        return Advised(lane=None, gamma=OFF, label="off", until=until, certain=sure)
    own = lanes[lane]
    label = "on" if own.gamma is None else own.label
    return Advised(lane=lane, gamma=own.gamma, label=label, until=until, certain=sure)


def _common_levels(curves: Mapping[int, Curves]) -> list[float]:
    levels = [set(each.levels) for each in curves.values()]
    return sorted(set.intersection(*levels)) if levels else []
