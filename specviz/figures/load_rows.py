"""The tables of a load sweep (engines measured at several loads), as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specviz.figures.load_blocks import Percentiles, Totals
from specviz.figures.load_figures import LevelFigures, LoadFigures
from specviz.figures.load_words import level_words
from specviz.record.load_run import LoadLane, LoadSweep
from specviz.record.numbers import MILLISECONDS, RATE, RATIO, TOKENS, UNKNOWN


def lane_names(lanes: Sequence[LoadLane]) -> tuple[str, ...]:
    """Return the labels of the compared engines; equal labels get the engines' addresses added."""
    labels = [each.label for each in lanes]
    return tuple(
        label if labels.count(label) == 1 else f"{label} at {lane.info.address}"
        for label, lane in zip(labels, lanes, strict=True)
    )


def speed_rows(sweep: LoadSweep, figures: LoadFigures) -> list[dict[str, str]]:
    """Return a table of throughput and latencies, with a row for each load and engine."""
    return _rows(sweep, figures, _speeds)


def count_rows(sweep: LoadSweep, figures: LoadFigures) -> list[dict[str, str]]:
    """Return a table of acceptance, requests and totals, with a row for each load and engine."""
    return _rows(sweep, figures, _counts)


def _rows(
    sweep: LoadSweep, figures: LoadFigures, cells: Callable[[LevelFigures], dict[str, str]]
) -> list[dict[str, str]]:
    names = lane_names(sweep.lanes)
    return [
        {"Load": level_words(each.level, sweep.settings.mode), "Lane": names[each.lane]}
        | cells(each)
        for each in sorted(figures.levels, key=lambda each: (each.level, each.lane))
    ]


def _speeds(each: LevelFigures) -> dict[str, str]:
    speedup = each.speedup
    return {
        "Speedup": UNKNOWN
        if speedup is None
        else RATIO.spread(speedup.value, speedup.low, speedup.high),
        "Tokens/s": RATE.shown(each.tokens_per_second),
        "Per user": RATE.shown(each.tokens_per_second_per_user),
        "First token, ms": percentile_words(each.ttft),
        "Each token, ms": percentile_words(each.tpot),
        "Between chunks, ms": percentile_words(each.chunk_latency),
    }


def _counts(each: LevelFigures) -> dict[str, str]:
    alphas = " ".join(map(TOKENS.shown, each.acceptance.alpha_by_position))
    flight = UNKNOWN if each.mean_in_flight is None else f"{each.mean_in_flight:.1f}"
    return {
        "Tokens per round": TOKENS.shown(each.acceptance.tau),
        "α by position": alphas or UNKNOWN,
        "Requests": f"{each.requests:,}",
        "Failures": f"{each.failures:,}",
        "In flight": f"{flight} (most {each.most_in_flight})",
        "Tokens received": f"{each.totals.received:,}",
        "Counted by the engine": _counted(each.totals),
    }


def percentile_words(found: Percentiles | None) -> str:
    if found is None:
        return UNKNOWN
    return " / ".join(MILLISECONDS.bare(1000 * each) for each in (found.p50, found.p90, found.p99))


def _counted(totals: Totals) -> str:
    if totals.difference is None:
        return UNKNOWN
    if totals.agree:
        return "the same"
    return f"{totals.difference:+,.0f}".replace("-", "−")
