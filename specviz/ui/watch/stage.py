"""The stage: one player that shows the recorded run, the live one, or one that is over.

While a run or a pair is under way, a fragment feeds the player four times a second with the
rounds it does not have yet. When all is at rest nothing ticks. A run that has no round yet
leaves the stage to the one before it.
"""

from __future__ import annotations

from typing import Any

from specviz.player.payload import (
    ChartPoint,
    RunChoice,
    RunStatus,
    Tour,
    chart_point,
    curves_of,
    payload,
)
from specviz.record.trace import Trace
from specviz.ui.session.history import RECORDED, History, Shown
from specviz.ui.session.ticking import keep_drawn
from specviz.ui.session.worker import this_tab
from specviz.ui.widgets.pair_boxes import shown_pair
from specviz.ui.widgets.pair_panel import run_label
from specviz.ui.widgets.player import player_wish, show_player
from specviz.worker.parent.client import PairStatus, Worker
from specviz.worker.parent.handles import FINISHED, Run, RunState

_KEY = "player"
_TICK = 0.25  # seconds; twice as often, updates are dropped


def show_stage(
    worker: Worker, seen: PairStatus, history: History, chosen: RunChoice, tour: Tour
) -> None:
    """Draw the player where the caller stands, and keep it fed; ``seen`` is the script's look."""

    def feed(status: PairStatus) -> None:
        this_tab()
        show_player(_stage_data(status, history, chosen, tour), key=_KEY)

    keep_drawn(seen, worker.status, lambda status: _is_busy(status, history), feed, seconds=_TICK)


def _is_busy(status: PairStatus, history: History) -> bool:
    """Whether what the stage shows may still change by itself."""
    run = history.current
    if run is not None and (not run.finished or history.awaits_outlook(run)):
        return True
    measuring = run is None and status.progress is not None
    return status.preparing or measuring


def _stage_data(
    status: PairStatus, history: History, chosen: RunChoice, tour: Tour
) -> dict[str, Any]:
    """The run's state is read before its rounds: what is told may lag, it never runs ahead."""
    run = history.current
    state = run.state if run else None
    shown = history.shown()
    wish = player_wish(_KEY)
    return payload(
        shown.trace,
        _told_run(run, state, shown) if run and state else _told_pair(status, shown),
        start=history.feed.take(shown.id, len(shown.trace.rounds), wish),
        curves=curves_of(shown.trace, shown.figures, shown.outlook),
        points=_points(history, shown),
        chosen=chosen,
        figures=shown.figures,
        growing=shown.growing,
        tour=tour if run is None else "never",
    )


def _told_run(run: Run, state: RunState, shown: Shown) -> RunStatus:
    on_stage = run.id == shown.id
    over = state in FINISHED
    return RunStatus(
        id=shown.id,
        state=state,
        label=f"{_STATE_WORDS[state]} · {_place(shown.trace) if on_stage else run.spec.label}",
        detail=run.error.culprit if run.error else _detail(run, state),
        remedy=run.error.remedy if run.error else "",
        sentence=_sentence(shown.trace, run, state) if on_stage else _meanwhile(shown, over),
        waiting=not on_stage and not over,
    )


_STATE_WORDS = {
    "loading": "starting",
    "queued": "waiting",
    "running": "live",
    "stopped": "stopped",
    "done": "done",
    "failed": "failed",
}


def _meanwhile(shown: Shown, over: bool) -> str:
    """While, or because, the run has no round: what the stage shows in its stead."""
    there = "the recorded run" if shown.id == RECORDED else "the run before"
    if not over:
        return f"Below, until it starts: {there}."
    return f"The run ended before its first round. Below: {there}."


def _told_pair(status: PairStatus, shown: Shown) -> RunStatus:
    """While the tab has no run: one of the library, or the recorded one and how the pair is."""
    if shown.name is not None:
        return _opened_status(shown)
    wished = shown_pair()
    label, remedy = run_label(status, wished), ""
    detail = "press Run to load a pair" if label == "Run" else f"press {label}"
    if wished is None:
        detail = "name a target and a draft under The pair"
    elif status.preparing:
        detail = status.progress.text if status.progress else "loading the pair"
    elif status.spec == wished and status.error is not None:
        detail, remedy = status.error.culprit, status.error.remedy
    elif status.spec == wished and status.state == "ready" and label == "Run":
        measuring = f"; {status.progress.text}" if status.progress else ""
        detail = f"the pair is ready: press Run{measuring}"
    return RunStatus(
        id=RECORDED,
        state="recorded",
        label=f"recorded · {_place(shown.trace)}",
        detail=detail,
        remedy=remedy,
    )


def _opened_status(shown: Shown) -> RunStatus:
    """A run of the library: nothing about it will change."""
    trace = shown.trace
    when = trace.created.replace("T", " ")[:16]
    return RunStatus(
        id=shown.id,
        state="done" if trace.finish != "stopped" else "stopped",
        label=f"kept · {_place(trace)}",
        detail=f"{shown.name} · {when}" if shown.name else when,
        sentence=_stopped(len(trace.rounds)) if trace.finish == "stopped" else None,
    )


def _stopped(rounds: int) -> str:
    return f"Stopped after {rounds} round{'' if rounds == 1 else 's'}, so there is no verdict."


def _detail(run: Run, state: RunState) -> str:
    if state == "queued":
        return "next in the queue" if run.place <= 1 else f"number {run.place} in the queue"
    return "" if run.rounds else run.detail


def _sentence(trace: Trace, run: Run, state: RunState) -> str | None:
    rounds = len(trace.rounds)
    plural = "" if rounds == 1 else "s"
    tokens = f"{len(trace.token_ids)} tokens in {rounds} round{plural}"
    if state == "running":
        return f"{tokens}; now {run.detail}." if run.detail else f"{tokens} so far."
    if state == "stopped":
        return _stopped(rounds)
    if state == "failed":
        return f"The run broke off after {rounds} round{plural}, so there is no verdict."
    return None


def _place(trace: Trace) -> str:
    name = trace.pair.name if trace.pair.draft else trace.pair.target.name
    where = trace.environment.device_name if trace.environment.device != "cpu" else "CPU"
    return f"{name} · {where}"


def _points(history: History, shown: Shown) -> list[ChartPoint]:
    seen = [each for each in history.all_shown() if each.trace.pair == shown.trace.pair]
    seen = [each for each in seen if each.id != shown.id] + [shown]
    made = [chart_point(each.trace, each.figures, current=each.id == shown.id) for each in seen]
    return [point for point in made if point is not None]
