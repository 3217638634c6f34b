"""The player for people who may not start runs. It shows a recorded run or a stored run."""

from __future__ import annotations

from dataclasses import replace

from specviz.player.payload import RunStatus, Tour, chart_point, curves_of, payload
from specviz.ui.session.history import History, ShownRun, session_history
from specviz.ui.session.moments import linked_moment
from specviz.ui.watch.answer import kept_status, show_answer
from specviz.ui.watch.run_player import recorded_label
from specviz.ui.widgets.player import requested_rounds, show_player


def show_recording(shown: ShownRun, key: str, tour: Tour = "never", hint: str = "") -> None:
    """Show a recorded run; ``hint`` is appended to the line with the run's date."""
    trace = shown.trace
    status = RunStatus(
        id=shown.id, state="recorded", label=recorded_label(trace),
        detail=f"made on {trace.created[:10]}{hint}", recorded_only=True,
    )  # fmt: skip
    _show(shown, status, key, tour)


def show_stored(history: History, key: str) -> None:
    """Show what was opened from the library: a run, or another engine's answer."""
    if history.opened_answer is not None:
        show_answer(history.opened_answer, history, key, local=False)
    elif (shown := history.opened) is not None:
        label = recorded_label(shown.trace).removeprefix("recorded · ")
        status = kept_status(shown.trace, shown.id, shown.name or "", label)
        _show(shown, replace(status, recorded_only=True), key, "never")


def _show(shown: ShownRun, status: RunStatus, key: str, tour: Tour) -> None:
    trace, sent = shown.trace, session_history().sent_rounds
    point = chart_point(trace, shown.figures, current=True)
    data = payload(
        trace,
        status,
        start=sent.next_start(shown.id, len(trace.rounds), requested_rounds(key)),
        curves=curves_of(trace, shown.figures, None),
        points=[point] if point is not None else [],
        figures=shown.figures,
        tour=tour,
        own_speedup=shown.own_speedup,
        forked=shown.forked,
        moment=linked_moment(),
    )
    show_player(data, key=key)
