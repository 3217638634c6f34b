"""Sentences about a load sweep: the verdict, its causes, advice, checks and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specviz.figures.load_advice import VLLM_SETTING, advice, advice_words, vllm_schedule
from specviz.figures.load_blocks import Totals
from specviz.figures.load_break_even import BreakEven
from specviz.figures.load_figures import LevelFigures, LoadFigures, curves_of
from specviz.figures.paired import Ratio
from specviz.record.load_run import LEVEL_UNITS, LoadMode, LoadSweep
from specviz.record.numbers import (
    MILLISECONDS,
    RATIO,
    STEPS,
    TOKENS,
    WHOLE_PERCENT,
    counted,
)
from specviz.values import Value

_BUSY_CLIENT = 0.7  # cores of this process: from here on it may slow the load down
_FULL_CACHE = 0.9
_GROWN = 1.2  # a ratio from which on a change is named
_FALLEN = 0.97  # τ along the levels, below which a certain fall is called one


class LoadWords(Value):
    """Sentences about a load sweep, by kind.

    ``verdict``: the speedup and the break-even. ``causes``: why the speedup changes with the load.
    ``advice``: which settings to use. ``checks``: whether requests overlapped, and whether token
    counts agree. ``warnings``: what limits the results.
    """

    verdict: tuple[str, ...]
    causes: tuple[str, ...]
    advice: tuple[str, ...]
    checks: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.verdict, *self.causes, *self.advice, *self.checks, *self.warnings)


def load_words(sweep: LoadSweep, figures: LoadFigures) -> LoadWords:
    return LoadWords(
        verdict=tuple(_verdict(sweep, figures)),
        causes=tuple(_causes(sweep, figures)),
        advice=tuple(_advice(sweep, figures)),
        checks=tuple(_checks(sweep, figures)),
        warnings=(*_warnings(sweep, figures), *sweep.notices),
    )


def level_words(level: float, mode: LoadMode) -> str:
    """Return a load with its unit, such as "1 user" or "0.5 requests/s"."""
    return counted(round(level), "user") if mode == "closed" else f"{level:g} {LEVEL_UNITS[mode]}"


# The verdict


def _verdict(sweep: LoadSweep, figures: LoadFigures) -> Iterator[str]:
    several = len(figures.lanes) > 1
    for lane in figures.lanes:
        levels = [each for each in figures.of_lane(lane.lane) if each.speedup]
        if not levels:
            continue
        name = f"{sweep.lanes[lane.lane].label}: " if several else ""
        ends = levels if len(levels) == 1 else (levels[0], levels[-1])
        parts = " and ".join(_speedup_at(each, sweep.settings.mode) for each in ends)
        subject = f"{name}speculation" if several else "Speculation"
        yield f"{subject} is {parts}{_covers(levels[0].speedup)}."
        if lane.break_even is not None and len(levels) > 1:
            yield f"{name}{break_even_words(lane.break_even, sweep.settings.mode)}"
    if not any(each.speedup for each in figures.levels):
        yield (
            "The speedup is unknown: no level has usable blocks both with and without speculation."
        )


def _speedup_at(level: LevelFigures, mode: LoadMode) -> str:
    speedup = level.speedup
    assert speedup is not None
    shown = f"{RATIO.shown(speedup.value)} as fast"
    if speedup.low is not None and speedup.high is not None:
        shown += f" ({RATIO.span(speedup.low, speedup.high)})"
    return f"{shown} at {level_words(level.level, mode)}"


def _covers(speedup: Ratio | None) -> str:
    if speedup is None or speedup.low is None:
        return ", measured once, so there is no interval"
    if speedup.over == "starts":
        return f"; the intervals cover the differences between {speedup.count} starts of the engine"
    return (
        f"; the intervals cover the differences between {speedup.count} A B B A units "
        "within one start of the engine"
    )


def break_even_words(found: BreakEven, mode: LoadMode) -> str:
    """Return a sentence on the load above which speculation is slower than the target alone."""
    interval = _interval_words(found, mode)
    if found.where == "above":
        return f"No break-even up to {level_words(found.highest, mode)}{interval}."
    if found.where == "below":
        again = ", but faster at a higher load" if found.returns else ""
        sure = not found.has_interval or found.high is not None
        verb = "is already" if sure else "may already be"
        lowest = level_words(found.lowest, mode)
        return f"Speculation {verb} slower at {lowest}{again}{interval}."
    assert found.value is not None
    again = " Speculation is faster again at a higher load." if found.returns else ""
    return f"The break-even is at {found.value:.3g} {LEVEL_UNITS[mode]}{interval}.{again}"


def _interval_words(found: BreakEven, mode: LoadMode) -> str:
    if not found.has_interval:
        return ", measured once, so there is no interval"
    low, high, unit = found.low, found.high, LEVEL_UNITS[mode]
    if low is None and high is None:
        return "; the interval of the break-even extends beyond the measured levels at both ends"
    if low is not None and high is not None:
        return f" ({low:.3g}–{high:.3g})"
    if low is not None:
        certain = found.where == "above" and low >= found.highest * (1 - 1e-9)
        return "" if certain else f"; the interval of the break-even begins at {low:.3g} {unit}"
    assert high is not None
    certain = found.where == "below" and high <= found.lowest * (1 + 1e-9)
    return "" if certain else f"; the interval of the break-even ends at {high:.3g} {unit}"


# Causes


def _causes(sweep: LoadSweep, figures: LoadFigures) -> Iterator[str]:
    several = len(figures.lanes) > 1
    alone = next((at for at, each in enumerate(sweep.lanes) if each.kind == "alone"), None)
    for lane in figures.lanes:
        levels = [each for each in figures.of_lane(lane.lane) if each.blocks]
        if len(levels) < 2:
            continue
        name = f"{sweep.lanes[lane.lane].label}: " if several else ""
        others = [figures.at(alone, each.level) for each in levels] if alone is not None else []
        for each in _lane_causes(levels, others, lane.acceptance_change, sweep.settings.mode):
            yield f"{name}{each}"


def _lane_causes(
    levels: Sequence[LevelFigures],
    others: Sequence[LevelFigures | None],
    change: Ratio | None,
    mode: LoadMode,
) -> Iterator[str]:
    first, last = levels[0], levels[-1]
    low, high = level_words(first.level, mode), level_words(last.level, mode)
    if change is not None and first.acceptance.tau and last.acceptance.tau:
        yield _acceptance_words(first, last, change, low, high)
    falls = first.speedup and last.speedup and last.speedup.value < first.speedup.value
    steady = change is not None and not _falls(change)
    if first.round_cost and last.round_cost and mode == "closed":
        costs = (
            f"A round takes as long as {STEPS.shown(first.round_cost)} steps of the target alone "
            f"at {low}, and as long as {STEPS.shown(last.round_cost)} steps at {high}"
        )
        grown = last.round_cost > _GROWN * first.round_cost
        because = (
            ": the speedup falls because rounds cost more (verification, drafting, scheduling; the "
            "engine does not report these costs separately)"
            if grown and falls and steady
            else ""
        )
        yield f"{costs}{because}."
    if others and others[-1] is not None:
        yield from _state_causes(last, others[-1], high)


def _falls(change: Ratio) -> bool:
    return change.value < _FALLEN and (change.high is None or change.high < 1)


def _acceptance_words(
    first: LevelFigures, last: LevelFigures, change: Ratio, low: str, high: str
) -> str:
    taus = (
        f"{TOKENS.shown(first.acceptance.tau)} tokens per round at {low}, and "
        f"{TOKENS.shown(last.acceptance.tau)} at {high}"
    )
    if _falls(change):
        return f"Acceptance falls with the load: {taus}."
    if change.low is not None and change.low > 1 / _FALLEN:
        return f"Acceptance rises with the load: {taus}."
    return f"Acceptance does not fall with the load: {taus}."


def _state_causes(own: LevelFigures, alone: LevelFigures, at: str) -> Iterator[str]:
    if own.ttft and alone.ttft and own.ttft.p50 > _GROWN * alone.ttft.p50:
        yield (
            f"At {at}, the median time to first token is {MILLISECONDS.shown(1000 * own.ttft.p50)} "
            f"with speculation and {MILLISECONDS.shown(1000 * alone.ttft.p50)} without: part of "
            "the lost speedup comes from prefill or waiting."
        )
    if (own.engine.preemptions or 0) > (alone.engine.preemptions or 0):
        yield (
            f"At {at}, the engine preempted {own.engine.preemptions:.0f} requests with speculation "
            f"and {alone.engine.preemptions or 0:.0f} without: the KV cache is too small."
        )
    if (own.engine.waiting or 0) > 0:
        yield (
            f"At {at}, up to {own.engine.waiting:.0f} requests waited in the engine's queue with "
            f"speculation, and {alone.engine.waiting or 0:.0f} without."
        )
    if (own.engine.kv_use or 0) > _FULL_CACHE:
        yield f"At {at}, {WHOLE_PERCENT.shown(own.engine.kv_use)} of the KV cache was in use."


# Advice


def _advice(sweep: LoadSweep, figures: LoadFigures) -> Iterator[str]:
    certain = {
        (each.lane, each.level): each.speedup is not None and each.speedup.differs
        for each in figures.levels
    }
    found = advice(sweep.lanes, curves_of(sweep), certain)
    if not found:
        return
    words = advice_words(found, sweep.settings.mode)
    unsure = "" if all(each.certain for each in found) else (
        " At some of these levels, the interval of the speedup includes 1."
    )  # fmt: skip
    yield f"{words}{unsure}"
    engine = sweep.lanes[-1].info.engine
    most = round(max(sweep.settings.levels))
    if engine == "vllm" and sweep.settings.mode == "closed" and len(found) > 1:
        schedule = vllm_schedule(found, most)
        if schedule is not None:
            yield (
                f"To follow this advice in vLLM, add to --speculative-config: {schedule[1:-1]}. "
                f"Run a sweep with this setting to verify the advice. {VLLM_SETTING} also counts "
                "requests in prefill, and some model runners ignore this setting."
            )


# Checks and warnings


def _checks(sweep: LoadSweep, figures: LoadFigures) -> Iterator[str]:
    if not figures.blocks:
        return
    if sweep.settings.mode == "closed":
        lowest = min(each.mean_in_flight / each.block.level for each in figures.blocks)
        most = max(each.most_in_flight / each.block.level for each in figures.blocks)
        share = f"at least {WHOLE_PERCENT.shown(lowest)} of the" if lowest < 0.995 else "all"
        yield f"Requests overlapped: on average, {share} users had a request in flight."
        if most > 1:
            yield (
                f"At one time, {WHOLE_PERCENT.shown(most - 1)} more requests than users were in "
                "flight."
            )
    for place, lane in enumerate(sweep.lanes):
        own = [each.totals for each in figures.blocks if each.block.lane == place]
        if own:
            yield f"{lane.label}: {totals_words(own)}"


def totals_words(found: Sequence[Totals]) -> str:
    """Return a sentence that compares the tokens received with the engine's counters."""
    known = [each for each in found if each.counted is not None]
    if not known:
        return "the engine reports no token count, so the tokens received cannot be checked."
    received = sum(each.received for each in known)
    total = sum(each.counted or 0.0 for each in known)
    if all(each.agree for each in known):
        return f"the engine's counters confirm all {received:,} tokens that were received."
    other = total - received
    why = "other clients, or answers cut off" if other > 0 else "the counters are incomplete"
    return (
        f"the engine counts {total:,.0f} tokens, but {received:,} were received "
        f"({other:+,.0f}: {why})."
    ).replace("-", "−")


def _warnings(sweep: LoadSweep, figures: LoadFigures) -> Iterator[str]:
    if sweep.shared_cores is not None:
        yield (
            f"The engine and this client share the machine's {sweep.shared_cores} cores, so the "
            "client slows the engine down."
        )
    busy = max((each.block.client_cores or 0.0 for each in figures.blocks), default=0.0)
    if busy > _BUSY_CLIENT:
        yield (
            f"This client used up to {busy:.1f} cores, so it may limit the throughput. Use fewer "
            "users, or an engine that sends more tokens per chunk."
        )
    failures = sum(each.failures for each in figures.blocks)
    if failures:
        first = next(
            request.failure
            for each in figures.blocks
            for request in each.block.requests
            if request.failed
        )
        yield f"{counted(failures, 'request')} failed. The first failure: {first}"
    for each in figures.blocks:
        if each.problem and not each.failures:
            yield (
                f"A block of {sweep.lanes[each.block.lane].label} at "
                f"{level_words(each.block.level, sweep.settings.mode)} does not count. "
                f"{each.problem}"
            )
    hits = max((each.engine.prefix_hits or 0.0 for each in figures.blocks), default=0.0)
    if hits > 0.05:
        yield (
            f"Up to {WHOLE_PERCENT.shown(hits)} of the prompt tokens came from the prefix cache. "
            "Turn the prefix cache off. The cache saves less work with an EAGLE head than without "
            "the head, so the comparison is not fair."
        )
    unsent = sum(each.block.unsent for each in figures.blocks)
    if unsent:
        yield (
            f"{counted(unsent, 'request')} could not be sent, because the limit of "
            f"{sweep.settings.most_in_flight} requests in flight was reached. The engine is too "
            "slow for this rate of requests."
        )
    if any(request.divided for each in sweep.blocks for request in each.requests):
        yield (
            "The engine reports only the number of tokens of a whole answer. These tokens are "
            "divided evenly among the answer's chunks."
        )
