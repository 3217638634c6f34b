"""The data for a race: several runs on one clock, beside the target alone.

A lane is one of the runs. It has the same data as a single run, so that the player can show a
chosen lane's text, rounds and metrics. All times were measured. See assets/player/payload.d.ts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b

from specviz.comparison import Comparison, LaneRun, representative
from specviz.figures.metrics import Metrics, metrics, resampled
from specviz.figures.speedup_words import is_undecided
from specviz.player.any_run import payload_of_run
from specviz.player.round_values import JsonObject
from specviz.record.server_run import AnyTrace, dispatch
from specviz.record.trace import Trace

MOST_LANES = 4
_OTHER_ENGINE = (
    "No winner: a lane of another engine is timed from its first piece of text, and its machine "
    "and settings may differ."
)
_NOT_IN_TURN = "No winner: the lanes were timed at different times, not in turn."


def race_payload(
    labels: Sequence[str],
    traces: Sequence[AnyTrace],
    *,
    figures: Sequence[Metrics] | None = None,
    by_turns: bool = True,
    details: Sequence[str] = (),
) -> JsonObject:
    """Return the player's data for a race of finished runs.

    A race has no winner if it includes an answer of another engine, or if its runs were not timed
    in turn.

    Args:
        figures: The metrics of the traces, if already computed; intervals of α are added.
        by_turns: Whether the runs were timed in turn.
        details: For each run, a few words shown beside its label.
    """
    assert 1 <= len(traces) <= MOST_LANES, "a race has one to four lanes"
    assert all(trace.rounds for trace in traces), "a lane needs at least one round"
    known = figures or [None] * len(traces)
    found = [_with_intervals(*each) for each in zip(traces, known, strict=True)]
    reason = _why_incomparable(traces, by_turns=by_turns)
    lanes = [
        _lane(str(label), trace, each, detail)
        for label, trace, each, detail in zip(
            labels, traces, found, details or [""] * len(traces), strict=True
        )
    ]
    return {
        "race": {
            "id": " ".join(lane["stage"]["run"]["id"] for lane in lanes),
            "lanes": lanes,
            "targets": _targets(traces, lanes),
            "open": not reason and _is_undecided([each for each in found if each]),
            "chosen": 0,  # the lane that is shown in full below the race
            **({"unlike": reason} if reason else {}),
        },
        "growing": False,
        "tour": "never",
    }


def _why_incomparable(traces: Sequence[AnyTrace], *, by_turns: bool) -> str:
    """Return why the lanes are not comparable; empty if they are comparable."""
    if any(trace.facts.engine for trace in traces):
        return _OTHER_ENGINE
    return "" if by_turns else _NOT_IN_TURN


def _is_undecided(figures: Sequence[Metrics]) -> bool:
    """Return whether the intervals leave open what is fastest: a lane, or the target alone.

    If a run has no interval, the recorded times decide, so return False.
    """
    timed = [each for each in figures if each.tokens_per_second and each.speedup_low]
    if len(timed) < len(figures):
        return False
    best, *others = sorted(timed, key=lambda each: -(each.tokens_per_second or 0.0))
    if best.speedup_high is not None and best.speedup_high < 1:
        return False
    return is_undecided(best) or any(_is_close(best, each) for each in others)


def _is_close(one: Metrics, other: Metrics) -> bool:
    rates = (each.tokens_per_second or 0.0 for each in (one, other))
    difference = math.log(next(rates) / next(rates))
    return abs(difference) <= math.hypot(one.speedup_error or 0.0, other.speedup_error or 0.0)


def prompts_raced(comparison: Comparison, measured: Sequence[LaneRun]) -> tuple[int, ...]:
    """Return the indices of the prompts on which every compared lane (pair and settings) ran."""
    made = {(run.job.item, run.job.lane) for run in measured}
    items, lanes = range(len(comparison.plan.items)), range(len(comparison.lanes))
    return tuple(item for item in items if all((item, lane) in made for lane in lanes))


def representatives(
    comparison: Comparison, measured: Sequence[LaneRun], item: int
) -> tuple[LaneRun, ...]:
    """Return a typical run of each lane on prompt ``item``: the run nearest the median rate.

    All lanes race on one prompt, because runs on different prompts do not emit the same text.
    """
    on_item = {run.job: run for run in measured if run.job.item == item}.values()
    lanes = range(len(comparison.lanes))
    found = [representative([run for run in on_item if run.job.lane == lane]) for lane in lanes]
    return tuple(run for run in found if run is not None)


def representative_details(comparison: Comparison, measured: Sequence[LaneRun]) -> list[str]:
    """Return, for each lane, text such as "one of 5 runs"; empty for a single run.

    The text warns that the race, which shows one run of each lane, may differ from the verdict
    over all runs.
    """
    counts = [
        sum(run.job.lane == lane for run in measured) for lane in range(len(comparison.lanes))
    ]
    return [f"one of {count} runs" if count > 1 else "" for count in counts]


def _with_intervals(trace: AnyTrace, known: Metrics | None) -> Metrics | None:
    """Return the metrics of a run, with intervals of α; None for another engine's answer."""
    return dispatch(
        trace, lambda run: metrics(run) if known is None else resampled(known), lambda _: None
    )


def _lane(label: str, trace: AnyTrace, figures: Metrics | None, detail: str) -> JsonObject:
    stage = payload_of_run(trace, run_id="", state="done", label=label, figures=figures)
    stage["run"]["detail"] = detail
    times, timed = [each["times"] for each in stage["rounds"]["items"]], stage["lanes"]
    content = repr((label, trace.created, trace.facts, trace.token_ids, times))
    digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    # The player caches data by id, so the id depends on the content.
    stage["run"]["id"] = f"race {digest}"
    return {"label": label, "parts": timed["speculative"] if timed else times, "stage": stage}


def _targets(traces: Sequence[AnyTrace], lanes: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the times of the target alone, one entry for each distinct target of the lanes.

    A target's times are taken along the text of the first lane that uses this target.
    """
    found: dict[tuple[str, str], JsonObject] = {}
    for trace, lane in zip(traces, lanes, strict=True):
        target, timed = dispatch(trace, _target, lambda _: None), lane["stage"]["lanes"]
        if target and timed and target not in found:
            found[target] = {"name": target[0], "along": lane["label"], "seconds": timed["target"]}
    several = len(found) > 1
    return [
        {**each, "label": f"{each['name']} alone" if several else "target alone"}
        for each in found.values()
    ]


def _target(trace: Trace) -> tuple[str, str]:
    return trace.pair.target.name, trace.pair.target.weights_sha256
